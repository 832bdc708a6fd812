"""Equal kernels: what a boot sets on servers and clients before it measures, and what it finds when it has."""

from pathlib import Path

import pytest

from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.mock import programs, world
from nearmetal.lab.mock.programs import Call
from nearmetal.model import Completed, TrialStatus
from nearmetal.run.events import Step
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.kernel_table import TABLE
from tests.order import mock_run

CONTROL = "net.ipv4.tcp_congestion_control"


@pytest.fixture(autouse=True)
def bbr(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pretended machines have when they boot."""
    monkeypatch.setitem(world._SYSCTLS, CONTROL, "bbr")


def studied(more: str) -> str:
    return mock_run.STUDY.replace("[design]", f"{more}\n[design]")


async def test_a_study_that_says_nothing_has_its_kernels_aligned_and_the_table_in_its_manifest(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(event: object) -> None:
        if isinstance(event, Step) and (event.name, event.state) == ("measure", "begins"):
            seen.extend(path.read_text() for path in ledgers_folder().glob("*.jsonl"))

    _, records = await mock_run.run(tmp_path / "run", listener=look)
    assert {record.status for record in records} == {TrialStatus.OK}
    for record in records:
        assert {role: told[CONTROL] for role, told in record.readback["kernels"].items()} == {
            "server": "cubic",
            "client": "cubic",
        }
        assert record.warnings == ()
    assert all('"before":"bbr"' in ledger.replace(" ", "") for ledger in seen) and seen
    assert RunFolder(tmp_path / "run").read_manifest().plan.kernel_table == TABLE
    assert await mock_run.left_over() == []


async def test_kernels_are_left_alone_where_the_study_says_so(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run", studied('[kernel]\nalign = "off"'))
    assert all("kernels" not in record.readback for record in records)
    assert RunFolder(tmp_path / "run").read_manifest().plan.kernel_table is None


async def test_a_fixed_value_goes_before_the_table_and_a_factor_before_both(tmp_path: Path) -> None:
    fixed = f'[kernel.sysctl]\n{CONTROL} = "reno"\nnet.ipv4.tcp_autocorking = 0'
    _, records = await mock_run.run(tmp_path / "fixed", studied(fixed))
    assert {record.readback["kernels"]["client"][CONTROL] for record in records} == {"reno"}
    assert {record.readback["kernels"]["server"]["net.ipv4.tcp_autocorking"] for record in records} == {"0"}
    factor = f'{fixed}\n[factors.congestion]\nlevels = ["cubic", "vegas"]\nsets = "sysctl.{CONTROL}"'
    _, records = await mock_run.run(tmp_path / "factor", studied(factor))
    found = {
        (record.trial.treatment["congestion"], record.readback["kernels"]["server"][CONTROL]) for record in records
    }
    assert found == {("cubic", "cubic"), ("vegas", "vegas")}


@pytest.mark.parametrize(
    ("sysctl", "reason"),
    [
        ("net.ipv4.tcp_unheard = 1", "the server has no sysctl net.ipv4.tcp_unheard: correct the name"),
        ("net.ipv4.tcp_autocorking = 7", "the server has net.ipv4.tcp_autocorking = 1, not 7: choose a value"),
    ],
)
async def test_a_value_that_is_not_there_or_not_taken_is_the_trials_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sysctl: str, reason: str
) -> None:
    async def refuse(call: Call) -> Completed:
        if call.argv[-1].endswith("=7"):
            return Completed(status=255, stderr=b"sysctl: setting key: Invalid argument")
        return await kept(call)

    kept = programs.PROGRAMS["sysctl"]
    monkeypatch.setitem(programs.PROGRAMS, "sysctl", refuse)
    _, records = await mock_run.run(tmp_path / "run", studied(f"[kernel.sysctl]\n{sysctl}"))
    assert {record.status for record in records} == {TrialStatus.INVALID}
    assert all(reason in str(record.reason) for record in records), records[0].reason


async def test_a_value_of_the_table_that_is_refused_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(call: Call) -> Completed:
        if "-w" in call.argv:
            return Completed(status=255, stderr=b"sysctl: setting key: Operation not permitted")
        return await kept(call)

    kept = programs.PROGRAMS["sysctl"]
    monkeypatch.setitem(programs.PROGRAMS, "sysctl", refuse)
    _, records = await mock_run.run(tmp_path / "run")
    for record in records:
        assert record.status is TrialStatus.OK
        assert record.readback["kernels"]["server"][CONTROL] == "bbr"
        (_, warning) = record.warnings
        assert (
            warning.code == "change-refused"
            and f"the client keeps {CONTROL} = bbr, because its kernel refuses cubic there" in warning.text
        )


async def test_a_value_that_changes_while_it_is_measured_is_not_as_declared(tmp_path: Path) -> None:
    def change(event: object) -> None:
        if isinstance(event, Step) and (event.name, event.state) == ("measure", "ended"):
            there = world.World("local")
            for state in list(there.machines()):
                there.save({**state, "sysctls": {**state["sysctls"], CONTROL: "bbr"}})

    _, records = await mock_run.run(tmp_path / "run", listener=change)
    assert {(record.status, record.cause) for record in records} == {(TrialStatus.INVALID, "not-as-declared")}
    assert f"{CONTROL} on the server is bbr, not cubic" in str(records[0].reason)
