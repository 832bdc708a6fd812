"""Commands in a guest by way of the probe's `agent`: a connection each, and no login.

The way of it is told by the probe itself, in probe/machine/src/agent/: `handshake.rs` and `frames.rs`. Why there is
one: docs/adr/an-agent-in-guests.md.
"""

import asyncio
import base64
import contextlib
import hmac
import json
import os
import re
import signal
import struct
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakSet

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, NotProvisioned, ToolFailed
from nearmetal.lab import machine_programs
from nearmetal.lab.commands.background_commands import OutputCollector
from nearmetal.lab.commands.command_errors import refuse_no_text, refuse_zero_bytes
from nearmetal.lab.read_files import FilesRead
from nearmetal.lab.remote.commands import RemoteCommands
from nearmetal.lab.remote.machine import ReachedMachine
from nearmetal.lab.remote.readiness import AGAIN, first_to_speak
from nearmetal.units import show_size

SECRET: Final = "agent.secret"
"""What a guest's seed calls the secret."""
_SCHEMA: Final = "agent.v1"
_NONCE: Final = 18
_PIECE: Final = 64 << 10
_HEADER: Final = struct.Struct(">cI")
_FRAME: Final = 1 << 20
"""Bytes of a frame's content, at the most; an agent of ours sends pieces of 64 KiB."""

_LONGEST_ID: Final = 10
"""Digits of a process id, at the most."""
_WORD: Final = re.compile(r"[!-~]{1,200}")

_Connection = tuple[StreamReader, StreamWriter]


@dataclass(frozen=True)
class AgentEndpoint:
    """Where an agent answers, and what both sides know."""

    host: str
    port: int
    secret: bytes

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    def signed(self, side: str, guest: "Greeting", controller: str) -> str:
        proof = hmac.digest(self.secret, f"{side}{guest.nonce}{guest.boot_id}{controller}".encode(), "sha256")
        return base64.b64encode(proof).decode()


@dataclass(frozen=True)
class Greeting:
    nonce: str
    boot_id: str
    arch: str


