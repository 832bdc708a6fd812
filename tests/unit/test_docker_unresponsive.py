"""An engine that does not answer: why, in words that say nothing of the libraries in between."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.containers.api import ContainerEngine

LIBRARIES = re.compile(r"urllib3|requests|Connection(Error|Pool)|Errno|Exception|[a-z]Error|docker://|object at")


@contextlib.asynccontextmanager
async def answering(path: Path, answer: bytes) -> AsyncIterator[None]:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(reply, path):
        yield


async def said(path: Path) -> str:
    with pytest.raises(HostCannot) as caught:
        await ContainerEngine.connect(f"unix://{path}")
    error = caught.value
    assert error.where == f"unix://{path}"
    assert "DOCKER_HOST" in error.remedy
    assert not LIBRARIES.search(error.what), error.what
    return error.what


async def test_no_socket(tmp_path: Path) -> None:
    assert await said(tmp_path / "none") == "no Docker engine answers: there is no such socket"


async def test_a_path_where_a_url_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(HostCannot) as caught:
        await ContainerEngine.connect(str(tmp_path / "socket"))
    assert "by its socket's URL, not by its path" in caught.value.what
    assert f'engine = "unix://{tmp_path}/socket"' in caught.value.remedy


async def test_a_socket_of_a_dead_engine(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead"))
    dead.close()
    assert await said(tmp_path / "dead") == "no Docker engine answers: nobody listens on that socket"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "it closed the connection"),
        (b"hello\r\n\r\n", "what does answer there is no Docker engine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "what does answer there is no Docker engine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "what does answer there is no Docker engine"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "it answers with HTTP status 500"),
    ],
)
async def test_what_is_no_engine(tmp_path: Path, answer: bytes, why: str) -> None:
    async with answering(tmp_path / "s", answer):
        assert await said(tmp_path / "s") == f"no Docker engine answers: {why}"


@pytest.mark.parametrize("answer", [b"", b"\r\n\r\n", b"nonsense from somebody else\r\n\r\n", b"x" * 200_000])
async def test_a_stream_that_is_none(tmp_path: Path, answer: bytes) -> None:
    class Client:
        api_version = "1.41"

    async with answering(tmp_path / "s", answer):
        with pytest.raises(HostCannot) as caught:
            await ContainerEngine(f"unix://{tmp_path / 's'}", Client()).stream("exec/1/start", {})
    assert not LIBRARIES.search(caught.value.what), caught.value.what
