"""What a site did besides the trial, from two readings of its kernel's counters."""

from pathlib import Path

import pytest

from nearmetal.errors import MachineLost, ToolFailed
from nearmetal.model import Completed, Cost
from nearmetal.run import contention
from nearmetal.run.contention import Accounts, ContentionReading, list_warnings, measure_contention, parse
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage

STAT = """\
cpu  300 0 80 500 20 7 13 80 40 0
cpu0 100 0 30 250 10 3 7 0 0 0
cpu1 200 0 50 250 10 4 6 80 40 0
intr 5 0
"""


def after(stat: str, seconds: float = 10.0, pressure: str = "") -> ContentionReading:
    return parse(stat, pressure, 100.0 + seconds)


def accounts(reading: ContentionReading, *cpu_seconds: float | None) -> Accounts:
    costs = tuple(None if one is None else Cost(cpu_seconds=one, memory_bytes=1) for one in cpu_seconds)
    return Accounts(costs, {"local": reading})


IDLE = "".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0\n" for cpu in range(4))


def ticks(cpu: int, *, user: int = 0, system: int = 0, softirq: int = 0, steal: int = 0) -> str:
    """Ten seconds of a CPU; what is left is idle."""
    idle = 1000 - user - system - softirq - steal
    return f"cpu{cpu} {user} 0 {system} {idle} 0 0 {softirq} {steal} 0 0\n"


def told(
    stat: str, spent: tuple[float | None, ...], cpusets: tuple[str, ...], crowded: bool = False
) -> dict[str, object]:
    start = accounts(parse(IDLE, "some avg10=0.00 total=1000000", 100.0), *(None if s is None else 0.0 for s in spent))
    end = accounts(after(stat, pressure="some avg10=9.00 avg60=1.0 avg300=0.0 total=3000000\nfull total=9"), *spent)
    one: dict[str, object] = measure_contention(start, end, [("local", cpus) for cpus in cpusets], crowded)["local"]
    return one


def test_guests_are_counted_once_and_interrupts_are_nobodys() -> None:
    reading = parse(STAT, "", 1.0)
    assert reading.ticks[0].processes == 130 and reading.ticks[0].total == 400
    assert reading.ticks[1].processes == 250 and reading.ticks[1].stolen == 80
    assert reading.pressure is None


def test_a_trial_alone_on_its_host() -> None:
    stat = ticks(0, user=900, softirq=90) + ticks(1, user=380, system=20) + ticks(2, user=1000) + ticks(3)
    alone = told(stat, (4.0, 9.0), ("1", "0"))
    assert alone == {"seconds": 10.0, "cpus": "0-1", "stolen": 0.0, "others": 0.0, "pressure": 0.2}
    assert list_warnings({"local": alone}) == []


def test_what_others_use_of_the_trials_cpus_is_warned_of() -> None:
    stat = ticks(0, user=900) + ticks(1, user=600) + ticks(2) + ticks(3)
    busy = told(stat, (4.0, 9.0), ("1", "0"))
    assert busy["others"] == pytest.approx(0.1)
    (warning,) = list_warnings({"local": busy})
    assert warning.code == "busy-host"
    assert "10.0 %" in warning.text


def test_a_machine_without_cpus_of_its_own_may_run_on_all() -> None:
    stat = ticks(0, user=900) + ticks(1) + ticks(2, user=1000) + ticks(3)
    assert told(stat, (9.0,), ("",))["others"] == pytest.approx(0.25)


def test_stolen_time_is_warned_of() -> None:
    stolen = told(ticks(0, steal=60) + ticks(1), (0.0, 0.0), ("0", "1"))
    assert stolen["stolen"] == pytest.approx(0.03)
    (warning,) = list_warnings({"far": stolen})
    assert warning.code == "steal"
    assert "the host far was itself denied 3.0 % of the time" in warning.text


@pytest.mark.parametrize(("spent", "crowded"), [((None, 1.0), False), ((1.0, None), False), ((1.0, 1.0), True)])
def test_where_it_cannot_be_told_nobody_is_blamed(spent: tuple[float | None, ...], crowded: bool) -> None:
    stat = ticks(0, user=1000) + ticks(1, user=1000)
    unknown = told(stat, spent, ("0", "1"), crowded)
    assert unknown["others"] is None
    assert list_warnings({"local": unknown}) == []


def test_a_machine_on_another_site_does_not_count_here() -> None:
    start = Accounts((Cost(cpu_seconds=0, memory_bytes=1), None), {"local": parse(IDLE, "", 0.0)})
    end = Accounts((Cost(cpu_seconds=5, memory_bytes=1), None), {"local": after(ticks(0, user=500))})
    there = measure_contention(start, end, [("local", "0"), ("far", "0")], False)
    assert there["local"]["others"] == 0.0
    assert "far" not in there


def test_less_than_a_second_is_not_judged() -> None:
    short = {"seconds": 0.9, "cpus": "0", "stolen": 0.5, "others": 0.5, "pressure": None}
    assert list_warnings({"local": short}) == []
    assert len(list_warnings({"local": {**short, "seconds": 1.0}})) == 2


def test_the_kernel_of_this_host_is_understood() -> None:
    """Counters only grow, and a reading of the real thing has them."""
    first, second = (parse(Path("/proc/stat").read_text(), "", at) for at in (0.0, 1.0))
    assert first.ticks
    for cpu, counted in first.ticks.items():
        assert 0 <= counted.processes + counted.stolen <= counted.total <= second.ticks[cpu].total


class Site:
    """A site of which some files can be read."""

    name = "local"

    def __init__(self, **files: str) -> None:
        self.files = files

    async def get(self, path: str) -> bytes:
        name = path.removeprefix("/proc/").replace("/", "_")
        if name not in self.files:
            raise ToolFailed(f"cannot read {path}", self.name)
        return self.files[name].encode()


async def test_a_kernel_that_does_not_count_pressure_is_read_all_the_same() -> None:
    without = await contention._read(Site(stat=STAT))  # type: ignore[arg-type]
    assert without is not None and without.pressure is None and len(without.ticks) == 2
    with_pressure = await contention._read(Site(stat=STAT, pressure_cpu="some avg10=0 total=2500000\n"))  # type: ignore[arg-type]
    assert with_pressure is not None and with_pressure.pressure == 2.5
    assert await contention._read(Site()) is None  # type: ignore[arg-type]


async def test_a_machine_of_which_no_account_tells_is_asked_whether_it_is_there() -> None:
    server, client = (ScriptedMachine(name, "", lambda argv: Completed(status=0)) for name in ("server0", "client0"))
    stage = ScriptedStage([server], [client])
    await contention.require_machines(stage, accounts(after(IDLE), 1.0, None))
    assert (server.ran, client.ran) == ([], [["true"]])
    client.lost = True
    with pytest.raises(MachineLost):
        await contention.require_machines(stage, accounts(after(IDLE), 1.0, None))
