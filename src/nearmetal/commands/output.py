"""What a command makes of a run goes into a file that its user names, or to standard output."""

import errno
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nearmetal.errors import BadInput
from nearmetal.system import pipes

if TYPE_CHECKING:
    from nearmetal.store.run_folder import RunFolder

_STDOUT = Path("-")
_NAME_A_FILE = "name a file by -o, or send it to one by >"


def check_output(output: Path | None, folder: "RunFolder") -> None:
    """BadInput where nothing shall or can be written: told before the seconds that it takes to make it."""
    if output is None or output == _STDOUT:
        return
    if folder.is_measurement(output):
        raise BadInput("this is what was measured, and would be lost", str(output), "name another file by -o")
    if output.is_dir() or not output.parent.is_dir():
        why = "this is a folder" if output.is_dir() else "its folder is not there"
        raise BadInput(f"nothing can be written there: {why}", str(output), "name another file by -o")


def write_output(content: str | bytes, output: Path | None, remedy: str = _NAME_A_FILE) -> None:
    """A file is as before or complete, also on a disk that is full. BadInput where there can be none; OSError.

    `remedy` says how bytes reach a file instead of a terminal.
    """
    data = content.encode() if isinstance(content, str) else content
    if output is not None and output != _STDOUT:
        _write_file(output, data)
    elif isinstance(content, bytes) and sys.stdout.isatty():
        raise BadInput("this is no text for a terminal", remedy=remedy)
    else:
        with suppress(BrokenPipeError):  # whoever reads it has had enough
            pipes.write_whole(sys.stdout.buffer, data)


def _write_file(output: Path, data: bytes) -> None:
    from nearmetal.system import files

    try:
        if output.exists() and not output.is_file():
            output.write_bytes(data)  # a device or a pipe
        else:
            files.replace_file(output.resolve(), data)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            what = f"nothing can be written there: {error.strerror}"
            raise BadInput(what, str(output), "name another file by -o") from None
        error.filename = str(output)
        raise
