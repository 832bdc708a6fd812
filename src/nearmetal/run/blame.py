"""Whose fault it is that something failed: what an error means by the table of causes, and which plugin broke. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nearmetal.errors import HostCannot, MachineLost, NearmetalError, NotProvisioned, TimedOut, Unreachable
from nearmetal.model import Blame, Cause, find_blame
from nearmetal.system import system_errors


@dataclass(frozen=True)
class Fault:
    """Why a trial is not ok."""

    cause: Cause
    reason: str
    """For people: what happened to what, with its last words."""
    machine: str = ""
    """The name of the machine that it befell, if the kernel can say more of it."""
    group: str = ""
    """That machine's control group, as its host's kernel calls it; empty if it has a kernel of its own."""

    @property
    def blame(self) -> Blame:
        return find_blame(self.cause)


_RANK: Sequence[Cause] = (
    Cause.CLIENT_LOST,
    Cause.MACHINE_RESTARTED,
    Cause.LINK_BROKEN,
    Cause.OUT_OF_MEMORY,
    Cause.CLIENT_OUT_OF_MEMORY,
    Cause.GENERATOR_DIED,
    Cause.SERVICE_DIED,
)
"""What explains the others comes first; then the others as they were found."""


def combine_faults(faults: Sequence[Fault]) -> Fault | None:
    """What explains the others, with the words of all of that cause and of what it killed. None of none."""
    if not faults:
        return None
    ranked = sorted(faults, key=lambda fault: _RANK.index(fault.cause) if fault.cause in _RANK else len(_RANK))
    return Fault(ranked[0].cause, "; ".join(dict.fromkeys(fault.reason for fault in ranked)))


def describe_fault(fault: Fault | None) -> Mapping[str, Any]:
    """As a record has it."""
    if fault is None:
        return {"reason": None, "blame": None, "cause": None}
    return {"reason": fault.reason, "blame": fault.blame, "cause": fault.cause.value}


class Invalid(NearmetalError):
    """The set-up is not as declared; the boot's trials are kept as invalid."""


class TrialFailed(NearmetalError):
    """A check has found out why a trial fails, whatever its tools said."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason, cause=fault.cause)


class PluginBroke(Exception):
    def __init__(self, who: str, what: Exception) -> None:
        super().__init__(who, what)
        self.who = who
        self.what = what


@contextmanager
def blame_plugin(who: str) -> Iterator[None]:
    """Whatever is raised in here, beside what nearmetal's own errors say, is that plugin's."""
    try:
        yield
    except NearmetalError:
        raise
    except Exception as error:
        raise PluginBroke(who, error) from error


def find_blamed(error: Exception, otherwise: str) -> tuple[str, Exception]:
    """Who broke, and by which error. `otherwise`: whose it is where no plugin's."""
    return (error.who, error.what) if isinstance(error, PluginBroke) else (otherwise, error)


def find_fault(error: Exception, otherwise: str, clients: Collection[str] = (), hosts: Collection[str] = ()) -> Fault:
    """What an error that ends a trial means. `otherwise`: whose it is if no plugin's.

    `clients` and `hosts` are the names of these, by which errors tell where they happened.
    """
    who, what = find_blamed(error, otherwise)
    if isinstance(what, NearmetalError):
        return Fault(find_cause(what, clients, hosts), str(what))
    return Fault(find_cause(what), f"{who} broke: {type(what).__name__}: {what}")


def find_cause(error: Exception, clients: Collection[str] = (), hosts: Collection[str] = ()) -> Cause:
    """By what the error says of itself, else by its class and by where it happened."""
    if not isinstance(error, NearmetalError):
        is_full = isinstance(error, OSError) and error.errno in system_errors.FULL
        return Cause.DISK_FULL if is_full else Cause.BROKE
    if error.cause:
        return Cause(error.cause)
    is_client = error.where in clients
    match error:
        case Invalid():
            return Cause.NOT_AS_DECLARED
        case Unreachable():
            return Cause.SITE_LOST
        case MachineLost() if any(error.where.startswith(f"the host {host} ") for host in hosts):
            return Cause.SITE_LOST
        case NotProvisioned():
            return Cause.CLIENT_NOT_PROVISIONED if is_client else Cause.NOT_PROVISIONED
        case MachineLost():
            return Cause.CLIENT_LOST if is_client else Cause.MACHINE_LOST
        case TimedOut():
            return Cause.TIMED_OUT
        case HostCannot():
            return Cause.HOST_CANNOT
        case _:
            return Cause.WORKLOAD_FAILED
