"""Copying files and folders between this host and a machine that is up: as one tar stream, of any length.

On either side it is unpacked beside its destination and takes its name only when all of it is there, so that a copy
that is cut off in the middle leaves no half file under that name. Of what comes from a machine, nothing is written
outside of the folder it is unpacked in.
"""

import contextlib
import os
import posixpath
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import IO

from nearmetal.by_hand import program
from nearmetal.by_hand.entry_commands import build_command
from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, BadInput, HostCannot, ToolFailed
from nearmetal.lab.commands.background_commands import limit_output
from nearmetal.lab.machines import registry as written
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.model import Door, Machine
from nearmetal.system import system_errors
from nearmetal.system.interrupts import list_ending_signals, run_until_done

_PERMISSIONS = 0o777
"""Not set-user-ID, set-group-ID and the sticky bit."""
_BUFFER = 1 << 18
_BY_A_LINK = "a name in the archive leads by way of a link"


def unpack_archive(stream: IO[bytes], folder: Path) -> bool:
    """Read to its end; whether it was whole, as far as an archive tells. HostCannot for what is not let in; OSError."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
            # What each member is has been looked at here: Python 3.14 would refuse a link that leads elsewhere.
            archive.extraction_filter = lambda member, path: member
            archive.extractall(folder, _check_members(archive, folder))
        while stream.read(_BUFFER):
            pass  # what fills up the last record
    except tarfile.TarError:
        return False
    except (*MALFORMED, OverflowError, RecursionError) as error:
        # `tarfile` takes numbers, names and links for what they should be.
        raise HostCannot(f"the archive is not made as it should be: {str(error)[:200]}") from None
    return True


def _check_members(archive: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if member.isdev():
            raise HostCannot(f"device nodes, sockets and FIFOs are not copied: {member.name}")
        if _is_link(folder, member.name):
            raise HostCannot(f"{_BY_A_LINK}: {member.name}")
        if member.islnk() and _is_link(folder, member.linkname):
            # A second name of a link. Permissions that were set by it would be those of what it leads to.
            member.type, member.linkname = tarfile.SYMTYPE, str((folder / member.linkname).readlink())
        member.mode &= _PERMISSIONS
        member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
        yield member


def _is_link(folder: Path, name: str) -> bool:
    """Whether a name of the archive is that of a link. A link leads where it leads, but nothing is written, or linked
    to, by way of one: not even where it leads inside, for what it leads to by others cannot always be found out.

    HostCannot for a name that leads out, or by way of a link; OSError when that cannot be seen.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise HostCannot(f"a name in the archive leads out of it: {name}")
    place, is_link = folder, False
    for part in path.parts:
        if is_link:
            raise HostCannot(f"{_BY_A_LINK}: {name}")
        place /= part
        try:
            is_link = stat.S_ISLNK(place.lstat().st_mode)
        except FileNotFoundError:
            return False
    return is_link


_REMOTE = re.compile(r"([A-Za-z0-9._-]{1,64}):(.*)", re.DOTALL)
_HOME = "/root"
_IS_THERE = "remove it first, or copy to another name"
_CONTENT, _WHOLE = "content", "whole"
_NOT_THERE, _TAKEN = 64, 65
"""How the scripts below end where the place is a wrong one, and nothing went wrong; as tar and the shell never do."""
_READY = b"ready\n"
"""What is said there when nothing speaks against the place. Only then is anything sent: an engine's client may lose
what was said by a program that ended before it had read its input, as Podman's does."""
_MOST_BEFORE = 64 << 10
"""Bytes that may be said before that: a login shell may greet, as bash does by `~/.bashrc`."""

# $1 the destination, $2 the name that the copy has where that is a folder. `whole` comes last in the stream, and only
# when all else has been read: its end alone would not tell from that of a sender who died.
_RECEIVE = f"""
set -e
destination=$1
into=${{destination%/*}}
[ -d "$into/" ] || [ ! -e "$into" ] || {{ echo "$into is no folder" >&2; exit {_TAKEN}; }}
case $destination in */) [ -d "$destination" ] || {{ echo "there is no such folder" >&2; exit {_NOT_THERE}; }} ;; esac
[ ! -d "$destination" ] || destination=${{destination%/}}/$2
[ ! -d "$destination" ] || {{ echo "there is a folder of that name already" >&2; exit {_TAKEN}; }}
into=${{destination%/*}}/
[ -d "$into" ] || {{ echo "there is no folder $into" >&2; exit {_NOT_THERE}; }}
folder=$(mktemp -d -- "$into.nearmetal-XXXXXX")
trap 'rm -rf -- "$folder"' EXIT
trap 'exit 1' HUP INT TERM
printf '\n{_READY.decode().strip()}\n' # on a line of its own, whatever was said before
tar -x -p --no-same-owner -C "$folder" -f -
[ -e "$folder/{_WHOLE}" ] || {{ echo "the stream was cut off" >&2; exit 1; }}
if [ -e "$destination" ] && [ -d "$folder/{_CONTENT}" ] && [ ! -L "$folder/{_CONTENT}" ]; then
    echo "there is a file of that name already" >&2
    exit {_TAKEN}
fi
mv -fT -- "$folder/{_CONTENT}" "$destination"
"""
# A socket is what tar leaves out with a warning; all that is no file is named before anything is sent.
_SEND = f"""
[ -e "$1" ] || [ -L "$1" ] || {{ echo "there is no such file" >&2; exit {_NOT_THERE}; }}
odd=$(find "$1" ! -type f ! -type d ! -type l -print 2>/dev/null | head -n 3)
[ -z "$odd" ] || {{ echo "device nodes, sockets and FIFOs are not copied: $odd" >&2; exit 1; }}
exec tar -c -f - -C "${{1%/*}}/" "./${{1##*/}}"
"""


