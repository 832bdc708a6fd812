"""What `nearmetal studies` and `nearmetal plan` print with `--json`."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Assignment, Document, Frozen, Plan
from nearmetal.store.calibration import Sight


class BuiltIn(Frozen):
    """A study that comes with nearmetal."""

    name: str
    question: str


class Studies(Document):
    """`studies.v1`."""

    schema_: Annotated[Literal["studies.v1"], Field(alias="schema")] = "studies.v1"
    studies: tuple[BuiltIn, ...]


class Lacking(Frozen):
    """A treatment that cannot run on this host: what it lacks."""

    treatment: Assignment
    what: str
    detail: str
    remedy: str


class Unused(Frozen):
    """A workload that is measured at each level of a factor that it does not use."""

    workload: str
    factor: str
    levels: int


class Planned(Document):
    """`plan.v1`."""

    schema_: Annotated[Literal["plan.v1"], Field(alias="schema")] = "plan.v1"
    plan: Plan
    seconds: int
    """About how long the whole takes; of a sequential study at most."""
    blocks_needed: int
    """The fewest with which a primary contrast can be decided."""
    one_machine: tuple[tuple[str, str], ...]
    """Pairs of environments that are one machine of the user's."""
    unused: tuple[Unused, ...]
    """Factors that fill placeholders of other workloads."""
    sees: tuple[Sight, ...]
    """How small a difference is found, by calibrations that are kept of this host."""
    missing: tuple[Lacking, ...]
