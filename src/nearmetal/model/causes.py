"""Why a trial is not ok, as a closed table of causes: each with the one who is to blame, and what it means. Pure.

The table decides before any analysis, and never by what was measured. What it does not know is the treatment's: else a
failure that nobody thought of would be measured again until it is gone.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

Blame = Literal["treatment", "instrument", "host", "controller"]
"""`treatment`: what is measured, with its machine and its engine; its failure is its outcome. The others' faults say
nothing of it, so that the block is repeated."""


class Cause(StrEnum):
    """A stable code."""

    # The treatment's
    SERVICE_DIED = "service-died"
    SERVICE_NOT_READY = "service-not-ready"
    SERVICE_SILENT = "service-silent"
    OUT_OF_MEMORY = "out-of-memory"
    OUT_OF_PROCESSES = "out-of-processes"
    MACHINE_LOST = "machine-lost"
    MACHINE_RESTARTED = "machine-restarted"
    NOT_PROVISIONED = "not-provisioned"
    TIMED_OUT = "timed-out"
    WORKLOAD_FAILED = "workload-failed"
    # The instrument's
    GENERATOR_DIED = "generator-died"
    CLIENT_LOST = "client-lost"
    CLIENT_OUT_OF_MEMORY = "client-out-of-memory"
    CLIENT_NOT_PROVISIONED = "client-not-provisioned"
    LINK_BROKEN = "link-broken"
    NEIGHBOURS_ENDED = "neighbours-ended"
    NOT_AS_DECLARED = "not-as-declared"
    NOT_PLACED = "not-placed"
    MEASUREMENT_INVALID = "measurement-invalid"
    CLOCKS_UNTRUSTED = "clocks-untrusted"
    DISK_FULL = "disk-full"
    BLOCK_DIED = "block-died"
    BROKE = "broke"
    # The host's
    SUSPENDED = "suspended"
    STOOD_STILL = "stood-still"
    ALLOTMENT_CHANGED = "allotment-changed"
    SITE_LOST = "site-lost"
    WORKER_LOST = "worker-lost"
    HOST_CANNOT = "host-cannot"
    # The controller's
    CONTROLLER_STOPPED = "controller-stopped"
    CANCELLED = "cancelled"


class Meaning(NamedTuple):
    blame: Blame
    words: str
    """For people: what happened, as "TRIALS in which …" goes on."""


_TREATMENT: Blame = "treatment"
_INSTRUMENT: Blame = "instrument"
_HOST: Blame = "host"
_CONTROLLER: Blame = "controller"

CAUSES: Mapping[Cause, Meaning] = {
    Cause.SERVICE_DIED: Meaning(_TREATMENT, "what serves ended"),
    Cause.SERVICE_NOT_READY: Meaning(_TREATMENT, "what serves never got ready"),
    Cause.SERVICE_SILENT: Meaning(_TREATMENT, "what serves fell silent"),
    Cause.OUT_OF_MEMORY: Meaning(_TREATMENT, "the kernel killed a process of the server for its memory"),
    Cause.OUT_OF_PROCESSES: Meaning(_TREATMENT, "the server reached its limit of processes"),
    Cause.MACHINE_LOST: Meaning(_TREATMENT, "the machine under test was lost"),
    Cause.MACHINE_RESTARTED: Meaning(_TREATMENT, "the machine under test booted anew"),
    Cause.NOT_PROVISIONED: Meaning(_TREATMENT, "the machine under test never came up"),
    Cause.TIMED_OUT: Meaning(_TREATMENT, "the workload did not end in time"),
    Cause.WORKLOAD_FAILED: Meaning(_TREATMENT, "the workload failed"),
    Cause.GENERATOR_DIED: Meaning(_INSTRUMENT, "the load generator was killed"),
    Cause.CLIENT_LOST: Meaning(_INSTRUMENT, "a client was lost"),
    Cause.CLIENT_OUT_OF_MEMORY: Meaning(_INSTRUMENT, "the kernel killed a process of a client for its memory"),
    Cause.CLIENT_NOT_PROVISIONED: Meaning(_INSTRUMENT, "a client never came up"),
    Cause.LINK_BROKEN: Meaning(_INSTRUMENT, "the link was cut or changed"),
    Cause.NEIGHBOURS_ENDED: Meaning(_INSTRUMENT, "a neighbour ended"),
    Cause.NOT_AS_DECLARED: Meaning(_INSTRUMENT, "the set-up was not as declared"),
    Cause.NOT_PLACED: Meaning(_INSTRUMENT, "what is measured was not on its CPU"),
    Cause.MEASUREMENT_INVALID: Meaning(_INSTRUMENT, "the instrument could not be trusted"),
    Cause.CLOCKS_UNTRUSTED: Meaning(_INSTRUMENT, "the clocks of both ends were too far apart"),
    Cause.DISK_FULL: Meaning(_INSTRUMENT, "the controller's disk was full"),
    Cause.BLOCK_DIED: Meaning(_INSTRUMENT, "the process that ran the block died"),
    Cause.BROKE: Meaning(_INSTRUMENT, "nearmetal or a plugin broke"),
    Cause.SUSPENDED: Meaning(_HOST, "the host was suspended"),
    Cause.STOOD_STILL: Meaning(_HOST, "a machine stood still"),
    Cause.ALLOTMENT_CHANGED: Meaning(_HOST, "a machine did not keep what it was given"),
    Cause.SITE_LOST: Meaning(_HOST, "the host of a machine was lost"),
    Cause.WORKER_LOST: Meaning(_HOST, "the site that ran the block was lost"),
    Cause.HOST_CANNOT: Meaning(_HOST, "the host refused what was asked for"),
    Cause.CONTROLLER_STOPPED: Meaning(_CONTROLLER, "the controller was stopped"),
    Cause.CANCELLED: Meaning(_CONTROLLER, "the run was cancelled"),
}


def find_blame(cause: str) -> Blame:
    """Who is to blame for a cause, also one that another version knows."""
    return CAUSES[Cause(cause)].blame if cause in CAUSES else _TREATMENT


def describe_cause(cause: str) -> str:
    """What it means, in words; the code itself of one that is not known."""
    return CAUSES[Cause(cause)].words if cause in CAUSES else cause
