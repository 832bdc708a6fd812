"""The user's own services: put into each server, started, awaited over the data network, and ended."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, NearmetalError, TimedOut, ToolFailed
from nearmetal.lab import machine_image
from nearmetal.lab.commands import background_commands
from nearmetal.lab.listening_sockets import find_listeners, is_loopback
from nearmetal.lab.service import LabService, describe_end
from nearmetal.lab.stage import LabStage
from nearmetal.model import Assignment, Cause, Machine, PlacedFile, ResolvedService, find_own_address
from nearmetal.model.services import FILLED, SERVER, parse_tcp
from nearmetal.study.levels import fill_placeholders, format_level
from nearmetal.system.files import read_regular

POLL = 0.1
"""Seconds between two questions, so that waiting costs a starting guest little."""
ASKED = 5.0
"""Seconds that one question may take."""
KEPT = 64 * 2**10
"""Bytes of each output stream that are kept, the last ones: a service may log as much as it likes."""

_FOREGROUND = "have it stay in the foreground, as nginx does with `daemon off;`"
_REMEDIES = {
    0: _FOREGROUND,
    125: "`user` and `directory` must be there in the machine: docs/services.md",
    126: "start an executable file for this machine; the program's mode is that of the file in `files`",
    127: "bring the program with `files`, or name one of the image",
}
"""By the status with which a service ended before it was ready."""


class ServiceFailed(ToolFailed):
    """A service did not get ready."""


@dataclass(frozen=True)
class _StartedService:
    name: str
    number: int
    """Of its server."""
    service: LabService


class ServiceSet:
    """The services of a boot. Each runs while a trial that asks it does, or until the boot ends."""

    def __init__(self, asked: Mapping[str, ResolvedService], files: Path, levels: Assignment) -> None:
        """`files` is the folder with the contents of their files; `levels` those of the treatment."""
        self._asked = {name: fill_in_levels(one, levels) for name, one in asked.items()}
        self._files = files
        self._running: list[_StartedService] = []
        self._placed: set[tuple[str, PlacedFile]] = set()

    async def start(self, names: Sequence[str], stage: LabStage) -> None:
        """Have them run on each server, and return when all are ready. ServiceFailed, MachineLost, HostCannot."""
        for name in names:
            for number, server in enumerate(stage.servers):
                standing = await self._find_active(name, number)
                if standing is None:
                    await self.place_files(self._asked[name].files, server)
                    await self._start(name, number, server, stage)
                else:
                    stage.services.append(standing)
            for one in [one for one in self._running if one.name == name]:
                # Client i faces server i; a server that all share is asked by the first.
                await self._wait_ready(one, stage.clients[one.number])

    async def place_files(self, files: Sequence[PlacedFile], *machines: Machine) -> None:
        """Put files into machines, each once. BadInput if the run's folder lacks one; MachineLost, HostCannot."""
        for machine in machines:
            for file in files:
                if (machine.name, file) not in self._placed:
                    content = read_regular(self._files / file.sha256, "restore it from a copy of the run's folder")
                    await machine.put(content, file.destination, mode=file.mode)
                    self._placed.add((machine.name, file))

    async def end_services(self, *, lifetimes: Sequence[str] = ("trial", "boot")) -> dict[str, bytes]:
        """Stop those that live as long, the last one first; the last that each printed, by the name of a file."""
        said: dict[str, bytes] = {}
        for one in reversed(self._running):
            if self._asked[one.name].lifetime in lifetimes:
                with contextlib.suppress(NearmetalError):  # with its machine, a service is gone too
                    ended = await one.service.stop()
                    called = f"service-{one.name}{f'-{one.number}' if one.number else ''}"
                    outputs = {f"{called}.out": ended.stdout, f"{called}.err": ended.stderr}
                    said |= {file: text[-KEPT:] for file, text in outputs.items() if text}
        self._running = [one for one in self._running if self._asked[one.name].lifetime not in lifetimes]
        return said

    async def _find_active(self, name: str, number: int) -> LabService | None:
        """The one that an earlier trial started, unless it has ended since."""
        for one in self._running:
            if (one.name, one.number) == (name, number):
                if await one.service.alive():
                    return one.service
                self._running.remove(one)
                return None
        return None

    async def _start(self, name: str, number: int, server: Machine, stage: LabStage) -> None:
        asked = fill_in_image(self._asked[name], stage.spec.image)
        argv = fill_address(asked.start, server)
        env = dict(zip(asked.env, fill_address(list(asked.env.values()), server), strict=True))
        with background_commands.keep_last_output(KEPT):
            service = await stage.serve_as(name, server, build_launch(asked, server.probe, argv), env)
        self._running.append(_StartedService(name, number, service))

    async def _wait_ready(self, started: _StartedService, client: Machine) -> None:
        """Return once it is ready. ServiceFailed, MachineLost."""
        service, asked = started.service, self._asked[started.name]
        until = time.monotonic() + asked.ready_within
        while True:
            answer = await _probe_service(asked, service.machine, client)
            if not await service.alive():
                raise _describe_early_end(service)
            if answer == "" and await service.has_left():
                what = f"`{service.program}` has ended, and left what it started in the background"
                what += ": nobody could watch or end that"
                raise ServiceFailed(what, service.machine.name, _FOREGROUND, cause=Cause.SERVICE_DIED)
            if answer == "":
                return
            if time.monotonic() > until:
                break
            with contextlib.suppress(TimedOut):
                await service.wait(POLL)
        raise ServiceFailed(
            f"`{started.name}` was not ready within {asked.ready_within:g} s: {answer}{await _last_words(service)}",
            service.machine.name,
            "look at `ready`, or give it more time: `ready_within`; the files of this trial have what it printed",
            cause=Cause.SERVICE_NOT_READY,
        )


