"""The engine's streams, without an engine."""

import asyncio
import os
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.commands import background_commands
from nearmetal.lab.containers.api import DOCKER, ContainerEngine, EngineRefusal, read_frames
from nearmetal.lab.containers.container import Container
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.model import Handle


class Client:
    api_version = "1.41"


def frame(stream: int, content: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


async def read(content: bytes) -> tuple[bytes, bytes]:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    return await sorted_out(reader)


async def sorted_out(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    streams = [b"", b""]
    async for is_complaint, piece in read_frames(reader):
        streams[is_complaint] += piece
    return streams[0], streams[1]


async def test_frames_are_sorted_into_both_streams() -> None:
    content = frame(1, b"a") + frame(2, b"\0x") + frame(1, b"") + frame(1, b"b" * 100_000)
    assert await read(content) == (b"a" + b"b" * 100_000, b"\0x")


@pytest.mark.parametrize("cut", [1, 7, 8, 9])
async def test_a_stream_that_breaks_off_gives_what_came_whole(cut: int) -> None:
    assert await read(frame(1, b"whole") + frame(2, b"part")[:cut]) == (b"whole", b"")


async def test_bytes_that_follow_the_header_at_once_are_not_lost(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"}"))
        writer.write(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n" + frame(1, b"first"))
        writer.close()

    socket = tmp_path / "engine.sock"
    async with await asyncio.start_unix_server(answer, socket):
        reader, writer = await ContainerEngine(f"unix://{socket}", Client()).stream("exec/1/start", {"Tty": False})
        assert await sorted_out(reader) == (b"first", b"")
        writer.close()
    assert asked[0].startswith(b"POST /v1.41/exec/1/start HTTP/1.1\r\n")
    assert asked[0].endswith(b'\r\n\r\n{"Tty": false}')


class NamingNoProcess(Client):
    """As an engine that runs a program and does not tell which process it is."""

    def exec_create(self, container: str, command: list[str], stdin: bool) -> dict[str, str]:
        return {"Id": "1"}

    def exec_inspect(self, id: str) -> dict[str, object]:
        return {"Running": True, "Pid": 0}


async def test_a_program_that_says_too_much_and_cannot_be_ended_is_told_as_one_that_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_commands, "_KILL_LIMIT", 0.1)
    given_up = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n" + frame(1, bytes(2_000)))
        await given_up.wait()
        writer.close()

    site = LocalSite()
    first = await FirstProcess.of(os.getpid(), site)
    assert first is not None
    handle = Handle(kind="docker", name="m", site="local", life=first.life, data={"container": "c"})
    socket = tmp_path / "engine.sock"
    async with await asyncio.start_unix_server(answer, socket):
        engine = ContainerEngine(f"unix://{socket}", NamingNoProcess())
        machine = Container(handle, site, engine)
        with background_commands.limit_output(1_000), pytest.raises(ToolFailed, match="more than 1") as told:
            await machine.exec(["yes"])
        given_up.set()
    assert "it may go on running: the engine does not tell which process it is" in told.value.what


async def test_a_refusal_says_what_the_engine_said(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        content = b'{"message": "it is not running"}'
        writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
        writer.close()

    socket = tmp_path / "engine.sock"
    async with await asyncio.start_unix_server(answer, socket):
        with pytest.raises(EngineRefusal, match="it is not running") as caught:
            await ContainerEngine(f"unix://{socket}", Client()).stream("exec/1/start", {})
    assert caught.value.status == 409


async def test_an_engine_that_is_gone_is_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="DOCKER_HOST"):
        await ContainerEngine(f"unix://{tmp_path}/none", Client()).stream("exec/1/start", {})


def test_the_nearest_choice_of_an_engine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert DOCKER.address({}) == "unix:///var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "unix:///a")
    assert DOCKER.address({}) == "unix:///a"
    assert DOCKER.address({"engine": "unix:///b"}) == "unix:///b"
