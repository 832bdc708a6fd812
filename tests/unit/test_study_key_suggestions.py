"""What people try first is answered with what to write in its place."""

from pathlib import Path

import pytest

from nearmetal import studies
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.machine_image import find_image
from nearmetal.study.study_file import read

STUDY = studies.read_study_file("quickstart")


@pytest.mark.parametrize(
    ("old", "new", "what", "remedy"),
    [
        ("workers  = 4", "connections = 100", "unknown key `connections`", "write workers = 100: each worker has one"),
        ("workers  = 4", "port = 8080", "unknown key `port`", 'write url = "http://$server:8080/"; or if'),
        ("workers  = 4", "port = 8080", "unknown key `port`", "with [services.app] and its port"),
        (
            'name     = "quickstart"',
            'name = "quickstart"\nkernel = ["6.1", "host"]',
            "`kernel` cannot be a list",
            'to compare kernels, write kernel = ["6.1", "host"] under [factors]',
        ),
        ("vcpus  = 1", "vcpus = [1, 2]", "`machine.vcpus` cannot be a list", "write vcpus = [1, 2] under [factors]"),
        (
            'name     = "quickstart"',
            'name = "quickstart"\nenvironment = ["host"]',
            "unknown key `environment`",
            'it is a factor: write environment = ["host"] under [factors]',
        ),
    ],
)
def test_what_is_tried_first_is_answered(old: str, new: str, what: str, remedy: str) -> None:
    assert old in STUDY
    with pytest.raises(BadInput) as refused:
        read(STUDY.replace(old, new, 1), "mine.toml")
    assert what in refused.value.what and remedy in refused.value.remedy


TOP = ['question = "x?"', 'reference = { environment = "host" }', 'link = { rate = "1Mbit/s" }']


@pytest.mark.parametrize("line", TOP)
@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("design", "unknown key `design.{}`"),
        ("design.blocks", "unknown key `design.blocks.{}`"),
        ("machine", "unknown key `machine.{}`"),
        ("clients", "unknown key `clients.{}`"),
        ("observe", "there is no observer '{}'"),
        ("factors", "`{}` has no levels, and cannot be a factor"),
        ("factors.workers", "unknown key `factors.workers.{}`"),
        ("environments.other", "unknown key `{}` in an environment of kind mock"),
        ("[workloads]", "unknown key `{}` in a workload of kind ping"),
    ],
)
def test_a_key_of_the_top_below_a_table_is_told_where_it_stands(table: str, what: str, line: str) -> None:
    key = line.split()[0]
    before = {
        "design.blocks": "min = 6\nmax = 12\n",
        "factors": 'environment = ["mock"]\n',
        "factors.workers": "levels = [1]\n",
        "environments.other": 'kind = "mock"\n',
        "[workloads]": 'name = "p"\nkind = "ping"\n',
    }
    text = 'name = "s"\n'
    if table != "factors":
        text += '[factors]\nenvironment = ["mock"]\n'
    if table != "[workloads]":
        text += '[[workloads]]\nname = "p"\nkind = "ping"\n'
    with pytest.raises(BadInput) as refused:
        read(f"{text}[{table}]\n{before.get(table, '')}{line}\n", "mine.toml")
    assert what.format(key) == refused.value.what
    assert refused.value.remedy == f"`{key}` stands at the top of the file, above the first [table]"


def test_a_key_of_the_top_that_is_set_in_a_table_is_told_how_to_set_it() -> None:
    with pytest.raises(BadInput) as refused:
        read(STUDY, "mine.toml", ["design.question=x"])
    assert refused.value.remedy == "`question` is a key of its own: --set question=…"


def test_a_factor_that_fills_a_placeholder_and_is_called_as_a_key_is_told_of_both() -> None:
    text = STUDY.replace("[factors]", "[factors]\nrate = [100, 200]", 1).replace("workers  = 4", 'rate = "{rate}"', 1)
    with pytest.raises(BadInput) as refused:
        read(text, "mine.toml")
    assert "By its name this factor sets link.rate, besides filling the placeholder {rate}" in refused.value.what
    assert refused.value.remedy.startswith("give a factor that shall only fill a placeholder another name")


@pytest.mark.parametrize(
    ("override", "remedy"),
    [
        ("environment=host", "it is a factor: --set 'factors.environment=[\"host\"]'"),
        ("factors.environment=host", "--set 'factors.environment=[\"host\"]'"),
        ("workers=8", "it is a key of a workload: --set workloads.web.workers=…"),
        ("blocks=3", "did you mean `design.blocks`?"),
        ("cpus=1", "did you mean `machine.cpus` or `clients.cpus`?"),
        ("memory=1GiB", "it is a key of [machine]: --set machine.memory=…"),
    ],
)
def test_what_is_set_in_the_wrong_place_is_answered_in_the_words_of_the_command_line(
    override: str, remedy: str
) -> None:
    with pytest.raises(BadInput) as refused:
        read(STUDY, "mine.toml", [override])
    assert refused.value.remedy == remedy


def test_what_the_remedy_says_is_taken() -> None:
    read(STUDY, "mine.toml", ['factors.environment=["host", "docker"]'])
    read(STUDY, "mine.toml", ["workloads.web.workers=8", "machine.memory=1GiB"])


def test_an_archive_that_is_named_as_an_image_is_told_how_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path))
    with pytest.raises(HostCannot) as refused:
        find_image("api.tar.gz")
    assert refused.value.remedy == 'nearmetal image build --from api.tar.gz --name api; then write image = "api"'
