"""Machines reached by SSH, against a real SSH server on loopback that runs real programs.

Nobody reboots here: the far side is this host.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import machine as lab_machine
from nearmetal.lab import probe, ssh, ssh_commands
from nearmetal.lab.site import LocalSite

CLIENT = asyncssh.generate_private_key("ssh-ed25519")
HOST = asyncssh.generate_private_key("ssh-ed25519")
OTHER = asyncssh.generate_private_key("ssh-ed25519")

needs_probe = pytest.mark.skipif(
    not Path(os.environ.get("NEARMETAL_PROBE") or Path(sys.executable).parent / "nearmetal-probe").is_file(),
    reason="the probe has not been built: make probe",
)


class Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == CLIENT.convert_to_public()


async def feed(process: "asyncssh.SSHServerProcess[bytes]", into: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncssh.Error, OSError):
        while chunk := await process.stdin.read(65536):
            into.write(chunk)
            await into.drain()
    into.close()


async def pump(source: asyncio.StreamReader, into: "asyncssh.SSHWriter[bytes]") -> None:
    while chunk := await source.read(65536):
        into.write(chunk)
        await into.drain()


async def run(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    """As sshd does: the command to a shell that leads a session of its own, and how it ended back."""
    shell = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", process.command or ""),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert shell.stdin and shell.stdout and shell.stderr
    feeding = asyncio.create_task(feed(process, shell.stdin))
    await asyncio.gather(pump(shell.stdout, process.stdout), pump(shell.stderr, process.stderr))
    status = await shell.wait()
    feeding.cancel()
    if status < 0:
        process.exit_with_signal("KILL" if status == -9 else "TERM")
    else:
        process.exit(status)


@contextlib.asynccontextmanager
async def serving(port: int = 0, host_key: asyncssh.SSHKey = HOST) -> AsyncIterator[asyncssh.SSHAcceptor]:
    server = await asyncssh.listen(
        "127.0.0.1", port, server_factory=Server, server_host_keys=[host_key], process_factory=run, encoding=None
    )
    try:
        yield server
    finally:
        server.close()
        await server.wait_closed()


def endpoint(port: int, client_key: asyncssh.SSHKey = CLIENT) -> ssh.Endpoint:
    return ssh.Endpoint("127.0.0.1", port, "root", client_key, HOST)


def machine_at(port: int) -> ssh.SshMachine:
    machine = ssh.SshMachine(
        name="far",
        role="server",
        site=LocalSite(),
        endpoint=endpoint(port),
        owned=False,
        address="127.0.0.1",
        peer=None,
    )
    machine.probe = str(probe.path())
    return machine


@pytest_asyncio.fixture
async def machine() -> AsyncIterator[ssh.SshMachine]:
    async with serving() as server:
        machine = machine_at(server.get_port())
        await machine.connect()
        yield machine
        await machine.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def ready() -> bool:
    return True


async def never() -> bool:
    return False


# ── The command line ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), max_size=4))
def test_words_arrive_as_they_are(words: list[str]) -> None:
    line = ssh_commands.command_line(["printf", "%s\\0", "", *words])
    ended = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert ended.stdout.decode() == "\0".join(["", *words, ""])
    assert int(ended.stderr) > 1


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(BadInput, match="zero byte"):
        ssh_commands.command_line(["echo", "a\0b"])


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_tells_who_it_is(machine: ssh.SshMachine) -> None:
    assert machine.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert machine.arch == os.uname().machine


@needs_probe
async def test_a_command_tells_its_status_and_both_streams(machine: ssh.SshMachine) -> None:
    ended = await machine.exec(["sh", "-c", "cat; echo 12 >&2; exit 7"], stdin=b"\0in\xff")
    assert (ended.status, ended.stdout, ended.stderr) == (7, b"\0in\xff", b"12\n")
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["sh", "-c", "kill -9 $$"])).status == 137


@needs_probe
async def test_much_goes_in_and_out(machine: ssh.SshMachine) -> None:
    content = os.urandom(4 * 2**20)
    assert (await machine.exec(["cat"], stdin=content)).stdout == content


@needs_probe
async def test_the_environment_is_exactly_what_programs_have_everywhere(
    machine: ssh.SshMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "1")
    ended = await machine.exec(["/usr/bin/env", "-0"], env={"ODD": "a b'c\n$d", "EMPTY": ""})
    variables = dict(line.split("=", 1) for line in ended.text.split("\0") if line)
    assert variables.keys() == {*lab_machine.ENVIRONMENT, "ODD", "EMPTY"}
    assert variables["ODD"] == "a b'c\n$d"


@needs_probe
async def test_files_go_in_and_out_whole(machine: ssh.SshMachine, tmp_path: Path) -> None:
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


@needs_probe
async def test_what_does_not_end_in_time_is_killed_with_all_it_started(machine: ssh.SshMachine, tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! >{tmp_path}/child; trap '' TERM; wait"
    with pytest.raises(TimedOut, match="within 1 s"):
        await machine.exec(["sh", "-c", script], timeout=1)
    assert await gone(await written(tmp_path / "child"))


@needs_probe
async def test_who_gives_up_waiting_leaves_nothing_running(machine: ssh.SshMachine, tmp_path: Path) -> None:
    task = asyncio.create_task(machine.exec(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 300"]))
    pid = await written(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(pid)


@needs_probe
async def test_what_left_its_group_does_not_hold_us_up(machine: ssh.SshMachine, tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60' & wait"
    with pytest.raises(TimedOut):
        await asyncio.wait_for(machine.exec(["sh", "-c", script], timeout=1), 30)
    os.kill(await written(tmp_path / "pid"), 9)
    assert (await machine.exec(["true"])).status == 0


@needs_probe
async def test_a_background_program_is_told_to_end(machine: ssh.SshMachine, tmp_path: Path) -> None:
    script = f"trap 'echo bye; exit 3' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.05; done"
    running = await machine.spawn(["sh", "-c", script])
    await written(tmp_path / "pid")
    with pytest.raises(TimedOut):
        await running.wait(0.05)
    ended = await running.stop()
    assert (ended.status, ended.stdout) == (3, b"bye\n")
    assert await running.stop() == ended


@needs_probe
async def test_a_stubborn_one_is_killed(
    machine: ssh.SshMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_commands, "LIMITS", type(LIMITS)(stop=0.2))
    running = await machine.spawn(["sh", "-c", f"trap '' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 1; done"])
    pid = await written(tmp_path / "pid")
    assert (await running.stop()).status == 137
    assert await gone(pid)


@needs_probe
async def test_many_commands_share_the_connection(machine: ssh.SshMachine) -> None:
    ended = await asyncio.gather(*(machine.exec(["echo", str(number)]) for number in range(20)))
    assert [one.text for one in ended] == [f"{number}\n" for number in range(20)]


# ── Reaching it, and losing it ───────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_reached_as_soon_as_it_listens() -> None:
    port = free_port()
    reaching = asyncio.create_task(ssh.connect(endpoint(port), 30, ready))
    await asyncio.sleep(0.3)
    assert not reaching.done()
    async with serving(port):
        connection = await reaching
        connection.abort()


async def test_nobody_is_asked_before_it_is_ready() -> None:
    asked: list[float] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(time.monotonic())
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(NotProvisioned, match=r"within 0\.2 s"):
            await ssh.connect(endpoint(port), 0.2, never)
        assert asked == []
        with pytest.raises(NotProvisioned, match=r"within 0\.2 s"):
            await ssh.connect(endpoint(port), 0.2, ready)
        assert asked


async def test_a_silent_listener_does_not_hold_us_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_PATIENCE", 0.1)
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def first_silent_then_gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)
        silent.close()

    silent = await asyncio.start_server(first_silent_then_gone, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    reaching = asyncio.create_task(ssh.connect(endpoint(port), 30, ready))
    writer = await accepted.get()
    async with serving(port):
        (await reaching).abort()
    writer.close()


async def test_waiting_ends_when_it_is_pointless() -> None:
    async def hopeless() -> bool:
        raise NotProvisioned("it panicked")

    with pytest.raises(NotProvisioned, match="it panicked"):
        await ssh.connect(endpoint(free_port()), 30, hopeless)


async def test_another_host_key_is_not_accepted() -> None:
    async with serving(host_key=OTHER) as server:
        with pytest.raises(NotProvisioned, match="another host key"):
            await ssh.connect(endpoint(server.get_port()), 30, ready)


async def test_a_key_that_is_not_accepted_is_told() -> None:
    async with serving() as server:
        with pytest.raises(NotProvisioned, match="does not accept the key"):
            await ssh.connect(endpoint(server.get_port(), OTHER), 30, ready)


@needs_probe
async def test_a_machine_that_goes_away_is_lost() -> None:
    async with serving() as server:
        machine = machine_at(server.get_port())
        await machine.connect()
        running = await machine.spawn(["sleep", "300"])
        waiting = asyncio.create_task(machine.exec(["sleep", "300"]))
        await asyncio.sleep(0.3)
        machine.connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        with pytest.raises(MachineLost):
            await waiting
        with pytest.raises(MachineLost):
            await running.wait(5)
        with pytest.raises(MachineLost):
            await running.stop()
        with pytest.raises(MachineLost):
            await machine.exec(["true"])
        with pytest.raises(MachineLost):
            await machine.put(b"x", "/tmp/never")
