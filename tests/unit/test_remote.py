"""Machines reached from outside: by an SSH server, and by the probe's agent, both real, on loopback.

Nobody reboots here: the far side is this host.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, TimedOut, ToolFailed
from nearmetal.lab import machine_programs
from nearmetal.lab.commands import background_commands
from nearmetal.lab.remote.machine import ReachedMachine
from nearmetal.lab.ssh import commands as ssh_commands
from tests.agent_server import agent_machine, agent_serving, needs_probe
from tests.ssh_server import machine_at, serving

pytestmark = needs_probe


@pytest_asyncio.fixture(params=["ssh", "agent"])
async def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ReachedMachine]:
    if request.param == "ssh":
        async with serving() as server:
            machine: ReachedMachine = machine_at(server.get_port())
            await machine.connect()
            yield machine
            await machine.close()
    else:
        async with agent_serving(tmp_path_factory.mktemp("agent")) as endpoint:
            machine = agent_machine(endpoint)
            await machine.connect()
            yield machine


async def test_it_tells_who_it_is(machine: ReachedMachine) -> None:
    assert machine.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert machine.arch == os.uname().machine


async def test_a_command_tells_its_status_and_both_streams(machine: ReachedMachine) -> None:
    ended = await machine.exec(["sh", "-c", "cat; echo 12 >&2; exit 7"], stdin=b"\0in\xff")
    assert (ended.status, ended.stdout, ended.stderr) == (7, b"\0in\xff", b"12\n")
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["sh", "-c", "kill -9 $$"])).status == 137


async def test_a_program_that_is_given_nothing_to_read_comes_to_the_end_of_it(
    machine: ReachedMachine, tmp_path: Path
) -> None:
    assert (await machine.exec(["cat"], timeout=10)).stdout == b""
    assert (await (await machine.spawn(["cat"])).wait(10)).stdout == b""
    await machine.put(b"", str(tmp_path / "empty"))
    assert await machine.get(str(tmp_path / "empty")) == b""


async def test_much_goes_in_and_out(machine: ReachedMachine) -> None:
    content = os.urandom(4 * 2**20)
    assert (await machine.exec(["cat"], stdin=content)).stdout == content


async def test_the_environment_is_exactly_what_programs_have_everywhere(
    machine: ReachedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "1")
    ended = await machine.exec(["/usr/bin/env", "-0"], env={"ODD": "a b'c\n$d", "EMPTY": ""})
    variables = dict(line.split("=", 1) for line in ended.text.split("\0") if line)
    assert variables.keys() == {*machine_programs.ENVIRONMENT, "ODD", "EMPTY"}
    assert variables["ODD"] == "a b'c\n$d"


async def test_files_go_in_and_out_whole(machine: ReachedMachine, tmp_path: Path) -> None:
    path = str(tmp_path / "new folder" / "a'b\n$(id)" / "-rf")
    content = bytes(range(256)) * 12_000
    await machine.put(content, path, mode=0o750)
    assert await machine.get(path) == content
    assert Path(path).stat().st_mode & 0o777 == 0o750
    with pytest.raises(ToolFailed, match="No such file"):
        await machine.get("/nowhere")
    with pytest.raises(HostCannot, match="cannot write"):
        await machine.put(b"", f"{path}/below")


async def gone(pid: int) -> bool:
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return True
        await asyncio.sleep(0.02)
    return False


async def written(path: Path) -> int:
    for _ in range(500):
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} was not written")


async def test_what_does_not_end_in_time_is_killed_with_all_it_started(machine: ReachedMachine, tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! >{tmp_path}/child; trap '' TERM; wait"
    with pytest.raises(TimedOut, match="within 1 s"):
        await machine.exec(["sh", "-c", script], timeout=1)
    assert await gone(await written(tmp_path / "child"))


async def test_who_gives_up_waiting_leaves_nothing_running(machine: ReachedMachine, tmp_path: Path) -> None:
    task = asyncio.create_task(machine.exec(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 300"]))
    pid = await written(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(pid)


async def test_what_left_its_group_does_not_hold_us_up(machine: ReachedMachine, tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60' & wait"
    with pytest.raises(TimedOut):
        await asyncio.wait_for(machine.exec(["sh", "-c", script], timeout=1), 30)
    os.kill(await written(tmp_path / "pid"), 9)
    assert (await machine.exec(["true"])).status == 0


async def test_a_background_program_is_told_to_end(machine: ReachedMachine, tmp_path: Path) -> None:
    script = f"trap 'echo bye; exit 3' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.05; done"
    running = await machine.spawn(["sh", "-c", script])
    await written(tmp_path / "pid")
    with pytest.raises(TimedOut):
        await running.wait(0.05)
    ended = await running.stop()
    assert (ended.status, ended.stdout) == (3, b"bye\n")
    assert await running.stop() == ended


async def test_one_that_stands_still_ends_when_it_is_told_to(machine: ReachedMachine) -> None:
    running = await machine.spawn(["sh", "-c", "kill -STOP $$; exec sleep 600"])
    assert (await running.stop()).status == 128 + signal.SIGTERM


async def test_a_stubborn_one_is_killed(
    machine: ReachedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ssh_commands, background_commands):
        monkeypatch.setattr(module, "LIMITS", type(LIMITS)(stop=0.2))
    running = await machine.spawn(["sh", "-c", f"trap '' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 1; done"])
    pid = await written(tmp_path / "pid")
    assert (await running.stop()).status == 137
    assert await gone(pid)


async def test_many_commands_run_at_once(machine: ReachedMachine) -> None:
    ended = await asyncio.gather(*(machine.exec(["echo", str(number)]) for number in range(20)))
    assert [one.text for one in ended] == [f"{number}\n" for number in range(20)]


async def test_a_word_that_no_program_can_be_given_is_refused(machine: ReachedMachine) -> None:
    with pytest.raises(BadInput, match="zero byte"):
        await machine.exec(["echo", "a\0b"])


async def test_what_ended_unheard_is_told_when_somebody_asks(machine: ReachedMachine) -> None:
    running = await machine.spawn(["sh", "-c", "echo begun; echo more; exit 4"])
    ended = await running.wait(10)
    assert (ended.status, ended.stdout) == (4, b"begun\nmore\n")


async def test_a_program_that_reads_nothing_of_what_it_is_given_ends_all_the_same(machine: ReachedMachine) -> None:
    ended = await machine.exec(["sh", "-c", "exec 0<&-; echo done"], stdin=bytes(2**22))
    assert (ended.status, ended.stdout) == (0, b"done\n")
