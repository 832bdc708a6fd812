"""`nearmetal explain`: the manual's own text, of what people meet in messages."""

import re
import tomllib
from pathlib import Path

import pytest

from nearmetal.analysis.results import Verdict
from nearmetal.console import manual
from nearmetal.console.manual import PAGES, find_entries, lead_to_pages, parse_page, read_entries
from nearmetal.model.causes import Cause
from nearmetal.model.record import COSTS, TrialStatus
from nearmetal.report import words
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
        ("Not worse", "the worse end of the interval lies within the margin"),
        ("cpu_per_event", "the host's CPU time for each event"),
        ("block", "one round in which each treatment runs every workload once"),
    ],
)
def test_a_word_is_explained_as_the_manual_has_it(word: str, said: str) -> None:
    ended = called("explain", word)
    assert ended.returncode == 0 and said in ended.stdout and "docs/" in ended.stdout
    assert "](" not in ended.stdout and "`" not in ended.stdout


def test_an_installed_package_leads_to_pages_that_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = "busy-host  (Warnings: docs/validity.md)\n  see a host (docs/a/host.md#a) or b (docs/validity.md#b)"
    assert lead_to_pages(told) == told
    monkeypatch.setattr(manual, "find_installed", lambda: tmp_path)
    (tmp_path / "validity.md").touch()
    page = tmp_path / "validity.md"
    assert lead_to_pages(told) == f"busy-host  (Warnings: {page})\n  see a host or b ({page}#b)"


def test_an_unknown_word_is_answered_with_the_nearest() -> None:
    ended = called("explain", "busyhost")
    assert ended.returncode == 2 and "did you mean `busy-host`?" in ended.stderr
    parts = called("explain", "latency").stderr
    assert "`latency_p50`" in parts and "`latency_mean`" in parts
    assert "such as margin, busy-host, throughput or undecided" in called("explain", "qwertz").stderr


def test_several_words_are_explained_one_after_another() -> None:
    """As a verdict and the list of warnings are printed."""
    told = called("explain", "different,", "worse").stdout
    assert re.findall(r"^(\S.*)  \(", told, re.MULTILINE) == ["different", "better, worse"]
    assert called("explain", "different, worse").stdout == told
    ended = called("explain", "margin", "qwertz")
    assert ended.returncode == 2 and "the manual has no 'qwertz'" in ended.stderr
    assert "the manual has no 'asdf qwertz'" in called("explain", "asdf", "qwertz").stderr


def test_words_that_the_product_prints_are_entries() -> None:
    """Verdicts, why there is none, statuses, causes, responses, and the glossary's words."""
    entries = read_entries()
    printed = {*Verdict, *TrialStatus, *words.REASONS, *Cause, *COSTS, "fairness", "interval", "treatment", "margin"}
    assert [one for one in sorted(printed) if not find_entries(entries, one)] == []
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    rows = {row.strip() for row in re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE)} - {
        "---",
        "word",
        "verdict",
        "status",
    }
    assert len(rows) > 50 and [row for row in sorted(rows) if not find_entries(entries, row.split(", ")[0])] == []


def test_what_only_tests_use_is_no_entry() -> None:
    told = find_entries(read_entries(), "docker")
    assert len(told) > 2 and [entry for entry in told if "in make test" in dict(entry.about)] == []
    assert [
        entry for entry in find_entries(read_entries(), "qemu") if "milliseconds, median" in dict(entry.about)
    ] == []


def test_a_key_with_its_table_is_that_tables() -> None:
    found = find_entries(read_entries(), "clients.cpus")
    assert [one.heading for one in found] == ["[clients]", "What else is read back"]


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
