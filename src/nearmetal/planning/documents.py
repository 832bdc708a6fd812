"""What `nearmetal studies` and `nearmetal plan` print with `--json`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Assignment, BlockPlan, ContrastPlan, Document, Frozen, Look, Plan, Warned
from nearmetal.planning.touched_files import TouchedFile
from nearmetal.store.calibration_document import Sensitivity, Sizing
from nearmetal.store.pilot import Pilot
from nearmetal.study.blocks import plan_blocks


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


class UnusedFactor(Frozen):
    """A workload that is measured at each level of a factor that it does not use."""

    workload: str
    factor: str
    levels: int


class PlannedOrder(Frozen):
    """A plan with the order in which its blocks run."""

    study: str
    """The study's digest."""
    seed: int | None
    """None where a run is to draw it: the order is one of those that it may get."""
    treatments: tuple[Assignment, ...]
    contrasts: tuple[ContrastPlan, ...]
    primaries: Mapping[str, str]
    """Workload to its primary response, which its contrasts are about unless they name a headline."""
    level: float
    """What each primary contrast is tested at: alpha over the number of primary contrasts."""
    looks: tuple[Look, ...]
    """Of a sequential design; none where the number of blocks is fixed."""
    blocks: tuple[BlockPlan, ...]


def show_order(plan: Plan) -> PlannedOrder:
    """A plan as it is printed."""
    return PlannedOrder(
        study=plan.study,
        seed=plan.seed,
        treatments=plan.treatments,
        contrasts=plan.contrasts,
        primaries=plan.primaries,
        level=plan.level,
        looks=plan.looks,
        blocks=tuple(plan_blocks(plan)),
    )


class PlanOutput(Document):
    """`plan.v1`."""

    schema_: Annotated[Literal["plan.v1"], Field(alias="schema")] = "plan.v1"
    plan: PlannedOrder
    seconds: int
    """About how long the whole takes; of a sequential study at most."""
    blocks_needed: int
    """The fewest with which a primary contrast can be decided."""
    k: int | None
    """How many blocks may disagree, should their differences be the smallest, and `different` can still come. None if
    it cannot come at all."""
    sizing: Sizing | None
    """How the number of blocks was fixed, of a study that says `blocks = "auto"`."""
    warnings: tuple[Warned, ...]
    one_machine: tuple[tuple[str, str], ...]
    """Pairs of environments that are one machine of the user's."""
    unused: tuple[UnusedFactor, ...]
    """Factors that fill placeholders of other workloads."""
    fixed_urls: tuple[str, ...]
    """Workloads whose `url` leads to one place, though the study varies the environment."""
    idle_keys: tuple[str, ...]
    """Keys of [machine] that mean nothing to any machine of the study."""
    sees: tuple[Sensitivity, ...]
    """How small a difference is found, by noise that was measured on this host."""
    unknown: int
    """Comparisons of whose noise nothing is known here."""
    pilot: Pilot | None
    """The pilot of this study that is kept of this host."""
    touches: tuple[TouchedFile, ...]
    """What of the study's own a run would run and touch."""
    not_asked: tuple[str, ...]
    """Hosts, environments and images that were not asked whether it can run; empty with `--ask`."""
    missing: tuple[Lacking, ...]