@dataclass(frozen=True)
class Remote:
    """A path in a machine; absolute."""

    name: str
    path: str


def parse_place(text: str) -> Remote | None:
    """`NAME:PATH`; None for a path of this host. What stands before a colon in "./a:b" is no name."""
    match = _REMOTE.fullmatch(text)
    return Remote(match[1], posixpath.join(_HOME, match[2])) if match else None


def copy_path(source: str, destination: str) -> None:
    """Between this host and a machine. BadInput, HostCannot, MachineLost; KeyboardInterrupt, told to end, when tidy."""
    for which, text in (("SOURCE", source), ("DESTINATION", destination)):
        if not text:  # as of a variable that is not set; a path would be the folder where one is
            raise BadInput(f"{which} is empty", "", "name a file or a folder; the folder where you are is `.`")
    from_there, to_there = parse_place(source), parse_place(destination)
    if from_there and to_there:
        raise BadInput(
            "both are in machines", f"{source} and {destination}", "copy to this host first, and from here on"
        )
    with _tidy_when_told_to_end():
        if to_there:
            _upload_path(Path(source), *_enter_machine(to_there), to_there.path)
        elif from_there:
            if destination.endswith("/"):
                _must_be_folder(Path(destination))
            _download_path(*_enter_machine(from_there), from_there.path, Path(destination))
        else:
            raise BadInput("neither is in a machine", f"{source} and {destination}", "write one of them as NAME:PATH")