def fill_in_levels(asked: ResolvedService, levels: Assignment) -> ResolvedService:
    """A service with a treatment's levels in place of their placeholders: texts, whatever the levels' types. Pure."""
    texts = {name: format_level(level) for name, level in levels.items()}
    written = asked.model_dump(include=set(FILLED))
    return asked.model_validate({**asked.model_dump(), **fill_placeholders(written, texts)})


def fill_in_image(asked: ResolvedService, image: str) -> ResolvedService:
    """A service with what its machine's image starts, if it asks for that; the study's words go first. HostCannot."""
    if asked.start != "image":
        return asked
    process = machine_image.find_process(image)
    return asked.model_copy(
        update={
            "start": process.argv,
            "env": {**process.env, **asked.env},
            "user": asked.user or process.user or None,
            "directory": asked.directory or process.directory,
        }
    )


def fill_address(words: Sequence[str], server: Machine) -> list[str]:
    """Words with the address at which a service of the server's listens in place of `$server`. Pure."""
    return [word.replace(SERVER, find_own_address(server)) for word in words]


def build_launch(asked: ResolvedService, probe: str, argv: Sequence[str]) -> list[str]:
    """The command by which a service runs as its user, in its directory. Pure."""
    user = ["--user", asked.user] if asked.user else []
    directory = ["--chdir", asked.directory] if asked.directory else []
    return [probe, "launch", *user, *directory, "--", *argv] if user or directory else list(argv)


async def _last_words(service: LabService) -> str:
    ended = await service.stop()
    said = ended.complaint or ended.text.strip()
    return f"; it said: {said[-300:]}" if said else "; it printed nothing"


def _describe_early_end(service: LabService) -> ServiceFailed:
    ended = service.ended
    assert ended is not None
    into_background = ", perhaps into the background" if ended.status == 0 else ""
    return ServiceFailed(
        f"{describe_end(service.program, ended)}; it was to go on serving{into_background}",
        service.machine.name,
        _REMEDIES.get(ended.status, "try its `start` in such a machine: `nearmetal exec`, docs/by-hand.md"),
        cause=Cause.SERVICE_DIED,
    )


async def _probe_service(asked: ResolvedService, server: Machine, client: Machine) -> str:
    """Empty when it is ready; else what came instead. ServiceFailed when waiting cannot help; MachineLost."""
    try:
        if not isinstance(asked.ready, str):
            return await _run_check(asked.ready, server)
        port = parse_tcp(asked.ready)
        if port is not None:
            return await _find_listener(port, server)
        return await _request_url(asked.ready.replace(SERVER, server.address), server, client)
    except TimedOut as error:
        return error.what


async def _run_check(ready: Sequence[str], server: Machine) -> str:
    ended = await server.exec(fill_address(ready, server), timeout=ASKED)
    if ended.status in (126, 127):
        what = f"`{ready[0]}`, which is to say whether it is ready, cannot be run: {ended.complaint[-300:]}"
        raise ServiceFailed(what, server.name, _REMEDIES[127], cause=Cause.SERVICE_NOT_READY)
    said = (ended.complaint or ended.text.strip())[-300:]
    return "" if ended.status == 0 else f"`{ready[0]}` ends with status {ended.status}{f': {said}' if said else ''}"


async def _request_url(url: str, server: Machine, client: Machine) -> str:
    """A request from a client, through the data network."""
    # Whose certificate it is, the workload looks at: here it is asked whether anybody answers.
    tls = ["--insecure"] if url.startswith("https:") else []
    asking = ["--requests", "1", "--workers", "1", "--timeout", f"{ASKED:g}s", "--json"]
    argv = [client.probe, "load", url, *tls, *asking]
    ended = await client.exec(argv, timeout=ASKED + LIMITS.command)
    try:
        document = json.loads(ended.stdout)
        if document["status"].get("2xx", 0):
            return ""
        codes, errors = document.get("status_codes", {}), document["errors"]
    except MALFORMED:
        return f"the client could not ask {url}: {ended.complaint[-300:]}"
    port = urlsplit(url).port or (443 if tls else 80)
    is_refused = errors.get("refused") and urlsplit(url).hostname == server.address
    if is_refused and (said := await _find_listener(port, server)):
        return said
    seen = [*codes, *(name for name, count in errors.items() if count)]
    return f"{url} answers {', '.join(map(str, seen)) or 'nothing'}"


async def _find_listener(port: int, server: Machine) -> str:
    """Empty if a process of the server listens where clients reach it; ServiceFailed if they cannot."""
    # Never by a connection: services without HTTP take one for a client, and log it.
    ended = await server.exec(["cat", "/proc/net/tcp", "/proc/net/tcp6"], timeout=ASKED)
    addresses = find_listeners(ended.text, port)
    if not addresses:
        return f"nothing listens on port {port}"
    if all(map(is_loopback, addresses)):
        raise ServiceFailed(
            f"it listens on {', '.join(sorted(map(str, addresses)))} alone, port {port}: no client reaches it there",
            server.name,
            f'have it listen on "{SERVER}", which is {find_own_address(server)} here, or on 0.0.0.0',
            cause=Cause.SERVICE_NOT_READY,
        )
    return ""
