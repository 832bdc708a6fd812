"""What `nearmetal up`, `nearmetal down` and `nearmetal ls` print with `--json`."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.model import Document, Frozen, MachineSpec
from nearmetal.store.runs import RunEntry, Unreadable

State = Literal["starting", "up", "unreachable", "lost"]


class MachineUp(Frozen):
    """A machine to work in."""

    name: str
    environment: str
    state: State
    """Unreachable: a container whose engine does not answer. Lost: it ended by itself, or its keeper died."""
    made: str
    """When, by ISO 8601."""
    address: str
    """On the switch, where there is one; "" for none."""
    switch: str | None
    """The network namespace of the switch that it hangs on; null for none."""
    ssh_port: int | None
    """Of 127.0.0.1, that leads to its SSH server."""
    cpus: str
    """The host's, in cpuset notation."""
    keeper: int
    """The number of the process that keeps it."""
    machine: MachineSpec


class Up(MachineUp, Document):
    """`up.v1`."""

    schema_: Annotated[Literal["up.v1"], Field(alias="schema")] = "up.v1"


class Down(Document):
    """`down.v1`."""

    schema_: Annotated[Literal["down.v1"], Field(alias="schema")] = "down.v1"
    name: str
    left: tuple[str, ...]
    """What could not be removed; `nearmetal clean` tries again."""


class Ls(Document):
    """`ls.v1`."""

    schema_: Annotated[Literal["ls.v1"], Field(alias="schema")] = "ls.v1"
    runs: tuple[RunEntry, ...]
    unreadable: tuple[Unreadable, ...]
    machines: tuple[MachineUp, ...]


def machine_up(kept: KeptMachine, state: State) -> MachineUp:
    return MachineUp(
        name=kept.name,
        environment=kept.environment,
        state=state,
        made=kept.made,
        address=kept.address,
        switch=kept.switch,
        ssh_port=kept.handle.login.ssh_port if kept.handle and kept.handle.login else None,
        cpus=kept.cpus,
        keeper=kept.keeper,
        machine=kept.spec.model_copy(update={"accel": kept.accel}) if kept.accel else kept.spec,
    )
