"""The matrix of faults, a line each: what befalls a running study, who is to blame, and that nothing is left of it."""

import asyncio
import contextlib
import mmap
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nearmetal.config import read_patience
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.clean import clean
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.image import Image
from nearmetal.lab.image.user_image import ImageSource, build_own
from nearmetal.lab.process_locks import LOCK_FILE
from nearmetal.lab.qemu import identity
from nearmetal.model import Measurement, Stage, TrialRecord, TrialStatus
from nearmetal.report import report_input
from nearmetal.run import plan_execution
from nearmetal.run.events import TrialEnded, TrialStarted
from nearmetal.store.events import Event
from nearmetal.store.run_folder import RunFolder
from nearmetal.workloads.command import Command
from nearmetal.workloads.http import Http
from nearmetal.workloads.ping import Ping
from tests import own_image
from tests.order import mock_run
from tests.small_disk import small_disk

from . import faults
from .far_host import FarHost
from .faults import Deed
from .leftovers import stays

pytestmark = pytest.mark.live

HEAD = """
name = "fault"
reference = {{ environment = "base" }}
[environments.base]
kind = "host"
[environments.victim]
kind = "{kind}"
[factors]
environment = ["base", "victim"]
[machine]
memory = "256MiB"
accel = "ACCEL"
[design]
seed = 1
blocks = 1
[[workloads]]
name = "work"
""".replace("ACCEL", os.environ.get("NEARMETAL_TEST_ACCEL", "tcg"))
"""`make rig` tries guests by KVM."""
WEB = 'kind = "http"\nwarmup = "0s"\nduration = "2s"\n'
PING = 'kind = "ping"\nduration = "2s"\n'
ONE_WAY = PING + 'primary = "forward_p50"\n'

DURATION = 2.0
"""Seconds that are measured; what happens, happens 0.6 s after their beginning."""
NOTICED = 20.0 * read_patience(os.environ)
"""Seconds to the trial's end, twice what a person looks for, so that who else is at work on the host decides nothing.
What nobody notices ends with a limit, which is of half a minute or more. Each test prints what it took."""


def command(*argv: str, timeout: str = "20s") -> str:
    words = ", ".join(f"'{word}'" for word in argv)
    return (
        f'kind = "command"\nargv = [{words}]\nresponse = "seconds"\nbetter = "lower"\njson = "seconds"\n'
        f'duration = "1s"\ntimeout = "{timeout}"\n'
    )


@dataclass(frozen=True)
class Line:
    name: str
    kinds: str
    """Of the machine that it befalls; the first is tried by `make test`, unless there is a dash before it."""
    deed: Deed | None
    found: str
    """Status, blame and cause; "ok" if the study has to bear it."""
    words: str
    """A pattern in the reason."""
    is_repeated: bool = False
    """Its block has another attempt, which nothing befalls: so it is if the treatment is not to blame. A few are enough
    to see that; the others are quicker."""
    work: str = WEB
    before: bool = False
    """It happens before the trial prepares, not as it measures."""


