"""Files of any machine, written and read by programs that it has."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Protocol

from nearmetal.errors import NotProvisioned
from nearmetal.lab.commands.command_errors import cannot_read, cannot_write
from nearmetal.model import Commands, Completed

# The mode is a new file's, as with open(2): what exists keeps its own. Writing in place also serves /proc and /sys.
_PUT = """
set -e
mkdir -p -- "$2"
[ -e "$1" ] || { : >"$1"; chmod -- "$3" "$1"; }
exec cat >"$1"
"""
_PART = """
[ -e "$1" ] || exit 0
exec dd if="$1" bs=64K iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none
"""

_NEEDED, _NEEDED_BY_SHELL = ("sh", "cat", "sha256sum"), ("mkdir", "chmod")
"""What is started by itself, and what a shell starts, which may have it built in."""
_NOT_STARTED = (126, 127)
_LACKING = 'for program; do command -v "$program" >/dev/null || echo "$program"; done'


class NamedCommands(Commands, Protocol):
    """Commands with a name for errors: a machine, or a site."""

    name: str


async def put_file(commands: NamedCommands, content: bytes, path: str, mode: int) -> None:
    """Write a whole file with permissions `mode`, by programs that every image has. Parents are made.

    HostCannot with what the machine said.
    """
    file = PurePosixPath(path)
    ended = await commands.exec(["sh", "-c", _PUT, "put", str(file), str(file.parent), f"{mode:o}"], stdin=content)
    if ended.status != 0:
        raise cannot_write(path, _said(ended), commands.name)


async def require_programs(commands: NamedCommands, image: str) -> None:
    """NotProvisioned where an image of the user's has not what the probe and files get in by."""
    tried = {program: await commands.exec([program, "/dev/null"]) for program in _NEEDED}
    lacking = [program for program, ended in tried.items() if ended.status in _NOT_STARTED]
    if "sh" not in lacking:
        lacking += (await commands.exec(["sh", "-c", _LACKING, "lacking", *_NEEDED_BY_SHELL])).text.split()
    if lacking:
        remedy = f"take one that has {', '.join((*_NEEDED, *_NEEDED_BY_SHELL))}: see docs/image.md"
        raise NotProvisioned(f"its image {image} has no {', '.join(lacking)}", commands.name, remedy)


async def read_file(commands: NamedCommands, path: str) -> bytes:
    """Read a whole file. ToolFailed with what the machine said."""
    return await _read(commands, path, ["cat", "--", path])


async def read_part(commands: NamedCommands, path: str, begin: int, most: int) -> bytes:
    """Read so much of a file from there on; nothing where there is none. ToolFailed with what the machine said."""
    return await _read(commands, path, ["sh", "-c", _PART, "part", path, str(begin), str(most)])


async def _read(commands: NamedCommands, path: str, argv: Sequence[str]) -> bytes:
    ended = await commands.exec(argv)
    if ended.status != 0:
        raise cannot_read(path, _said(ended), commands.name)
    return ended.stdout


def _said(ended: Completed) -> str:
    # An engine that cannot start a program says why where the program's own output would be.
    said = ended.complaint or ended.text.strip()
    return f"status {ended.status}, {said[-500:]}" if said else f"status {ended.status}"
