"""The factor `contention`: which levels there are, and what goes on beside a server at each."""

from pathlib import Path

import pytest

from nearmetal.model import Level, MachineSpec
from nearmetal.treatments.contention import KINDS, plugin
from tests.order import mock_run


@pytest.mark.parametrize(
    "level", ["none", "cpu", "io", "memory", "cpu,io", "memory,io,cpu", "cpu:4", "cpu:1,io:1000", "memory,io:2"]
)
def test_levels_that_there_are(level: Level) -> None:
    assert plugin.problem(level) is None


@pytest.mark.parametrize(
    "level",
    [
        True,
        False,
        1,
        "",
        "disk",
        "cpu,none",
        "cpu,cpu",
        "cpu, io",
        "CPU",
        "cpu:0",
        "cpu:",
        "cpu:1001",
        "cpu:2,cpu:3",
        "cpu:-1",
        "cpu:x",
    ],
)
def test_others_are_told_what_there_is(level: Level) -> None:
    told = plugin.problem(level)
    assert told is not None
    assert all(name in told for name in ('"none" for no neighbour', "with 1 to 1000 workers", *KINDS))


def test_none_leaves_a_machine_alone() -> None:
    spec = MachineSpec(vcpus=2)
    assert plugin.shape(spec, "none") is spec


@pytest.mark.parametrize(("kind", "workers"), [("cpu", "--cpu"), ("io", "--hdd"), ("memory", "--vm")])
@pytest.mark.parametrize("vcpus", [1, 8])
def test_each_kind_has_as_many_workers_as_the_server_has_processors(kind: str, workers: str, vcpus: int) -> None:
    (program,) = plugin.shape(MachineSpec(vcpus=vcpus), kind).neighbours
    assert program[0] == "stress-ng"
    assert program[program.index(workers) + 1] == str(vcpus)
    assert program[program.index("--timeout") + 1] == "0", "it goes on as long as it is needed"


def test_a_level_can_say_how_many_workers() -> None:
    shaped = plugin.shape(MachineSpec(vcpus=2), "cpu:5,io")
    assert shaped.neighbours == (KINDS["cpu"](5), KINDS["io"](2))


def test_memory_stays_within_what_a_neighbour_has() -> None:
    for vcpus in (1, 3, 8, 64, 1000):
        (program,) = plugin.shape(MachineSpec(vcpus=vcpus), "memory").neighbours
        each = int(program[program.index("--vm-bytes") + 1].removesuffix("m"))
        assert each >= 1
        assert each * vcpus <= 1000


def test_several_kinds_go_on_at_once_beside_what_the_study_names() -> None:
    own = ("sleep", "600")
    shaped = plugin.shape(MachineSpec(vcpus=2, neighbours=(own,)), "cpu,io")
    assert shaped.neighbours == (own, KINDS["cpu"](2), KINDS["io"](2))


STUDY = mock_run.STUDY.replace("[clients]", 'contention = ["none", "cpu"]\n[clients]').replace(
    "blocks = 2", "blocks = 1"
)


async def test_a_trial_tells_what_went_on_beside_it(tmp_path: Path) -> None:
    """The pretended world has no host, so the neighbours are pretended too."""
    study = STUDY.replace("[factors]", '[environments.host]\nkind = "mock"\n[factors]')
    _, records = await mock_run.run(tmp_path / "run", study)
    assert {record.status for record in records} == {"ok"}
    for record in records:
        expected = {"running": [" ".join(KINDS["cpu"](1))]}
        assert record.readback.get("neighbours") == (
            expected if record.trial.treatment["contention"] == "cpu" else None
        )
    assert await mock_run.left_over() == []