KILL, STOP, TERM = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM
LINES = [
    # What serves
    Line(
        "server killed",
        "host -docker -qemu",
        faults.signal_server(KILL),
        "failed treatment service-died",
        "`lighttpd` ended by SIGKILL",
    ),
    Line("server ended", "-docker", faults.signal_server(TERM), "failed treatment service-died", "`lighttpd` ended"),
    Line(
        "server replaced", "-host -qemu", faults.replace_server, "failed treatment service-died", "`lighttpd` ended by"
    ),
    Line(
        "server silent",
        "host -docker -qemu",
        faults.signal_server(STOP),
        "failed treatment service-silent",
        "silent|answer",
    ),
    # Memory, and disks
    Line(
        "out of memory",
        "host -docker -qemu",
        faults.fill_memory,
        "failed treatment out-of-memory",
        "the kernel killed a process of the server",
    ),
    Line(
        "disk full in the machine",
        "host -qemu",
        None,
        "failed treatment workload-failed",
        "No space left",
        work=command("sh", "-c", "mount -t tmpfs -o size=1m full /mnt && dd if=/dev/zero of=/mnt/much bs=64k"),
    ),
    Line(
        "/run filled up to the limit of memory",
        "-host",
        faults.fill_run,
        "(lost|failed) treatment out-of-memory",
        "no memory left: .*Killed process",
    ),
    Line("/run filled up to its own limit", "-qemu", faults.fill_run, "ok", ""),
    # The machine
    Line(
        "container removed", "-docker", faults.remove_container, "lost treatment machine-lost", "container|gone|ended"
    ),
    Line(
        "container's first process killed",
        "-docker",
        faults.kill_first_process,
        "lost treatment machine-lost",
        "container|gone|ended",
    ),
    Line(
        "QEMU killed",
        "-qemu",
        faults.signal_guest(KILL),
        "lost treatment machine-lost",
        "its `QEMU` ended by SIGKILL",
    ),
    Line(
        "guest hung",
        "-qemu",
        faults.signal_guest(STOP),
        "lost treatment machine-lost",
        "has stopped its QEMU",
    ),
    Line(
        "QEMU stopped for 3 s",
        "-qemu",
        faults.signal_guest(STOP, wakes_after=3.0),
        "invalid host stood-still",
        "stood still for",
        is_repeated=True,
    ),
    Line(
        "kernel panic",
        "-qemu",
        faults.panic,
        "lost treatment machine-.*",
        "kernel panicked",
    ),
    Line("guest livelocked", "-qemu", faults.livelock, "lost treatment machine-lost", "the guest is livelocked"),
    Line("agent killed", "-qemu", faults.kill_agent, "lost treatment machine-lost", "agent"),
    Line("clock an hour ahead", "-qemu", faults.step_clock(3600), "ok", "", work=PING),
    Line("clock an hour behind", "-qemu", faults.step_clock(-3600), "ok", "", work=PING),
    Line("clock left alone", "-qemu", None, "ok", "", work=ONE_WAY),
    Line(
        "clock stepped forth, for one way",
        "-qemu",
        faults.step_clock(3600),
        "invalid instrument clocks-untrusted",
        "the clocks of both ends cannot be compared, so that forward_p50",
        is_repeated=True,
        work=ONE_WAY,
    ),
    Line(
        "clock stepped back, for one way",
        "-qemu",
        faults.step_clock(-3600),
        "invalid instrument clocks-untrusted",
        "the clocks of both ends cannot be compared, so that forward_p50",
        work=ONE_WAY,
    ),
    Line(
        "clock stepped forth and back, for one way",
        "-qemu",
        faults.step_clock(1, -1),
        "invalid instrument clocks-untrusted",
        "the clocks of both ends cannot be compared, so that forward_p50",
        work=ONE_WAY,
    ),
    # The way
    Line(
        "link cut",
        "-host -docker -qemu",
        faults.set_link("down"),
        "failed instrument link-broken",
        "leads to the server .* was set down",
    ),
    Line(
        "link cut and mended",
        "host",
        faults.set_link("down", "up"),
        "failed instrument link-broken",
        "lost its carrier, and has it again",
        is_repeated=True,
    ),
    Line(
        "carrier down",
        "-host -qemu",
        faults.drop_carrier,
        "failed instrument link-broken",
        "is down|no carrier|lost a route",
    ),
    Line(
        "address taken away",
        "-host -docker -qemu",
        faults.take_address,
        "failed instrument link-broken",
        "has lost its address|lost a route",
    ),
    Line("namespace taken away", "-host", faults.take_namespace, "failed instrument link-broken", "is gone"),
    # The instrument
    Line(
        "generator killed",
        "host",
        faults.kill_generator,
        "failed instrument generator-died",
        "on the client .* ended by SIGKILL",
        is_repeated=True,
    ),
    Line(
        "probe corrupted",
        "-host",
        faults.corrupt_probe,
        "failed instrument measurement-invalid",
        "what the load generator printed is no load.v1",
        before=True,
    ),
    # A tool of the user's
    Line(
        "tool prints rubbish",
        "host",
        None,
        "failed treatment workload-failed",
        "JSON",
        work=command("printf", r"\\377rubbish"),
    ),
    Line(
        "tool prints nothing", "-host", None, "failed treatment workload-failed", "JSON|nothing", work=command("true")
    ),
    Line(
        "tool hangs and ignores signals",
        "host",
        None,
        "failed treatment timed-out",
        "did not end|within|s$",
        work=command("sh", "-c", 'trap "" TERM INT HUP; while :; do sleep 1; done', timeout="2s"),
    ),
    Line(
        "tool prints 2 GiB",
        "-host -docker -qemu",
        None,
        "failed treatment workload-failed",
        "output|MiB|bytes",
        work=command("head", "-c", "2G", "/dev/zero", timeout="200s"),
    ),
]

