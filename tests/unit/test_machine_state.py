"""What machines tell of themselves at one instant, by one exchange each, and how far their clocks are ahead of ours."""

import base64
import json
import os
import time
from collections.abc import Mapping, Sequence

import pytest

from nearmetal.errors import MachineLost, ToolFailed
from nearmetal.lab.read_files import FilesRead
from nearmetal.model import Completed
from nearmetal.run.machine_state import MEMORY, UPTIME, Clock, MachineState, read_states
from tests.unit.workloads_stage import ScriptedMachine

HOUR_NS = 3_600_000_000_000


def told(text: str, ahead_ns: int = 0, status: int = 0) -> Completed:
    now = time.time_ns() + ahead_ns
    document = {
        "status": status,
        "started_ns": now,
        "ended_ns": now,
        "stdout": base64.b64encode(text.encode()).decode(),
    }
    return Completed(status=status, stdout=json.dumps(document).encode())


async def test_one_command_tells_all_of_a_machine_with_a_kernel_of_its_own() -> None:
    machine = ScriptedMachine("server", "10.0.0.1", lambda argv: told(f"{UPTIME}:7.50 3.00\n", HOUR_NS))
    (vitals,) = await read_states([machine], {})
    (command,) = machine.ran
    assert command[1:5] == ["at", "now", "--json", "--"] and command[5] == "grep"
    assert vitals.lines == {UPTIME: ("7.50 3.00",)}
    clock = vitals.clock
    assert clock and clock.uptime == 7.5 and clock.asked <= clock.answered
    assert clock.least_ns <= HOUR_NS <= clock.most_ns, "the bounds are sure"
    assert clock.uncertainty_ns == pytest.approx((clock.answered - clock.asked) / 2 * 1e9, abs=1e6)


async def test_machines_that_share_our_kernel_have_our_clock_and_networks_of_their_own() -> None:
    machines = [ScriptedMachine(name, "127.0.0.1", lambda argv: Completed(status=1)) for name in ("server", "client")]
    own, other = await read_states(machines, {"server": os.getpid(), "client": 1})
    assert all(machine.ran == [] for machine in machines), "to begin a command there takes long"
    assert own.lines and other.lines and own.clock and own.clock is other.clock
    assert own.clock.uncertainty_ns == own.clock.ahead_ns == 0
    assert own.lines[MEMORY] == other.lines[MEMORY]
    assert f"/proc/{os.getpid()}/net/fib_trie" in own.lines and f"/proc/{os.getpid()}/net/fib_trie" not in other.lines
    assert own.clock.uptime == pytest.approx(time.monotonic(), abs=60)


async def test_a_machine_without_grep_still_tells_the_time() -> None:
    machine = ScriptedMachine("server", "10.0.0.1", lambda argv: told("", status=127))
    (vitals,) = await read_states([machine], {})
    assert vitals.lines is None and vitals.clock is not None and vitals.clock.uptime is None


@pytest.mark.parametrize("said", [Completed(status=0, stdout=b"rubbish"), Completed(status=0, stdout=b"{}")])
async def test_rubbish_tells_nothing(said: Completed) -> None:
    (vitals,) = await read_states([ScriptedMachine("server", "10.0.0.1", lambda argv: said)], {})
    assert vitals == MachineState()


async def test_a_machine_that_cannot_be_asked_tells_nothing_and_one_that_is_lost_says_so() -> None:
    def fails(argv: list[str]) -> Completed:
        raise ToolFailed("no such file")

    machine = ScriptedMachine("server", "10.0.0.1", fails)
    assert (await read_states([machine], {}))[0].clock is None
    machine.lost = True
    with pytest.raises(MachineLost):
        await read_states([machine], {})


class ReadingMachine(ScriptedMachine):
    """Its agent reads files by itself, unless it is one of an earlier version."""

    texts: Mapping[str, str] | None = None

    async def read_files(self, paths: Sequence[str]) -> FilesRead:
        if self.texts is None:
            raise ToolFailed("this is no request")
        return FilesRead({path: self.texts[path] for path in paths if path in self.texts}, 1.0, 1.5, -2, 8)


async def test_an_agent_that_reads_files_starts_nothing() -> None:
    machine = ReadingMachine("server", "10.0.0.1", lambda argv: told(""))
    machine.texts = {UPTIME: "7.50 3.00\n", MEMORY: "MemTotal: 7 kB\nMemFree: 1 kB\n", "/else": "1"}
    (vitals,) = await read_states([machine], {})
    assert machine.ran == []
    assert vitals.lines == {UPTIME: ("7.50 3.00",), MEMORY: ("MemTotal: 7 kB",)}
    assert vitals.clock == Clock(1.0, 1.5, 7.5, -2, 8)


async def test_one_that_cannot_has_a_command_do_so() -> None:
    machine = ReadingMachine("server", "10.0.0.1", lambda argv: told(f"{UPTIME}:7.50 3.00\n"))
    (vitals,) = await read_states([machine], {})
    assert len(machine.ran) == 1 and vitals.lines == {UPTIME: ("7.50 3.00",)}
