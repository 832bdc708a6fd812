"""Agents that know the secret and lie: whatever they say, an error is a declared one."""

import asyncio
import base64
import contextlib
import hmac
import json
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from nearmetal.errors import MachineLost, NearmetalError, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab.remote import agent
from tests.agent_server import SECRET, agent_machine

GREETING: dict[str, Any] = {"schema": "agent.v1", "nonce": "bm9uY2U=", "boot_id": "b", "arch": "x86_64"}
ODD: tuple[object, ...] = (None, 1, -1, 1e999, True, "", "\ud800", "\x1b[2J", "x" * 10_000, "a\nb", [], {}, {"a": []})
GREETINGS: list[bytes] = [
    *(json.dumps({**GREETING, name: odd}).encode() for name in GREETING for odd in ODD),
    *(b"[]", b"{}", b"null", b"", b"\xff", b"[" * 60_000, b'{"a":' * 12_000, b"9" * 5_000, b"x" * 200_000),
]
PROOFS: list[bytes] = [
    *(json.dumps({"proof": odd}).encode() for odd in ODD),
    *(b"[]", b"{}", b"", b"[" * 60_000, b"x" * 200_000),
]


def frame(letter: bytes, content: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack(">cI", letter, len(content) if length is None else length) + content


FRAMES: list[bytes] = [
    *(frame(b"p", pid) for pid in (b"", b"x", b"-1", b"1.5", b"9" * 5_000, "٣".encode(), b"\xff", b" 1", b"1_0")),
    *(frame(b"x", status) for status in (b"", b"00", b"\x00" * 1000)),
    *(frame(bytes([letter])) for letter in (0, 10, 65, 105, 255)),
    *(frame(b"!", text) for text in (b"", b"\xff\x1b[2J", b"x" * 100_000)),
    *(frame(b"o", b"", 2**32 - 1), frame(b"o", b"abc", 4), b"o", b"", b"\x00" * 4, b"p\x00\x00\x00"),
    frame(b"p", b"1") + frame(b"p", b"2") + frame(b"x", b"\x07"),
]


FILES: list[bytes] = [
    *(b"[]", b"{}", b"", b"\xff", b"[" * 60_000, b"9" * 5_000),
    *(json.dumps({"files": odd, "started_ns": 1, "ended_ns": 1}).encode() for odd in ODD if odd not in ([], {}, "")),
    *(
        json.dumps({"files": {"a": odd}, "started_ns": 1, "ended_ns": 1}).encode()
        for odd in ODD
        if type(odd) is not str
    ),
    *(json.dumps({"files": {}, "started_ns": 1, "ended_ns": odd}).encode() for odd in ODD if type(odd) is not int),
]


@contextlib.asynccontextmanager
async def lying(greeting: bytes, proof: bytes | None, frames: bytes = b"") -> AsyncIterator[agent.AgentMachine]:
    """`proof`: what is sent in place of one that is right."""

    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.write(greeting + b"\n")
            answer = json.loads(await reader.readline())
            writer.write((proof or json.dumps({"proof": signed(answer)}).encode()) + b"\n")
            await reader.readline()
            writer.write(frames)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(lie, "127.0.0.1", 0) as server:
        yield agent_machine(agent.AgentEndpoint("127.0.0.1", server.sockets[0].getsockname()[1], SECRET))


def signed(answer: Mapping[str, str]) -> str:
    text = f"guest{GREETING['nonce']}{GREETING['boot_id']}{answer['nonce']}"
    return base64.b64encode(hmac.digest(SECRET, text.encode(), "sha256")).decode()


def answers() -> Sequence[tuple[bytes, bytes | None, bytes]]:
    right = json.dumps(GREETING).encode()
    return [
        *((greeting, None, b"") for greeting in GREETINGS),
        *((right, proof, b"") for proof in PROOFS),
        *((right, None, frames) for frames in FRAMES),
    ]


async def test_whatever_an_agent_says_is_an_answer_or_a_declared_error() -> None:
    for greeting, proof, frames in answers():
        told = f"{greeting[:80]!r} {(proof or b'')[:80]!r} {frames[:80]!r}"
        async with lying(greeting, proof, frames) as machine:
            try:
                await machine.exec(["true"], timeout=5)
            except (MachineLost, ToolFailed, TimedOut) as error:
                assert error.what
            except Exception as error:
                raise AssertionError(told) from error


async def test_what_steers_a_terminal_is_no_boot_of_a_guest() -> None:
    greeting = json.dumps({**GREETING, "arch": "\x1b[2J"}).encode()
    async with lying(greeting, None) as machine:
        with pytest.raises(NotProvisioned, match="no agent: its arch is"):
            await machine.connect()


async def test_a_frame_that_no_agent_sends_is_told() -> None:
    async with lying(json.dumps(GREETING).encode(), None, frame(b"x", b"00")) as machine:
        with pytest.raises(NearmetalError, match=r"a frame b'x' of 2 bytes that none sends"):
            await machine.exec(["true"])


async def test_files_that_are_none_are_told() -> None:
    for sent in (*(frame(b"f", content) for content in FILES), *FRAMES):
        async with lying(json.dumps(GREETING).encode(), None, sent) as machine:
            with pytest.raises((MachineLost, ToolFailed)):
                await machine.read_files(["a"])
