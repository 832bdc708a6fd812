"""What befalls a machine while it is measured: deeds, each of which is done to the stage of a running trial."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from nearmetal.errors import MachineLost
from nearmetal.lab.changes.congestion import NetworkOwner
from nearmetal.lab.containers.api import ContainerEngine
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Machine, Stage

GROUPS = Path("/sys/fs/cgroup")
HAS_VERSION_2 = (GROUPS / "cgroup.controllers").exists()

Deed = Callable[[Stage], Awaitable[None]]


def find_processes(machine: Machine, name: str, word: str = "") -> list[int]:
    """Of a machine that shares this host's kernel, or the one that runs its guest, by the names of their groups."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_called_so = (process / "comm").read_text().strip() == name
            is_its = machine.name in (process / "cgroup").read_text() or machine.name in _hostname(process)
            if is_called_so and is_its and (not word or word in (process / "cmdline").read_text().split("\0")):
                found.append(int(process.name))
    return found


def _hostname(process: Path) -> str:
    """A container's group is named by its engine; its environment has its name."""
    words = (process / "environ").read_bytes().split(b"\0")
    return next((word.decode() for word in words if word.startswith(b"HOSTNAME=")), "")


def signal_server(number: signal.Signals, name: str = "lighttpd") -> Deed:
    """Send it to what serves, by the machine's own means."""

    async def send(stage: Stage) -> None:
        ended = await stage.servers[0].exec(["pkill", f"-{number.name.removeprefix('SIG')}", name])
        assert ended.status == 0, ended.complaint

    return send


async def replace_server(stage: Stage) -> None:
    """Another process takes its place, with the same command."""
    server = stage.servers[0]
    script = (
        "p=$(pgrep lighttpd | head -1); cp /proc/$p/cmdline /tmp/again; pkill -KILL lighttpd; "
        "xargs -0 sh -c '\"$@\" </dev/null >/dev/null 2>&1 &' again </tmp/again; sleep 0.3; pgrep lighttpd"
    )
    ended = await server.exec(["sh", "-c", script])
    assert ended.status == 0, f"{ended.complaint} {ended.text}"


async def kill_generator(stage: Stage) -> None:
    pids = find_processes(stage.clients[0], "nearmetal-probe", "load")
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def signal_guest(number: signal.Signals, wakes_after: float | None = None) -> Deed:
    """Send it to QEMU."""

    async def send(stage: Stage) -> None:
        (pid,) = find_processes(stage.servers[0], "qemu-system-x86")
        os.kill(pid, number)
        if wakes_after is not None:
            await asyncio.sleep(wakes_after)
            os.kill(pid, signal.SIGCONT)

    return send


async def kill_agent(stage: Stage) -> None:
    with contextlib.suppress(Exception):  # its answer goes with it
        await stage.servers[0].exec(["pkill", "-KILL", "nearmetal-probe"], timeout=5)


async def panic(stage: Stage) -> None:
    with contextlib.suppress(Exception):
        await stage.servers[0].exec(
            ["sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger"], timeout=3
        )


_LIVELOCK = """
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
cpu=$(nproc)
while [ $((cpu -= 1)) -ge 0 ]; do setsid taskset -c $cpu chrt -f 99 sh -c 'while :; do :; done' & done
"""


async def livelock(stage: Stage) -> None:
    """Programs that no other may interrupt keep all CPUs of a guest."""
    await stage.servers[0].spawn(["sh", "-c", _LIVELOCK])


def set_link(*states: str) -> Deed:
    """Of the interface that leads to the server, on its host."""

    async def set_states(stage: Stage) -> None:
        server = stage.servers[0]
        namespace, _, interface = str(server.peer).partition("/")
        for state in states:
            await run_checked(server.site, "ip", "-netns", namespace, "link", "set", interface, state)

    return set_states


