"""What `nearmetal isolate plan`, `on`, `status` and `off` print with `--json`. CPUs are in cpuset notation."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nearmetal.isolate.active_isolation import State
from nearmetal.model import Document, Frozen


class Cpu(Frozen):
    """A CPU that is online."""

    cpu: int
    siblings: tuple[int, ...]
    """CPUs of the same core, itself included."""
    package: str
    governor: str | None
    """How its clock rate is chosen; null where the kernel does not choose it."""


class PlannedChange(Frozen):
    """A change that `isolate on` would make."""

    kind: str
    target: str
    words: str
    """For people."""


class MoveMethod(Frozen):
    """How programs are moved."""

    by: Literal["cpuset", "affinities"]
    words: str
    """For people."""


class Boot(Frozen):
    """What `isolate on --boot` tells the boot loader."""

    arguments: str
    """Of the kernel."""
    grub: bool
    """Whether there is one that can be told."""


class IsolatePlan(Document):
    """`isolate.plan.v1`."""

    schema_: Annotated[Literal["isolate.plan.v1"], Field(alias="schema")] = "isolate.plan.v1"
    cpus: str
    """Those that would be isolated."""
    stands: str
    """Those that are isolated already, "" for none: `on` would add nothing then."""
    topology: tuple[Cpu, ...]
    isolated: str
    """By the kernel since it booted."""
    nohz_full: str
    """Those without a tick, by the kernel since it booted."""
    changes: tuple[PlannedChange, ...]
    way: MoveMethod | None
    """Null where CPUs are isolated already."""
    boot: Boot
    movable: Mapping[str, str]
    """Who may run on the CPUs and would be moved: by key, the name."""
    fixed: Mapping[str, str]
    """Who may and cannot be moved."""
    notes: tuple[str, ...]


class IsolateOn(Document):
    """`isolate.on.v1`."""

    schema_: Annotated[Literal["isolate.on.v1"], Field(alias="schema")] = "isolate.on.v1"
    cpus: str
    way: MoveMethod
    warnings: tuple[str, ...]
    """What could not be changed or moved."""
    reboot: bool
    """Whether the kernel's part takes a boot of this host."""


class ByKernel(Frozen):
    """What the kernel keeps free since it booted."""

    isolated: str
    nohz_full: str


class Stands(Frozen):
    """A change that stands, and what has become of it."""

    kind: str
    target: str
    now: str
    """For people."""
    state: State


class IsolateStatus(Document):
    """`isolate.status.v1`."""

    schema_: Annotated[Literal["isolate.status.v1"], Field(alias="schema")] = "isolate.status.v1"
    on: bool
    cpus: str
    """"" for none."""
    holds: bool
    """Whether all is as it was set."""
    kernel: ByKernel
    changes: tuple[Stands, ...]


class IsolateOff(Document):
    """`isolate.off.v1`."""

    schema_: Annotated[Literal["isolate.off.v1"], Field(alias="schema")] = "isolate.off.v1"
    restored: tuple[str, ...]
    left: tuple[str, ...]
    """Changed by somebody else meanwhile."""
    failed: tuple[str, ...]
    """Could not be put back."""
    reboot: bool
    """Whether it takes a boot of this host to be rid of the kernel's part."""
