"""What happens on a site: a block in a process of its own, and its spool, which stays until the controller has it.

These functions are called by Dask on a worker, by their names. They wait for the block's process and read files: all
that is nearmetal's work, with its loop, lab and ledger, is in that process.

A spool lies in the state folder, `fleet/RUN/DISPATCH/`. Its lock is held by the worker and by the block's process, so
that it is free only when both are done with it, however they ended.
"""

import asyncio
import contextlib
import hashlib
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import nearmetal
from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot, NearmetalError
from nearmetal.fleet.messages import ARTIFACTS, EVENTS, BlockOrder, Outcome, Part, Spool, SpooledFile
from nearmetal.lab import probe
from nearmetal.lab.process_locks import hold_measuring_lock, try_lock
from nearmetal.run.block_events import BlockFailed
from nearmetal.run.block_main import HEARTBEAT_SECONDS
from nearmetal.system import held_secrets
from nearmetal.system.files import closing_descriptor, make_folder, sync_folder, write_whole

LOOK = 0.25
"""Seconds between two looks whether the order still stands."""
SILENT = 12 * HEARTBEAT_SECONDS
"""Seconds without a sign of life after which a block's process hangs."""
_LOCK = "lock"
_CLOSED = "closed"
_SAID = "stderr.txt"


def describe_site() -> dict[str, str]:
    """What the host of this worker is, and what would run there."""
    return {
        "nearmetal": nearmetal.__version__,
        "probe": probe.sha256(),
        "Python": platform.python_version(),
        "host": platform.node(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }


def run_order(text: str) -> str:
    """Run a block's process to its end, in the thread that Dask gives it: an `Outcome` as JSON.

    It is told to end when the order no longer stands: the controller took it back, or is gone, or the worker ends.
    """
    order = BlockOrder.model_validate_json(text)
    try:
        _run_order(order, _order_stands())
    except (NearmetalError, OSError) as error:
        return Outcome(refused=BlockFailed.from_error(error)).model_dump_json()
    return Outcome().model_dump_json()


def _order_stands() -> Callable[[], bool]:
    """Whether Dask still wants this thread's task: it forgets those whose client is gone."""
    from distributed import Status, get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_standing() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status is Status.running and task is not None and task.state == "executing"

    return is_standing


def _run_order(order: BlockOrder, stands: Callable[[], bool]) -> None:
    folder = _spool_of(order.run, order.dispatch)
    make_folder(folder.parent)
    folder.mkdir()  # whoever comes second must not run it again
    files = folder.parent / "files"
    task = order.task.model_copy(update={"artifacts": str(folder / ARTIFACTS), "files": str(files)})
    with (
        _hold_dispatch(folder) as spool_lock,
        contextlib.nullcontext()
        if order.is_pretended
        else hold_measuring_lock(what="a block of a fleet's run") as measuring_lock,
        (folder / EVENTS).open("xb") as events,
        (folder / _SAID).open("xb") as said,
    ):
        sync_folder(folder)
        locks = [spool_lock, *([] if measuring_lock is None else [measuring_lock])]
        child = subprocess.Popen(
            [sys.executable, "-m", "nearmetal", "block"],
            stdin=subprocess.PIPE,
            stdout=events,
            stderr=said,
            pass_fds=locks,
            env={name: one for name, one in held_secrets.pass_secrets().items() if not name.startswith("DASK_")},
            start_new_session=True,
        )
        assert child.stdin is not None
        with child.stdin as tasks:
            with contextlib.suppress(BrokenPipeError):
                tasks.write(task.model_dump_json().encode() + b"\n")
                tasks.flush()
            _wait(child, events, stands)
        if child.returncode < 0:
            # What it had made, and not removed.
            command = [sys.executable, "-m", "nearmetal", "clean"]
            with contextlib.suppress(subprocess.TimeoutExpired):  # whoever stands here next cleans as well
                subprocess.run(command, check=False, capture_output=True, timeout=2 * LIMITS.boot)


def _wait(child: "subprocess.Popen[bytes]", events: IO[bytes], stands: Callable[[], bool]) -> None:
    """Until it ends. Told to end it has time to put right what it made; one that gives no sign of life has none."""
    descriptor = os.pidfd_open(child.pid)
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        size, grew = 0, time.monotonic()
        told: float | None = None
        while not ended.poll(LOOK * 1000):
            now = time.monotonic()
            if (written := os.fstat(events.fileno()).st_size) != size:
                size, grew = written, now
            if told is None and not stands():
                told = now
                child.send_signal(signal.SIGTERM)
            if now > grew + SILENT or (told is not None and now > told + LIMITS.boot):
                child.kill()
    finally:
        os.close(descriptor)
        child.wait()


async def close_dispatch(run: str, dispatch: int) -> str:
    """What there is of a dispatch, a `Spool` as JSON. One that did not begin yet never will."""
    folder = _spool_of(run, dispatch)
    return (await asyncio.to_thread(_list_spool, folder)).model_dump_json()


def _list_spool(folder: Path) -> Spool:
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    if not _close(folder):
        return Spool(is_running=True)
    return Spool(is_running=False, files=tuple(_list_files(folder)))


def _list_files(folder: Path) -> Iterator[SpooledFile]:
    artifacts = sorted((folder / ARTIFACTS).glob("*/*"))
    for file in (folder / EVENTS, *artifacts):
        if file.is_file() and not file.name.startswith("."):  # that was not finished
            with file.open("rb") as content:
                sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            yield SpooledFile(path=str(file.relative_to(folder)), size=file.stat().st_size, sha256=sha256)


def read_parts(run: str, dispatch: int, parts: Iterable[Part]) -> list[bytes]:
    """What these parts of spooled files have. OSError."""
    folder = _spool_of(run, dispatch)
    return [_read_part(folder / part.path, part) for part in parts]


def _read_part(path: Path, part: Part) -> bytes:
    with path.open("rb") as file:
        file.seek(part.offset)
        return file.read(part.size)


def keep_file(run: str, name: str, content: bytes) -> None:
    """A file that the study carries into machines."""
    write_whole(_folder_of(run) / "files" / name, content)


def forget_dispatch(run: str, dispatch: int) -> None:
    """The controller has all of it. The folder's name stays: it must not run again."""
    folder = _spool_of(run, dispatch)
    if folder.is_dir() and _close(folder):
        shutil.rmtree(folder / ARTIFACTS, ignore_errors=True)
        for name in (EVENTS, _SAID):
            (folder / name).unlink(missing_ok=True)


def forget_run(run: str) -> None:
    """It has come to its end."""
    shutil.rmtree(_folder_of(run), ignore_errors=True)
    with contextlib.suppress(OSError):
        _folder_of(run).parent.rmdir()


@contextlib.contextmanager
def _hold_dispatch(folder: Path) -> Iterator[int]:
    """HostCannot if the dispatch was closed before it began."""
    with closing_descriptor(_open_lock(folder)) as descriptor:
        if not try_lock(descriptor) or (folder / _CLOSED).exists():
            raise HostCannot("this dispatch was closed before it began", str(folder), "nearmetal resume RUN")
        yield descriptor


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _close(folder: Path) -> bool:
    """Have nobody write to it any more. False while a worker or a block's process is at work on it."""
    with closing_descriptor(_open_lock(folder)) as descriptor:
        if not try_lock(descriptor):
            return False
        (folder / _CLOSED).touch()
        return True


def _folder_of(run: str) -> Path:
    return Paths.default().state / "fleet" / run


def _spool_of(run: str, dispatch: int) -> Path:
    return _folder_of(run) / str(int(dispatch))
