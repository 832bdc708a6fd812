"""What a login shell is given: SSH hands the far side one line for it, not an argument vector, and it may be any shell.

Each becomes /bin/sh first. Of the line, sh, bash, zsh, fish and tcsh understand every character alike. What such a
shell says by itself, on either stream, ends where the program begins: with a line that names its process.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from nearmetal.errors import ToolFailed
from nearmetal.lab.ssh_library import asyncssh

_BEGAN = "nearmetal-began"
_ANNOUNCE = f"echo {_BEGAN} $$; echo {_BEGAN} $$ >&2"
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_UNLIKE = re.compile(r"[\\'!\n\r\0]")
"""Shells disagree on these between single quotes."""
_LONGEST = 500
"""Bytes of a word: tcsh takes none that are much longer."""
_LETTERS = re.compile(rb"[A-Za-z0-9_./ -]")
_MOST = 64 << 10
"""Bytes that a login shell may say before it starts a command."""


def write_line(argv: Sequence[str], *, announced: bool = True) -> str:
    """The line that has any login shell become exactly `argv`. `announced`: on both streams, see `read_began`."""
    first = f"{_ANNOUNCE}; " if announced else ""
    if not any(_UNLIKE.search(word) or len(word) > _LONGEST for word in argv):
        return " ".join(["exec /bin/sh -c", _quote(f'{first}exec "$@"'), "sh", *map(_quote, argv)])
    script = f"{first}exec {shlex.join(argv)}".encode()
    return " ".join(["exec /bin/sh -c", _quote('eval "$(printf %b "$@")"'), "sh", *map(_quote, _encode(script))])


async def read_began(stream: "asyncssh.SSHReader[bytes]") -> int:
    """The process id that a stream announces; what the shell said before is passed over.

    ToolFailed with that if nothing is announced.
    """
    said = b""
    while len(said) < _MOST and (line := await stream.readline()):
        _, mark, number = line.rpartition(f"{_BEGAN} ".encode())
        if mark and number.strip().isdigit():
            return int(number)
        said += line
    words = said[-300:].decode("utf-8", "replace").strip() or "it says nothing"
    remedy = "have its startup files end quietly where no terminal is, or give the user another shell (chsh)"
    raise ToolFailed(f"its login shell does not start commands: {words}", remedy=remedy)


async def ask_shell(connection: "asyncssh.SSHClientConnection", script: str) -> tuple[str, str]:
    """What /bin/sh says to a script, on both streams. ToolFailed, and what asyncssh raises."""
    process = await connection.create_process(write_line(["sh", "-c", script]), stdin=asyncssh.DEVNULL, encoding=None)
    try:
        await read_began(process.stderr)
        await read_began(process.stdout)
        said = await process.stdout.read(), await process.stderr.read()
        await process.wait()
    finally:
        process.close()
    out, err = (one.decode("utf-8", "replace") for one in said)
    return out, err


def _quote(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else f"'{word}'"


def _encode(script: bytes) -> Iterator[str]:
    """Words of letters and octal numbers that printf's %b makes the script of, one behind the other."""
    word = ""
    for value in script:
        letter = bytes([value])
        word += letter.decode() if _LETTERS.fullmatch(letter) else f"\\0{value:03o}"
        if len(word) > _LONGEST - 8:
            yield word
            word = ""
    yield word
