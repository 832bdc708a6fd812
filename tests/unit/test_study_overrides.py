"""What `--set` and `--quick` lay over a study file, and whom mistakes in that are blamed on."""

import pytest

from nearmetal.errors import BadInput
from nearmetal.model import SequentialBlocks, Study
from nearmetal.study import study_file
from tests.unit.study_text import GOOD, line, refused


def read(*overrides: str, quick: bool = False) -> Study:
    return study_file.read(GOOD, "s.toml", overrides, quick)


def test_the_command_line_sets_keys_of_any_depth_and_type() -> None:
    assert read("machine.vcpus=1").machine.vcpus == 1
    assert read("machine.nic=e1000").machine.nic == "e1000"
    assert read('machine.nic="e1000"').machine.nic == "e1000"
    assert read("design.blocks={min=8, max=12}").design.blocks == SequentialBlocks(min=8, max=12)
    assert read("factors.workers=[2]", "reference.workers=2").factors["workers"].levels == (2,)
    assert read('environments."odd.name".kind=mock').environments["odd.name"].kind == "mock"
    assert read('workloads=[{name="web", duration="9s"}]').workloads[0].parameters["duration"] == "9s"


@pytest.mark.parametrize("bad", ["nonsense", "=1", "a..b=1", "a b=1", ".=1", "design.blocks", "", "a=1\nb=2", "[a]=1"])
def test_what_is_no_key_and_value_is_told(bad: str) -> None:
    with pytest.raises(BadInput, match="is not KEY=VALUE"):
        read(bad)


def test_a_mistake_on_the_command_line_is_not_blamed_on_the_file() -> None:
    error = refused(GOOD, overrides=["machine.vcpus=0"])
    assert error.where == "s.toml, --set machine.vcpus=0"
    error = refused(GOOD, overrides=["machine.vcps=1"])
    assert error.where == "s.toml, --set machine.vcps=1"
    assert "did you mean `vcpus`" in error.remedy
    sequential = GOOD.replace("blocks = 6", "blocks = { min = 6, max = 12 }")
    assert refused(sequential, overrides=["design.blocks.min=30"]).where == "s.toml, --set design.blocks.min=30"


@pytest.mark.parametrize(
    ("old", "new", "overrides", "place", "remedy"),
    [
        (
            'memory = "512MiB"',
            "cpus = 7",
            [],
            "good.toml:22",
            'it must be a text: write cpus = "7"; it says which CPUs of the host, and `machine.vcpus` how many',
        ),
        (
            "",
            "",
            ["machine.cpus=7"],
            "good.toml, --set machine.cpus=7",
            """it must be a text: write --set 'machine.cpus="7"'; it says which CPUs of the host, """
            "and `machine.vcpus` how many",
        ),
        ("", "", ["machine.image=true"], "good.toml, --set machine.image=true", None),
        ('question = "Is it?"', "question = 1.5", [], "good.toml:2", 'it must be a text: write question = "1.5"'),
        (
            "",
            "",
            ["machine.kernel_arguments=[3]"],
            "good.toml, --set machine.kernel_arguments=[3]",
            'it must be a text: write "3"',
        ),
    ],
)
def test_a_number_for_a_text_is_told_with_how_the_text_is_written(
    old: str, new: str, overrides: list[str], place: str, remedy: str | None
) -> None:
    with pytest.raises(BadInput) as caught:
        study_file.read(GOOD.replace(old, new, 1), "good.toml", overrides)
    assert caught.value.where == place
    assert caught.value.remedy == (remedy or """it must be a text: write --set 'machine.image="true"'""")


def test_an_environment_without_a_kind_is_told_kinds_of_environments() -> None:
    with pytest.raises(BadInput, match=r"`environments.metal.kind` is missing") as caught:
        study_file.read(GOOD, "good.toml", ["environments.metal.runtime=runsc"])
    assert caught.value.remedy.startswith('add it: kind = "host", or another of docker, host, libvirt')
    assert "http" not in caught.value.remedy


def test_a_workload_without_a_kind_is_told_one_of_workloads() -> None:
    with pytest.raises(BadInput, match=r"`kind` of the first workload is missing") as caught:
        study_file.read(GOOD.replace('kind = "http"\n', ""), "good.toml")
    assert caught.value.remedy == 'add it: kind = "http"'


def test_the_text_that_was_read_first_stays_as_it_is() -> None:
    assert read("design.blocks=3").design.blocks == 3
    assert read().design.blocks == 6