NEEDS_VERSION_2 = "the group of version 2 is"
"""What such lines begin with: skipped where control groups are of version 1, and tried by `make rig`."""
LINES += [
    Line(
        f"{NEEDS_VERSION_2} frozen",
        "host",
        faults.set_group("cgroup.freeze", "1"),
        "failed host stood-still",
        "stands still: its control group is frozen",
    ),
    Line(f"{NEEDS_VERSION_2} under pressure", "host", faults.set_group("memory.high", "16M"), "ok", ""),
    Line(
        f"{NEEDS_VERSION_2} out of memory",
        "host",
        # With 1M the kernel killed a process in one of two tries; nothing that serves is as small as this.
        faults.set_group("memory.max", "64K"),
        "(failed|lost) treatment out-of-memory",
        "kernel killed|no memory left",
    ),
]

CANNOT = {
    "a card pulled out of its slot": "there is no card here beside those of namespaces",
    "power cut": "this host is needed afterwards; `make rig` cuts that of its machine",
}


def cases() -> Iterator[object]:
    for line in LINES:
        for kind in line.kinds.split():
            marks = [pytest.mark.long] if kind.startswith("-") else []
            kind = kind.removeprefix("-")
            yield pytest.param(line, kind, id=f"{line.name} ({kind})", marks=marks)


