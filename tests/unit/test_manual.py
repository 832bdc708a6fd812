"""`nearmetal explain`: the manual's own text, of what people meet in messages."""

import tomllib
from pathlib import Path

import pytest

from nearmetal.console.manual import PAGES, parse_page, read_entries
from tests.command_line import called

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Busy-Host", "more than 5 % of the time of the CPUs in use went to programs that are not the trial's"),
        ("confounded", "both sides differ in a fact that is known to move this response"),
        ("service-died", "what serves ended"),
        ("question", "a sentence for people; it heads the report"),
        ("workers", "workers"),
        ("machine.vcpus", "vcpus"),
    ],
)
def test_a_word_is_explained_as_the_manual_has_it(word: str, said: str) -> None:
    ended = called("explain", word)
    assert ended.returncode == 0 and said in ended.stdout and "docs/" in ended.stdout
    assert "](" not in ended.stdout and "`" not in ended.stdout


def test_an_unknown_word_is_answered_with_the_nearest() -> None:
    ended = called("explain", "busyhost")
    assert ended.returncode == 2 and "did you mean `busy-host`?" in ended.stderr


def test_no_row_keeps_its_links() -> None:
    told = {cell for entry in read_entries() for _, cell in entry.about}
    assert len(told) > 300 and [cell for cell in told if "](" in cell] == []
    assert "what every machine under test gets: [machine] (docs/study-file.md#machine)" in told


def test_rows_and_causes_are_entries() -> None:
    head = "## Words\n| key of `two` | default | meaning |\n| --- | --- | --- |\n"
    text = head + "| `one`, `two` | `1` | [a](b.md) thing |\n"
    (entry,) = parse_page("page.md", text)
    assert entry.words == ("one", "two") and entry.heading == "Words"
    assert entry.about == (("default", "1"), ("meaning", "a (docs/b.md) thing"))


def test_each_warning_has_something_to_do_and_addresses() -> None:
    of_page = [entry for entry in read_entries() if entry.heading == "Warnings"]
    warnings = [entry for entry in of_page if "what was seen" in dict(entry.about)]
    assert len(warnings) > 40 and [entry.words for entry in warnings if "what to do" not in dict(entry.about)] == []
    (busy,) = (entry for entry in warnings if "busy-host" in entry.words)
    assert "(docs/how-to/busy-host.md)" in dict(busy.about)["what to do"]
    (confounded,) = (entry for entry in warnings if "confounded" in entry.words)
    assert "(docs/validity.md#what-confounds)" in dict(confounded.about)["what was seen"]


def test_a_wheel_has_the_pages_that_are_looked_up() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {f"docs/{page}": f"nearmetal/manual/{page}" for page in PAGES}.items() <= wheel["force-include"].items()
    assert {entry.page for entry in read_entries()} == set(PAGES)
