"""What the system refuses, in words: what, where, and the remedy, as errors of ours have them."""

import errno
import os
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of what is said of a disk without room, or of a user who may have no more of it."""


def in_full(error: OSError, *, of_run: bool = False) -> str:
    """`of_run`: it came to a command that measures, which can be gone on with."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}\n  remedy: {find_remedy(error, of_run=of_run)}"


def find_remedy(
    error: OSError, *, of_run: bool = False, otherwise: str = "`nearmetal doctor` shows what this host lacks"
) -> str:
    """`otherwise`: what is said of an error that has no remedy of its own."""
    number = error.errno
    if number in FULL:
        if of_run:
            return "free some space; what the run has recorded is safe, and `nearmetal resume` goes on with it"
        return "free some space, then give the command again"
    if (missing := _find_missing_home(str(error.filename or ""))) is not None:
        return missing
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "move what lies there out of the way: a folder belongs there"
    if number == errno.EROFS or (number in (errno.EACCES, errno.EPERM) and os.geteuid() == 0):
        return "name a place that can be written to"
    if number == errno.EACCES and error.filename:
        return "give this user access to it, or run nearmetal as root"
    if number in (errno.EACCES, errno.EPERM):
        return "run nearmetal as root"
    return otherwise


def _find_missing_home(name: str) -> str | None:
    """What to do about a folder of the user's that is not there, if `name` lies below it."""
    for variable in ("NEARMETAL_HOME", "HOME"):
        home = os.environ.get(variable)
        if home and name.startswith(home) and not Path(home).is_dir():
            return f"{variable} is {home}, which is no folder, and none can be made there: set it to one of yours"
    return None