class Misfortune:
    """Befalls the victim of the first attempt, as it is measured."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.names: set[str] = set()
        self.done_at = 0.0
        self.ended_at = 0.0
        self._begun = 0
        self._is_victim = False

    def befall(self, monkeypatch: pytest.MonkeyPatch) -> None:
        misfortune = self
        for kind in (Http, Ping, Command):
            run, prepare = kind.run, kind.prepare

            async def running(workload: object, stage: Stage, run: object = run) -> Measurement:
                return await misfortune.during(stage, run(workload, stage))  # type: ignore[operator]

            async def preparing(workload: object, stage: Stage, prepare: object = prepare) -> None:
                misfortune.names |= {machine.name for machine in (*stage.servers, *stage.clients)}
                if misfortune.line.before and misfortune.is_meant():
                    await misfortune.do(stage)
                await prepare(workload, stage)  # type: ignore[operator]

            monkeypatch.setattr(kind, "run", running)
            monkeypatch.setattr(kind, "prepare", preparing)

    def is_meant(self) -> bool:
        return self._is_victim and self._begun == 1

    async def during(self, stage: Stage, measuring: object) -> Measurement:
        if self.line.before or self.line.deed is None or not self.is_meant():
            return await measuring  # type: ignore[misc, no-any-return]
        doing = asyncio.ensure_future(self._later(stage))
        try:
            return await measuring  # type: ignore[misc, no-any-return]
        finally:
            await doing

    async def _later(self, stage: Stage) -> None:
        await asyncio.sleep(0.6)
        await self.do(stage)

    async def do(self, stage: Stage) -> None:
        assert self.line.deed is not None
        if not self.done_at:
            self.done_at = time.monotonic()
        await self.line.deed(stage)

    def see(self, event: Event) -> None:
        if isinstance(event, TrialStarted):
            self._is_victim = event.trial.treatment["environment"] == "victim"
            self._begun += self._is_victim
        is_bad = isinstance(event, TrialEnded) and event.record.status is not TrialStatus.OK
        if is_bad and self.done_at and not self.ended_at:
            self.ended_at = time.monotonic()


@pytest.mark.parametrize(("line", "kind"), list(cases()))
async def test_a_fault(
    line: Line,
    kind: str,
    tmp_path: Path,
    lab_image: Image,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if line.name.startswith(NEEDS_VERSION_2) and not faults.HAS_VERSION_2:
        pytest.skip("control groups here are of version 1; `make rig` tries it where they are of version 2")
    if kind == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    tokens = await suffer(line, kind, HEAD.format(kind=kind), tmp_path / "run", monkeypatch)
    assert await mock_run.left_over() == []
    assert list(ledgers_folder().glob("*.jsonl")) == []
    assert [one for token in tokens for one in stays(token)] == []


async def suffer(line: Line, kind: str, head: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Run a study that this befalls, and see what its records say; what its machines' names begin with."""
    if not line.is_repeated:
        monkeypatch.setattr(plan_execution, "MOST_ATTEMPTS", 1)
    misfortune = Misfortune(line)
    misfortune.befall(monkeypatch)
    _, records = await mock_run.run(folder, head + line.work, misfortune.see)
    bad = [record for record in records if record.status is not TrialStatus.OK]
    assert len(records) == (4 if line.is_repeated else 2)
    took = misfortune.ended_at - misfortune.done_at if misfortune.ended_at else None
    assert misfortune.done_at or line.deed is None, "nothing befell it"
    keep(f"{line.name} ({kind})", took, bad)
    if line.found == "ok":
        assert bad == []
    else:
        assert bad and all(re.fullmatch(line.found, describe_fault(record)) for record in bad), line.found
        assert all(re.search(line.words, str(record.reason)) for record in bad), line.words
        assert took is None or took < DURATION + NOTICED
        verdicts = {one.verdict for one in report_input.read_run_input(RunFolder(folder)).analysis.contrasts}
        assert verdicts <= {"undecided", "withdrawn"}
    return {name.rpartition("-")[0] for name in misfortune.names}


def keep(what: str, took: float | None, bad: Sequence[TrialRecord]) -> None:
    keep_line(what, took, str(bad[0].reason) if bad else "", describe_fault(bad[0]) if bad else "ok")


def keep_line(what: str, took: float | None, reason: str, found: str = "ended with 3") -> None:
    """Print what became of it and, if NEARMETAL_FAULTS names a file, put that in the place of its line there."""
    when = "" if took is None else f" after {took:.1f} s"
    line = f"{what}: {found}{when}{f': {words[:300]}' if (words := ' '.join(reason.split())) else ''}"
    print(f"\n{line}")
    if name := os.environ.get("NEARMETAL_FAULTS"):
        file = Path(name)
        lines = file.read_text().splitlines() if file.is_file() else []
        others = [one for one in lines if not one.startswith(f"{what}: ")]
        file.write_text("".join(f"{one}\n" for one in sorted([*others, line])))