def test_a_key_of_a_workload_is_set_by_the_workloads_name() -> None:
    text = GOOD + '[[workloads]]\nname = "a.b"\nkind = "http"\nduration = "1s"\n'
    set_ = study_file.read(text, "s.toml", ["workloads.web.duration=5s", 'workloads."a.b".workers=3'])
    assert [workload.parameters.get("duration") for workload in set_.workloads] == ["5s", "1s"]
    assert [workload.parameters.get("workers") for workload in set_.workloads] == ["{workers}", 3]
    web = read('workloads.web={primary = "latency_p50"}').workloads[0]
    assert (web.primary, web.parameters["duration"]) == ("latency_p50", "1s")


@pytest.mark.parametrize(
    ("override", "what", "remedy"),
    [
        ("workloads.wab.duration=5s", "there is no workload 'wab'", "did you mean `web`?"),
        ("workloads.other.duration=5s", "there is no workload 'other'", "workloads: web"),
        ("workloads.0.duration=5s", "there is no workload '0'", "workloads: web"),
        ("workloads.web=5s", "a key of it can be set", "--set workloads.web.duration=5s"),
        ("workloads.web.duration=5", "5 has no unit", ""),
        ("workloads.web.duraton=5s", "unknown key `duraton`", "did you mean `duration`?"),
        ("workloads.web.kind=htp", "no kind of workload 'htp'", "did you mean `http`?"),
        ("workloads.web.path=\x07", "control character", "remove it"),
        ("workloads=5", "no list of workloads", ""),
    ],
)
def test_what_of_a_workload_cannot_be_set_is_told_with_the_option(override: str, what: str, remedy: str) -> None:
    error = refused(GOOD, overrides=[override])
    assert error.where == f"s.toml, --set {override}".replace("\x07", "\\x07")
    assert what in error.what
    assert remedy in error.remedy


def test_a_workload_of_the_quick_version_alone_is_set_there_alone() -> None:
    text = GOOD + '[[quick.workloads]]\nname = "n"\nkind = "http"\n'
    quick = study_file.read(text, "s.toml", ["workloads.n.duration=3s"], quick=True)
    assert quick.workloads[1].parameters == {"duration": "3s"}
    assert "there is no workload 'n'" in refused(text, overrides=["workloads.n.duration=3s"]).what


def test_quick_lays_its_table_over_the_others() -> None:
    assert read(quick=True).design.blocks == 2
    assert read("design.blocks=5", quick=True).design.blocks == 5
    text = GOOD + '[[quick.workloads]]\nname = "web"\nduration = "2s"\n[[quick.workloads]]\nname = "n"\nkind = "http"\n'
    quick = study_file.read(text, "s.toml", quick=True)
    assert [workload.name for workload in quick.workloads] == ["web", "n"]
    assert quick.workloads[0].parameters["duration"] == "2s"
    assert study_file.read(text, "s.toml").workloads[0].parameters["duration"] == "1s"


@pytest.mark.parametrize(
    ("entry", "points_at", "what", "remedy"),
    [
        ('name = "wbe"\nduration = "2s"\n', 'name = "wbe"', "there is no workload 'wbe'", "did you mean `web`?"),
        ('name = "x"\nduration = "2s"\n', 'name = "x"', "there is no workload 'x'", "a new one needs `kind`"),
        ('name = "n"\nkind = "htp"\n', 'kind = "htp"', "there is no kind of workload 'htp'", "did you mean `http`?"),
        ('name = "n"\nkind = "http"\nbla = 1\n', "bla = 1", "`bla`", ""),
        ('duration = "2s"\n', "[[quick.workloads]]", "`name` of the second workload is missing", "add it"),
    ],
)
def test_a_mistake_in_a_workload_of_the_quick_version_is_shown_where_it_stands(
    entry: str, points_at: str, what: str, remedy: str
) -> None:
    text = f"{GOOD}\n[[quick.workloads]]\n{entry}"
    error = refused(text)
    assert error.where == f"s.toml:{line(points_at, text)}"
    assert what in error.what
    assert remedy in error.remedy


@pytest.mark.parametrize("written", ["quick.design.blocks=3", "quick.workloads.web.duration=1s"])
def test_what_quick_says_is_set_by_its_own_key(written: str) -> None:
    found = refused(GOOD, overrides=[written], quick=True)
    assert found.where == f"s.toml, --set {written}" and "leave out `quick.`" in found.remedy


def test_quick_without_a_quick_table_is_told() -> None:
    assert "no [quick] table" in refused(GOOD.replace("[quick.design]\nblocks = 2", ""), quick=True).what
    assert "`quick` is not a table" in refused("quick = 1\n" + GOOD.replace("[quick.design]\nblocks = 2", "")).what
