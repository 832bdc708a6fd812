"""A CPU that is kept free, and whether what is measured ran on it: of workloads that know nothing of isolation."""

from pathlib import Path

import pytest

from nearmetal.model import Measurement, Stage, TrialRecord, TrialStatus
from nearmetal.workloads.command import Command, read_value
from tests.order import mock_run

STUDY = """
name = "kept"
[factors]
environment = ["mock"]
isolation = ["{level}"]
[machine]
vcpus = 2
[clients]
environment = "mock"
[[workloads]]
{workload}
[design]
blocks = 1
"""
WEB = """
name = "web"
kind = "http"
duration = "1s"
"""
CAT = """
name = "cat"
kind = "command"
argv = ["cat", "/proc/sys/kernel/random/boot_id"]
response = "first"
better = "higher"
match = "([0-9])"
"""


async def ran(folder: Path, workload: str, level: str = "kernel") -> list[TrialRecord]:
    _, records = await mock_run.run(folder, STUDY.format(level=level, workload=workload))
    assert records
    return records


@pytest.mark.parametrize(("workload", "program"), [(WEB, "lighttpd"), (CAT, "cat")])
async def test_what_is_measured_is_placed_and_the_record_tells_it(tmp_path: Path, workload: str, program: str) -> None:
    (record,) = await ran(tmp_path / "run", workload)
    assert (record.status, record.reason) == (TrialStatus.OK, None)
    ((server, found),) = record.observers["placement"].items()
    assert server in record.readback["isolation"]
    assert found == {"cpu": 1, "programs": [{"program": program, "cpus": "1"}]}


async def test_without_isolation_nothing_is_placed_or_told(tmp_path: Path) -> None:
    (record,) = await ran(tmp_path / "run", WEB, "none")
    assert record.status is TrialStatus.OK
    assert "placement" not in record.observers


async def test_a_workload_that_starts_its_programs_itself_is_not_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(self: Command, stage: Stage) -> Measurement:
        ended = await stage.servers[0].exec(["cat", "/proc/sys/kernel/random/boot_id"])
        value = await read_value(self._parameters.readings["first"], ended, "server")
        return Measurement(responses={"first": self.responses["first"].of(value)}, events=1)

    monkeypatch.setattr(Command, "run", run)
    records = await ran(tmp_path / "run", CAT)
    for record in records:
        assert record.status is TrialStatus.INVALID
        assert record.reason is not None
        assert record.reason.startswith("nothing of what is measured was placed on CPU 1 of ")
        assert [warned.code for warned in record.warnings] == ["not-placed"]
