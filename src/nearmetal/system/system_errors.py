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
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "move what lies there out of the way: a folder belongs there"
    if number == errno.EROFS or (number in (errno.EACCES, errno.EPERM) and os.geteuid() == 0):
        return "name a place that can be written to"
    if number in (errno.EACCES, errno.EPERM):
        return "run nearmetal as root"
    home = os.environ.get("NEARMETAL_HOME")
    if home and str(error.filename or "").startswith(home) and not Path(home).is_dir():
        return "name another place by NEARMETAL_HOME: no folder can be made there"
    return otherwise