@contextmanager
def _tidy_when_told_to_end() -> Iterator[None]:
    """What ends a program ends us as Ctrl-C does: what was begun is removed. Once only, or that would be cut off."""
    numbers = list_ending_signals()

    def raise_interrupt(number: int, frame: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    with program.handle_signals(dict.fromkeys(numbers, raise_interrupt)):
        yield


def _enter_machine(remote: Remote) -> tuple[KeptMachine, Door | None]:
    kept = written.find(remote.name)
    return kept, run_until_done(program.require_door(kept))


def _upload_path(source: Path, kept: KeptMachine, door: Door | None, path: str) -> None:
    if not source.exists() and not source.is_symlink():
        raise BadInput("there is no such file", str(source), "a file or a folder of this host is copied to a machine")
    name = source.name or source.resolve().name
    if door is None:
        _copy_whole_file(kept, source, lambda machine: machine.put(source.read_bytes(), path))
        return
    with program.guard_if_needed(door) as marked, tempfile.TemporaryFile() as said:
        command = build_command(door, ["sh", "-c", _RECEIVE, "receive", path, name], mark=marked.mark)
        process = program.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        assert process.stdin is not None and process.stdout is not None
        with process.stdout:
            try:
                is_ready, before = _is_ready(process.stdout)
                if is_ready:
                    _send(source, process.stdin)
                    process.stdin.close()
                else:
                    process.stdout.close()  # what says ever more would wait for its reader
                    _end_unfinished(process)
            except BrokenPipeError:
                pass  # it ended first, and says why
            except BaseException:
                _end_unfinished(process)
                raise
            status = process.wait()
        if status != 0 or not is_ready:
            program.require_machine_after(status, kept, door)
            if status == _NOT_THERE:
                make = shlex.join(["nearmetal", "exec", kept.name, "--", "mkdir", "-p", posixpath.dirname(path)])
                raise _make_place_error(kept, path, _read_tail(said), f"make it: {make}")
            if status == _TAKEN:
                raise _make_place_error(kept, path, _read_tail(said), _IS_THERE)
            raise _make_copy_error(kept, path, _read_tail(said) if is_ready else _read_tail(said, before))


def _is_ready(stream: IO[bytes]) -> tuple[bool, bytes]:
    """Whether anything is to be sent, and what was said before that was known."""
    before = b""
    while len(before) < _MOST_BEFORE and (line := stream.readline(_MOST_BEFORE)):
        if line == _READY:
            return True, before
        before += line
    return False, before


def _end_unfinished(process: "subprocess.Popen[bytes]") -> None:
    """Without the last member nothing takes the name there, and what had come is removed."""
    with contextlib.suppress(BrokenPipeError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(LIMITS.stop)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _send(source: Path, stream: IO[bytes]) -> None:
    def as_roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    try:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, _CONTENT, filter=as_roots)
            archive.addfile(tarfile.TarInfo(_WHOLE), BytesIO())
    except tarfile.TarError as error:
        raise HostCannot(f"it cannot be read: {error}", str(source)) from None


def _download_path(kept: KeptMachine, door: Door | None, path: str, destination: Path) -> None:
    path = posixpath.normpath(path)
    name = posixpath.basename(path)
    if not name:
        raise BadInput("the root directory cannot be copied as a whole", kept.name, "name a folder in it")
    if destination.is_dir():
        destination = destination / name
    _must_be_folder(destination.parent)
    if destination.is_dir() and not destination.is_symlink():
        raise BadInput("there is a folder of that name already", str(destination), _IS_THERE)
    if door is None:

        async def fetch_file(machine: Machine) -> None:
            with limit_output(sys.maxsize):
                content = await machine.get(path)
            destination.write_bytes(content)

        _copy_whole_file(kept, None, fetch_file)
        return
    try:
        folder = Path(tempfile.mkdtemp(prefix=".nearmetal-", dir=destination.parent))
    except OSError as error:
        remedy = system_errors.find_remedy(error) if error.errno in system_errors.FULL else "copy to another folder"
        raise HostCannot(f"nothing can be written there: {error.strerror}", str(destination), remedy) from None
    try:
        with program.guard_if_needed(door) as marked:
            status, said = _receive_archive(
                build_command(door, ["sh", "-c", _SEND, "send", path], mark=marked.mark), folder
            )
        if status != 0:
            program.require_machine_after(status, kept, door)
            if status == _NOT_THERE:
                raise _make_place_error(kept, path, said, f"look for it: nearmetal ssh {kept.name}")
            raise _make_copy_error(kept, path, said)
        _take_name(folder / name, destination)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _must_be_folder(path: Path) -> None:
    if path.is_dir():
        return
    if path.exists():
        raise BadInput("this is a file, not a folder", str(path), "copy to another name")
    raise BadInput("there is no such folder", str(path), "make it, or copy to another")


def _receive_archive(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """How the sender ended, and what it said; 1 where what it sent was not whole."""
    with tempfile.TemporaryFile() as said:
        sender = program.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        assert sender.stdout is not None
        try:
            whole = unpack_archive(sender.stdout, folder)
            sender.stdout.close()
            status = sender.wait()
        except BaseException as error:
            sender.kill()
            sender.wait()
            if isinstance(error, OSError):
                raise HostCannot(f"it could not be written: {error.strerror}", str(folder.parent)) from None
            raise
        return status or (0 if whole else 1), _read_tail(said)


def _take_name(unpacked: Path, destination: Path) -> None:
    try:
        unpacked.replace(destination)
    except OSError as error:
        what = f"it is there already, and not replaced: {error.strerror}"
        raise HostCannot(what, str(destination), _IS_THERE) from None


def _make_place_error(kept: KeptMachine, path: str, why: str, remedy: str) -> BadInput:
    return BadInput(f"it could not be copied: {why}", f"{kept.name}:{path}", remedy)


def _make_copy_error(kept: KeptMachine, path: str, why: str) -> HostCannot:
    look = shlex.join(["nearmetal", "exec", kept.name, "--", "ls", "-la", posixpath.dirname(path)])
    return HostCannot(f"it could not be copied: {why}", f"{kept.name}:{path}", f"see what is there: {look}")


def _read_tail(said: IO[bytes], before: bytes = b"") -> str:
    said.seek(0)
    return (before + said.read()).decode("utf-8", "replace").strip()[-500:] or "it ended without a word"


def _copy_whole_file(kept: KeptMachine, source: Path | None, work: Callable[[Machine], Awaitable[None]]) -> None:
    """In a machine without a door, files are read and written whole."""
    if source is not None and not source.is_file():
        raise HostCannot(f"machines of kind {kept.environment!r} take single files only", str(source))

    async def work_there() -> None:
        async with program.attach_machine(kept) as machine:
            await work(machine)

    try:
        run_until_done(work_there())
    except ToolFailed as error:
        raise HostCannot(f"it could not be copied: {error}", kept.name) from None