async def drop_carrier(stage: Stage) -> None:
    """The machine's own interface is set down, so that its peer has no carrier."""
    await _must_inside(stage, "ip", "link", "set", stage.servers[0].interface, "down")


async def take_address(stage: Stage) -> None:
    await _must_inside(stage, "ip", "address", "flush", "dev", stage.servers[0].interface)


async def _must_inside(stage: Stage, *argv: str) -> None:
    """By the machine itself; of its network by its host, if the machine may not change that."""
    server = stage.servers[0]
    if argv[0] == "ip" and isinstance(server, NetworkOwner):
        ended = await server.exec_in_network(argv)
    else:
        ended = await server.exec(argv)
    assert ended.status == 0, ended.complaint


async def take_namespace(stage: Stage) -> None:
    """In which the switch is."""
    server = stage.servers[0]
    await run_checked(server.site, "ip", "netns", "delete", str(server.peer).partition("/")[0])


async def fill_memory(stage: Stage) -> None:
    ended = await stage.servers[0].exec(["tail", "/dev/zero"], timeout=60)
    assert ended.status != 0


def set_group(file: str, value: str) -> Deed:
    """Of the server's control group of version 2, on this host."""

    async def write(stage: Stage) -> None:
        (GROUPS / f"nearmetal-{stage.servers[0].name}" / file).write_text(value)

    return write


async def remove_container(stage: Stage) -> None:
    engine = await ContainerEngine.connect(os.environ["DOCKER_HOST"])
    await engine.call(engine.client.remove_container, stage.servers[0].name, force=True, v=True)


async def kill_first_process(stage: Stage) -> None:
    engine = await ContainerEngine.connect(os.environ["DOCKER_HOST"])
    told = await engine.call(engine.client.inspect_container, stage.servers[0].name)
    os.kill(told["State"]["Pid"], signal.SIGKILL)


_STEP = """
set -e
for seconds; do
    now=$(($(date +%s%N) + seconds * 1000000000))
    date -s "@${now%?????????}.${now#"${now%?????????}"}" >/dev/null
    sleep 0.3
done
"""


def step_clock(*seconds: int) -> Deed:
    """Of a guest, one step after the other."""

    async def step(stage: Stage) -> None:
        await _must_inside(stage, "sh", "-c", _STEP, "step", *map(str, seconds))

    return step


async def fill_run(stage: Stage) -> None:
    """The file system of a machine's that is in its memory, as a program does that logs there without an end."""
    with contextlib.suppress(MachineLost):
        await stage.servers[0].exec(["dd", "if=/dev/zero", "of=/run/much", "bs=1M", "count=2048"], timeout=60)


def cut_login(first: int) -> Deed:
    """Kill what serves the connections of the sshd that runs in the namespaces of this process."""

    async def cut(stage: Stage) -> None:
        namespace = Path(f"/proc/{first}/ns/pid").readlink()
        sessions = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if (process / "ns/pid").readlink() == namespace and words.startswith(b"sshd: root"):
                    sessions.append(int(process.name))
        assert sessions
        for pid in sessions:
            os.kill(pid, signal.SIGKILL)

    return cut


async def corrupt_probe(stage: Stage) -> None:
    """A file of zeros takes its place in the client, as on a bad disk: laid over it, since its host has the same."""
    script = 'set -e; head -c 4096 /dev/zero >/run/zeros; chmod 755 /run/zeros; mount --bind /run/zeros "$1"'
    for client in stage.clients:
        ended = await client.exec(["sh", "-c", script, "corrupt", client.probe])
        assert ended.status == 0, ended.complaint


def kill_engine(folder: Path, name: str) -> Deed:
    """Of the processes of an own engine with its data in this folder, the one of this name."""

    async def kill(stage: Stage) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_its = os.fsencode(folder) in (process / "cmdline").read_bytes()
                if is_its and (process / "comm").read_text().strip() == name:
                    os.kill(int(process.name), signal.SIGKILL)
                    return
        raise AssertionError(f"there is no {name}")

    return kill
