"""What can go wrong, as one tree. Every error says what, where and the remedy; the exit code goes with the class.

NearmetalError
├── BadInput        2  the study, an argument or a run's folder is wrong
├── HostCannot      3  this host or site lacks something (doctor says why)
│   └── Unreachable    it does not answer, which may pass
├── Interrupted     4  stopped in the middle; resumable
├── MachineError       something happened to one machine; ends a trial, never a run
│   ├── MachineLost    it is gone, or no longer answers
│   │   └── MachineGone it has been removed
│   ├── TimedOut       it answered, but the command did not end in time
│   └── NotProvisioned it never came up
└── ToolFailed         a tool we drive ended badly or printed what cannot be read
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

MALFORMED: Final = (ValueError, KeyError, TypeError)
"""What looking into a JSON document raises that is none, or is not made as it should be."""


class ExitCode(IntEnum):
    """Exit codes of `nearmetal`; fixed, because scripts rely on them."""

    DONE = 0
    SOME_TRIALS_BAD = 1
    NOT_ALL_OF_IT = 1
    """For commands without trials: done in part, and what is missing was told."""
    BAD_INPUT = 2
    HOST_CANNOT = 3
    INTERRUPTED = 4
    GATE_NOT_MET = 5
    OWN_FAILURE = 125


class NearmetalError(Exception):
    """The root of the tree. `str(error)` is the one message a person reads."""

    exit_code = ExitCode.OWN_FAILURE

    def __init__(self, what: str, where: str = "", remedy: str = "", cause: str = "") -> None:
        """`cause` is a code of `model/causes.py`, if whoever raises this knows better than its class says."""
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.cause = cause

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\n  remedy: {self.remedy}" if self.remedy else ""
        return f"{place}{self.what}{remedy}"


def message_of(error: BaseException) -> str:
    """For people: ours and the system's say what is wrong by themselves, of any other its name is part of that."""
    return str(error) if isinstance(error, NearmetalError | OSError) else f"{type(error).__name__}: {error}"


class BadInput(NearmetalError):
    exit_code = ExitCode.BAD_INPUT
    others: "tuple[BadInput, ...]" = ()
    """What else is wrong with the same file."""

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])


class HostCannot(NearmetalError):
    exit_code = ExitCode.HOST_CANNOT


class Unreachable(HostCannot):
    """A host does not answer, or not yet."""


class Interrupted(NearmetalError):
    exit_code = ExitCode.INTERRUPTED


class LeftAtOnce(KeyboardInterrupt):
    """Ctrl-C once more, while what was begun is being put right: nothing more is, and this process has to end here."""


class MachineError(NearmetalError):
    exit_code = ExitCode.SOME_TRIALS_BAD


class MachineLost(MachineError):
    """The machine no longer answers."""


class MachineGone(MachineLost):
    """The machine has been removed, and all that was changed in it went with it."""


class TimedOut(MachineError):
    """The machine answers, but a command did not end within its limit."""


class NotProvisioned(MachineError):
    """The machine never came up; `what` ends with the last lines of its console where there is one."""


class ToolFailed(NearmetalError):
    exit_code = ExitCode.SOME_TRIALS_BAD

    def __init__(
        self,
        what: str,
        where: str = "",
        remedy: str = "",
        said: Mapping[str, bytes] | None = None,
        cause: str = "",
    ) -> None:
        """`said` is what the tool printed, file name to content; it is kept with the trial that failed."""
        super().__init__(what, where, remedy, cause)
        self.said = dict(said or {})