class AgentMachine(ReachedMachine):
    """A `Machine` whose agent answers."""

    def __init__(self, *, endpoint: AgentEndpoint, **machine: Any) -> None:
        super().__init__(**machine)
        self.endpoint = endpoint
        self.unanswered: dict[asyncio.StreamWriter, float] = {}
        """Connections on which the agent has not answered yet, and since when by the monotonic clock."""
        self._programs: WeakSet[_Program] = WeakSet()
        self._for_files: _Connection | None = None
        """Kept from one reading to the next: to open one takes an emulated guest longer than to read."""
        self._is_reading = asyncio.Lock()

    async def start(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> "_Program":
        variables = {**machine_programs.ENVIRONMENT, **(env or {})}
        refuse_zero_bytes(argv, variables)
        refuse_no_text(argv, variables)
        run = {"argv": list(argv), "env": list(variables.items())}
        program = _Program(self, await self.asked({"run": run}), stdin)
        self._programs.add(program)
        return program

    async def asked(self, request: Mapping[str, Any]) -> _Connection:
        """A connection on which the guest has been asked something. MachineLost."""
        reader, writer = await self.connected()
        _ask(writer, request)
        return reader, writer

    async def connected(self) -> _Connection:
        """A connection on which both sides have proved who they are. MachineLost."""
        if self.trouble:  # it is not waited for
            raise self.trouble
        try:
            async with asyncio.timeout(LIMITS.command):
                reader, writer = await asyncio.open_connection(self.endpoint.host, self.endpoint.port)
                self.unanswered[writer] = time.monotonic()
                try:
                    greeting = await shake(reader, writer, self.endpoint)
                    # Once it is known which boot is spoken to, what another one answers is for nobody here.
                    if self.boot_id and greeting.boot_id != self.boot_id:
                        raise NotProvisioned("it has booted anew by itself", self.name)
                except BaseException:
                    writer.transport.abort()
                    raise
                finally:
                    del self.unanswered[writer]
        except (OSError, EOFError, TimeoutError, NotProvisioned) as error:
            raise self.lost(error) from None
        return reader, writer

    async def signal(self, group: int, number: signal.Signals) -> None:
        """To a process group of the guest's; nothing where it has ended. MachineLost."""
        reader, writer = await self.asked({"signal": {"group": group, "number": int(number)}})
        try:
            async with asyncio.timeout(LIMITS.command):
                await _frame(reader, self)
        except (OSError, EOFError, TimeoutError) as error:
            raise self.lost(error) from None
        finally:
            writer.close()

    def describe_failure(self, error: BaseException | None) -> str:
        said = error.what if isinstance(error, NotProvisioned) else getattr(error, "strerror", None)
        return f"its agent does not answer any more{f': {said}' if said else ''}"

    async def read_files(self, paths: Sequence[str]) -> FilesRead:
        async with self._is_reading:
            if self._for_files is not None:
                with contextlib.suppress(OSError, EOFError):  # it has ended meanwhile
                    return await self._read_files(self._for_files, paths)
            self._for_files = await self.connected()
            try:
                return await self._read_files(self._for_files, paths)
            except (OSError, EOFError) as error:
                raise self.lost(error) from None

    async def _read_files(self, connection: _Connection, paths: Sequence[str]) -> FilesRead:
        """MachineLost, ToolFailed; OSError and EOFError if the connection ends."""
        reader, writer = connection
        asked, asked_ns = time.monotonic(), time.time_ns()
        self.unanswered[writer] = asked
        try:
            _ask(writer, {"read": {"paths": list(paths)}})
            async with asyncio.timeout(LIMITS.command):
                letter, content = await _frame(reader, self)
            answered, answered_ns = time.monotonic(), time.time_ns()
            if letter != b"f":
                raise ToolFailed(f"its agent sends a frame {letter!r} in place of files", self.name)
            files, started_ns, ended_ns = _parse_files(content, self.name)
        except BaseException as error:
            self._for_files = None
            writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise self.lost(error) from None
            raise
        finally:
            del self.unanswered[writer]
        return FilesRead(files, asked, answered, ended_ns - answered_ns, started_ns - asked_ns)

    async def reach(self) -> None:
        greeting: Greeting | None = None
        try:
            async with asyncio.timeout(self.boot_limit):
                while greeting is None:
                    speaking = await first_to_speak(self.endpoint.host, self.endpoint.port, self.ready)
                    reader, writer = await asyncio.open_connection(sock=speaking)
                    try:
                        greeting = await shake(reader, writer, self.endpoint)
                    except (OSError, EOFError):
                        await asyncio.sleep(AGAIN)  # it went down again, or was not quite up
                    finally:
                        writer.close()
        except TimeoutError:
            what = f"its agent did not answer within {self.boot_limit:g} s"
            raise NotProvisioned(what, self.endpoint.where) from None
        self.boot_id, self.arch = greeting.boot_id, greeting.arch

    def abort(self) -> None:
        """Each program has a connection of its own, with which it ends."""
        kept = [self._for_files[1]] if self._for_files else []
        for writer in (*self.unanswered, *kept):
            writer.transport.abort()
        for program in self._programs:
            program.abandon()

    async def close(self) -> None:
        await super().close()
        await asyncio.gather(*(program.wait_read_end() for program in self._programs))


def _ask(writer: StreamWriter, request: Mapping[str, Any]) -> None:
    writer.write(json.dumps(request).encode() + b"\n")


def _parse_files(content: bytes, name: str) -> tuple[dict[str, str], int, int]:
    """Texts by their paths, and when the first and the last were read, in ns. ToolFailed for what is none."""
    try:
        document = json.loads(content)
        files, times = dict(document["files"]), [document["started_ns"], document["ended_ns"]]
    except (*MALFORMED, RecursionError):
        files, times = {"": None}, []
    if not all(isinstance(one, str) for one in files.values()) or not all(type(one) is int for one in times):
        raise ToolFailed("what its agent sends are no files", name)
    return files, times[0], times[1]


async def shake(reader: StreamReader, writer: StreamWriter, endpoint: AgentEndpoint) -> Greeting:
    """Prove to each other that both know the secret. NotProvisioned when the other side does not; OSError, EOFError."""
    greeting = await _said(reader)
    if greeting.get("schema") != _SCHEMA:
        raise NotProvisioned(f"what answers there is no agent of version {_SCHEMA}", endpoint.where)
    guest = Greeting(*(_word(greeting, name, endpoint) for name in ("nonce", "boot_id", "arch")))
    ours = base64.b64encode(os.urandom(_NONCE)).decode()
    answer = {"nonce": ours, "proof": endpoint.signed("controller", guest, ours)}
    writer.write(json.dumps(answer).encode() + b"\n")
    proof = _word(await _said(reader), "proof", endpoint)
    if not hmac.compare_digest(proof.encode(), endpoint.signed("guest", guest, ours).encode()):
        raise NotProvisioned("what answers there does not know this lab's secret", endpoint.where)
    return guest


async def _said(reader: StreamReader) -> dict[str, Any]:
    """One document. NotProvisioned where it is none, EOFError where the connection ends before."""
    try:
        line = await reader.readuntil(b"\n")
        document = json.loads(line)
    except (asyncio.LimitOverrunError, ValueError, RecursionError):
        raise NotProvisioned("what answers there is no agent") from None
    return document if isinstance(document, dict) else {}


def _word(document: Mapping[str, Any], name: str, endpoint: AgentEndpoint) -> str:
    """NotProvisioned for what is none: it goes into records and messages."""
    word = document.get(name)
    if not isinstance(word, str) or not _WORD.fullmatch(word):
        raise NotProvisioned(f"what answers there is no agent: its {name} is {str(word)[:100]!r}", endpoint.where)
    return word


async def _frame(reader: StreamReader, commands: RemoteCommands) -> tuple[bytes, bytes]:
    """Its letter and its content. OSError, EOFError; ToolFailed for a request that the guest did not carry out, and for
    what no agent sends."""
    letter, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    if length > _FRAME:
        what = f"its agent sends a frame of {show_size(length)}; at most {show_size(_FRAME)} are read"
        raise ToolFailed(what, commands.name)
    content = await reader.readexactly(length)
    if letter == b"!":
        raise ToolFailed(f"its agent says: {content.decode('utf-8', 'replace')}", commands.name)
    return letter, content


class _Program(OutputCollector):
    """A program in the guest, and the connection that its bytes come by."""

    def __init__(self, commands: AgentMachine, connection: _Connection, stdin: bytes) -> None:
        self._commands = commands
        self._reader, self._writer = connection
        self._group: int | None = None
        self._has_begun = asyncio.Event()
        """Or has ended without."""
        self._boot_id = commands.boot_id
        self._input = asyncio.ensure_future(self._send(stdin))
        super().__init__(commands.name)

    async def _send(self, stdin: bytes) -> None:
        # Whether the connection still stands is told where it is read.
        with contextlib.suppress(OSError):
            for begin in range(0, len(stdin), _PIECE):
                piece = stdin[begin : begin + _PIECE]
                self._writer.write(_HEADER.pack(b"i", len(piece)) + piece)
                await self._writer.drain()
            self._writer.write(_HEADER.pack(b"i", 0))

    async def collect_output(self) -> int:
        try:
            while True:
                letter, content = await _frame(self._reader, self._commands)
                if letter == b"o":
                    self.add_stdout(content)
                elif letter == b"e":
                    self.add_stderr(content)
                elif letter == b"p" and content.isdigit() and len(content) <= _LONGEST_ID:
                    self._group = int(content)
                    self._has_begun.set()
                elif letter == b"x" and len(content) == 1:
                    return content[0]
                else:
                    what = f"its agent sends a frame {letter!r} of {len(content)} bytes that none sends"
                    raise ToolFailed(what, self._commands.name)
        except (OSError, EOFError) as error:
            raise self._commands.lost(error) from None
        finally:
            self._has_begun.set()
            self._input.cancel()
            self._writer.close()
            await asyncio.wait([self._input])

    async def signal(self, number: signal.Signals) -> None:
        try:
            async with asyncio.timeout(LIMITS.command):
                await self._has_begun.wait()
        except TimeoutError as error:
            raise self._commands.lost(error) from None
        # Numbers come again: in another boot the same one is somebody else's.
        if self._group is not None and not self.has_ended and self._boot_id == self._commands.boot_id:
            await self._commands.signal(self._group, number)

    def abandon(self) -> None:
        """Let go of the connection: the program ends, and nobody hears how."""
        self._writer.transport.abort()