@pytest.mark.long
@pytest.mark.parametrize(("name", "found"), [("dockerd", "lost treatment machine-lost"), ("containerd", "ok")])
async def test_an_engine_that_is_killed(
    name: str, found: str, tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is removed by `clean`. Its containers go on without containerd, which it starts anew."""
    with tempfile.TemporaryDirectory(prefix="nm-", dir="/var/tmp") as short:  # sockets have short paths
        folder = Path(short)
        async with run_private_engine(folder) as url:
            monkeypatch.setenv("DOCKER_HOST", url)
            line = Line(f"{name} killed", "docker", faults.kill_engine(folder, name), found, "engine")
            tokens = await suffer(line, "docker", HEAD.format(kind="docker"), tmp_path / "run", monkeypatch)
        assert (await clean()).left == ()
        assert await mock_run.left_over() == []
        assert [one for token in tokens for one in stays(token)] == []


@pytest.mark.long
@pytest.mark.parametrize(("what", "size"), [("as its guest boots", "256m"), ("as its memory is written", "24m")])
async def test_a_cache_that_is_full_while_a_snapshot_is_made(
    what: str, size: str, home: Path, tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, waiting = home / "cache", identity.wait_ready
    shared = cache.resolve()
    cache.unlink()
    cache.mkdir()
    for one in shared.iterdir():
        if one.name != "snapshots":
            (cache / one.name).symlink_to(one)

    async def wait_filled(*words: Any) -> None:
        if size == "256m":
            with contextlib.suppress(OSError), (small / "much").open("ab", buffering=0) as much:
                while True:
                    much.write(bytes(mmap.PAGESIZE))
        await waiting(*words)

    monkeypatch.setattr(identity, "wait_ready", wait_filled)
    began = time.monotonic()
    with small_disk(cache / "snapshots", size) as small:
        with pytest.raises(HostCannot, match=r"no guest can be saved: .*(disk is full|No space left)") as told:
            await mock_run.run(tmp_path / "run", HEAD.format(kind='qemu"\nprovision = "restore') + WEB)
        assert [one for one in small.iterdir() if one.is_dir()] == []
    keep_line(
        f"cache full {what}, for a snapshot (qemu)",
        time.monotonic() - began,
        str(told.value).replace(str(tmp_path), ""),
    )
    assert "NEARMETAL_HOME" in told.value.remedy and str(small) in str(told.value)
    assert await mock_run.left_over() == []


@pytest.mark.parametrize(("what", "size"), [("before", "1m"), ("as it is unpacked", "1m"), ("as it is packed", "8m")])
async def test_a_cache_that_is_full_while_an_image_is_made(
    what: str, size: str, tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what != "before":
        monkeypatch.setattr(sys.modules["nearmetal.lab.image.build"], "SPACE", 0)
    archive = own_image.docker_archive(tmp_path / "own.tar", [own_image.layer(own_image.busybox())])
    began = time.monotonic()
    with small_disk(tmp_path / "cache", size) as small:
        with pytest.raises((HostCannot, ToolFailed), match=r"MiB are free|No space left") as told:
            await build_own(ImageSource("full", archive, lab_image), small, print)
        assert [file for file in small.rglob("*") if file.is_file() and file.name != LOCK_FILE] == []
    keep_line(f"cache full {what} (image)", time.monotonic() - began, str(told.value).replace(str(tmp_path), ""))
    assert told.value.remedy and str(small) in str(told.value)


async def test_a_login_that_is_cut(
    far: FarHost, tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = HEAD.format(kind=f'ssh"\naddress = "{far.ssh}"\nprovision = "reuse')
    line = Line(
        "login cut",
        "ssh",
        faults.cut_login(far.first),
        "lost treatment machine-lost",
        "its SSH connection is gone",
        work=command("sh", "-c", 'sleep 3; echo "{\\"seconds\\": 3}"'),
    )
    await suffer(line, "ssh", head, tmp_path / "run", monkeypatch)
    assert await mock_run.left_over() == []


def describe_fault(record: TrialRecord) -> str:
    return f"{record.status.value} {record.blame} {record.cause}"


@pytest.mark.parametrize("what", CANNOT)
def test_a_fault_that_cannot_be_tried_here(what: str) -> None:
    pytest.skip(f"{what}: {CANNOT[what]}")
