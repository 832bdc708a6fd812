"""What `Commands` refuse or cannot do, in the same words whatever they run on."""

import shlex
from collections.abc import Mapping, Sequence

from nearmetal.errors import BadInput, HostCannot, ToolFailed


def refuse_zero_bytes(argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """BadInput for words that no program can be given."""
    if any("\0" in word for word in (*argv, *(env or {}), *(env or {}).values())):
        raise BadInput("a word of a command holds a zero byte, which no program can be given", repr(list(argv)))


def refuse_no_text(argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """BadInput for words that a program can be given, but that are not carried to a machine."""
    for word in (*argv, *(env or {}), *(env or {}).values()):
        try:
            word.encode()
        except UnicodeEncodeError:
            what = "a word of a command is no UTF-8, and a machine takes no other"
            raise BadInput(what, repr(list(argv))) from None


def cannot_write(path: str, said: str | None, where: str, remedy: str = "") -> HostCannot:
    return HostCannot(f"cannot write {shlex.quote(path)}: {said}", where, remedy)


def cannot_read(path: str, said: str | None, where: str, remedy: str = "") -> ToolFailed:
    return ToolFailed(f"cannot read {shlex.quote(path)}: {said}", where, remedy)
