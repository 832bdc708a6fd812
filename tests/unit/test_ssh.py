"""Machines reached by SSH, against a real SSH server on loopback that runs real programs.

Nobody reboots here: the far side is this host. What is the same for all that is reached from outside: test_remote.py.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import BadInput, MachineLost, NotProvisioned
from nearmetal.lab.remote import readiness
from nearmetal.lab.ssh import commands as ssh_commands
from nearmetal.lab.ssh import ssh_machine as ssh
from tests.agent_server import needs_probe
from tests.ports import free_port
from tests.ssh_server import OTHER, endpoint, machine_at, serving


@pytest_asyncio.fixture
async def machine() -> AsyncIterator[ssh.SshMachine]:
    async with serving() as server:
        machine = machine_at(server.get_port())
        await machine.connect()
        yield machine
        await machine.close()


async def ready() -> bool:
    return True


async def never() -> bool:
    return False


# ── The command line ─────────────────────────────────────────────────────────────────────────────────────────────────


def words_that_arrive(shell: Sequence[str], words: list[str]) -> None:
    line = ssh_commands.command_line(["printf", "%s\\0", "", *words])
    ended = subprocess.run([*shell, "-c", line], capture_output=True, check=True)
    began, _, rest = ended.stdout.partition(b"\n")
    assert rest.decode() == "\0".join(["", *words, ""])
    assert began + b"\n" == ended.stderr and int(began.split()[1]) > 1


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), max_size=4))
def test_words_arrive_as_they_are(words: list[str]) -> None:
    words_that_arrive(["sh"], words)


@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh", "zsh"])
def test_words_arrive_by_any_login_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    odd = [
        "~",
        "=ls",
        "$HOME",
        "$$",
        "`id`",
        "!!",
        "!x",
        "a!",
        "\\",
        "\\'",
        "''",
        '"',
        "a\nb",
        "\r\t",
        "#",
        "é…",
        "*?[a]",
    ]
    words_that_arrive([shell], odd)
    words_that_arrive([shell], ["%self", "{a,b}", "^a^b", "a b", "-n", "%b", "\\0101", "x" * 5000, "('$" * 2000])


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(BadInput, match="zero byte"):
        ssh_commands.command_line(["echo", "a\0b"])


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
    monkeypatch.setattr(readiness, "_PATIENCE", 0.1)
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
async def test_a_machine_that_goes_away_is_lost(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with serving() as server:
        machine = machine_at(server.get_port())
        await machine.connect()
        running = await machine.spawn(["sleep", "300"])
        waiting = asyncio.create_task(machine.exec(["sleep", "300"]))
        sending = asyncio.create_task(machine.put(bytes(1 << 24), str(pipe)))
        losing = asyncio.create_task(machine.wait_lost())
        await asyncio.sleep(0.3)
        machine.connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        assert "its SSH connection is gone" in str(await asyncio.wait_for(losing, 10))
        for cut in (waiting, sending):
            with pytest.raises(MachineLost):
                await asyncio.wait_for(cut, 10)
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # who was to write there hears of the end
        with pytest.raises(MachineLost):
            await running.wait(5)
        with pytest.raises(MachineLost):
            await running.stop()
        with pytest.raises(MachineLost):
            await machine.exec(["true"])
        with pytest.raises(MachineLost):
            await machine.put(b"x", "/tmp/never")
