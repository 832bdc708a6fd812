"""How much of a program's output is gathered: what a machine says without an end must not take this host's memory."""

import asyncio
import hmac
import os
import signal
import struct
from base64 import b64encode
from json import dumps, loads
from pathlib import Path

import pytest

from nearmetal.config import LIMITS
from nearmetal.errors import ToolFailed
from nearmetal.lab.commands import background_commands, process
from nearmetal.lab.remote import agent
from nearmetal.model import CaptureSpec
from nearmetal.observers.capture.taps import CaptureLimit, Tap
from tests.agent_server import SECRET, agent_machine, agent_serving, needs_probe
from tests.waiting import until

MIB = 2**20


@pytest.mark.parametrize("stream", ["", " >&2"])
async def test_a_program_that_prints_without_an_end_is_ended(stream: str) -> None:
    with background_commands.limit_output(MIB):
        running = process.LocalProcess(await process.start(["sh", "-c", f"yes{stream}"]))
    with pytest.raises(ToolFailed, match="more than 1 MiB"):
        await running.wait(20)
    assert len(running.stdout) + len(running.stderr) <= MIB
    await until(lambda: running._process.returncode is not None)


async def test_one_that_is_waited_for_is_ended_as_well() -> None:
    with background_commands.limit_output(MIB), pytest.raises(ToolFailed, match="more than 1 MiB"):
        await process.run(["yes"], timeout=20)


async def test_one_whose_child_holds_its_pipes_leaves_none_of_ours_open() -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    argv = ["sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' &"]
    before = opened()
    running = process.LocalProcess(await process.start(argv, stdin=asyncio.subprocess.DEVNULL))
    child = int(await running.first_line(5))
    try:
        assert (await running.kill()).status == 128 + signal.SIGKILL
        await until(lambda: opened() == before)
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_long_output_is_gathered_where_it_may_be_long() -> None:
    assert background_commands.MOST >= 64 * MIB
    argv = ["head", "-c", str(3 * MIB), "/dev/zero"]
    with background_commands.limit_output(3 * MIB):
        running = process.LocalProcess(await process.start(argv))
    assert len((await running.wait(20)).stdout) == 3 * MIB


@needs_probe
async def test_a_guest_that_prints_without_an_end_is_no_longer_heard(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        with background_commands.limit_output(MIB), pytest.raises(ToolFailed, match="more than 1 MiB"):
            await machine.exec(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec yes"])
        pid = (tmp_path / "pid").read_text().strip()
        await until(lambda: not Path("/proc", pid).exists())


async def test_a_frame_of_no_agent_is_not_waited_for() -> None:
    """Of one that says that 4 GiB will follow, which would be held until they are there."""

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(dumps({"schema": "agent.v1", "nonce": "n", "boot_id": "b", "arch": "a"}).encode() + b"\n")
        signed = f"guestnb{loads(await reader.readline())['nonce']}".encode()
        proof = b64encode(hmac.digest(SECRET, signed, "sha256")).decode()
        writer.write(dumps({"proof": proof}).encode() + b"\n")
        writer.write(struct.pack(">cI", b"o", 2**32 - 1) + bytes(1000))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(pretend, "127.0.0.1", 0) as guest:
        machine = agent_machine(agent.AgentEndpoint("127.0.0.1", guest.sockets[0].getsockname()[1], SECRET))
        with pytest.raises(ToolFailed, match="a frame of 4 GiB"):
            await machine.exec(["true"], timeout=5)


@needs_probe
async def test_a_capture_comes_whole_however_long_a_command_may_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_commands, "MOST", MIB)
    (tmp_path / "f.pcap").write_bytes(bytes(3 * MIB))
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        tap = Tap(
            machine,
            (),
            "data",
            str(tmp_path / "f.pcap"),
            128,
            CaptureLimit.from_setting(CaptureSpec(limit=4 * MIB)),
            "box",
        )
        assert await tap._read_content() == (bytes(3 * MIB), None)
        with pytest.raises(ToolFailed, match="more than 1 MiB"):
            await machine.get(str(tmp_path / "f.pcap"))


async def test_one_that_is_stopped_ends_when_it_is_told_to() -> None:
    running = process.LocalProcess(await process.start(["sleep", "600"]))
    await running.signal(signal.SIGSTOP)
    ended = await asyncio.wait_for(running.stop(), LIMITS.stop / 2)
    assert ended.status == 128 + signal.SIGTERM


async def test_of_what_prints_much_the_last_is_kept() -> None:
    """A service may log as much as it likes: it is not killed for it, and takes no memory."""
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last >&2"
    with background_commands.keep_last_output(1000):
        running = process.LocalProcess(await process.start(["sh", "-c", script]))
    ended = await running.wait(60)
    assert (ended.status, ended.stderr) == (0, b"last\n")
    assert 1000 <= len(ended.stdout) <= 2000
    assert ended.stdout.endswith(b"line 19999\n")
