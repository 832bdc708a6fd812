"""What a plan is made of."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from nearmetal.model.base import Frozen, Identity, Level, identify_assignment
from nearmetal.model.kernel import KernelTable
from nearmetal.model.resolved_treatment import Resolved


class TrialPlan(Frozen):
    """One run of one workload in a boot. `position` counts trials within the block, from 0."""

    id: str
    workload: str
    repeat: int
    position: int


class BootPlan(Frozen):
    """One provision of one treatment in one block: the experimental unit."""

    treatment: Mapping[str, Level]
    trials: tuple[TrialPlan, ...]


class BlockPlan(Frozen):
    """Every treatment x workload once, in random order."""

    index: int
    attempt: int
    boots: tuple[BootPlan, ...]

    @property
    def trials(self) -> tuple[TrialPlan, ...]:
        """Of all its boots, in the order in which they run."""
        return tuple(trial for boot in self.boots for trial in boot.trials)


class ContrastPlan(Frozen):
    """A comparison fixed before anything ran: one treatment against its reference, for one workload."""

    workload: str
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]
    response: str | None = None
    """A headline of the workload; None for its primary response."""


class Look(Frozen):
    """When a sequential run looks at its primary contrasts, and at what it then calls them decided."""

    blocks: int
    """After so many planned blocks."""
    level: float
    """What they are tested at then, each by itself."""
    boundary: int | None
    """`level` as a whole number: where ranks are not tied, |W+ - W-| has to reach it. None if it cannot."""


class Plan(Frozen):
    study: str
    """The study's digest when it was planned. Trial ids and seeds come from it, and it is never computed again."""
    seed: int | None
    """None where a run is to draw it: the order is one of those that it may get."""
    resolved: tuple[Resolved, ...]
    """Each treatment with everything that it asks for."""
    contrasts: tuple[ContrastPlan, ...]
    primaries: Mapping[str, str]
    """Workload to its primary response, which its contrasts are about unless they name a headline."""
    level: float
    """What each primary contrast is tested at: alpha over the number of primary contrasts."""
    looks: tuple[Look, ...] = ()
    """Of a sequential design; none where the number of blocks is fixed."""
    blocks: int
    """How many are planned; of a sequential design, at the most."""
    workloads: tuple[str, ...]
    repeats: int = 1
    share_boot: bool = False
    order: Literal["drawn", "balanced"] = "drawn"
    """How blocks are ordered: each by itself at random, as runs were planned first, or balanced over all blocks."""
    kernel_table: KernelTable | None = None
    """What the kernels of servers and clients are aligned to; None for a study without alignment."""

    @cached_property
    def treatments(self) -> tuple[Mapping[str, Level], ...]:
        return tuple(one.assignment for one in self.resolved)

    @property
    def trials(self) -> int:
        """How many there are in all its blocks, when none is repeated."""
        return len(self.resolved) * len(self.workloads) * self.repeats * self.blocks

    def canonical_of(self, assignment: Mapping[str, Level]) -> str:
        """A treatment as the canonical JSON that trial ids and orders are made of."""
        known = self._canonical.get(id(assignment))
        return _write_canonically(assignment) if known is None else known

    @cached_property
    def _canonical(self) -> Mapping[int, str]:
        """By the identity of each of the plan's own mappings, which live as long as it does."""
        return {id(one): _write_canonically(one) for one in self.treatments}

    def response_of(self, contrast: ContrastPlan) -> str:
        """What a contrast of this plan is about."""
        return contrast.response or self.primaries[contrast.workload]

    @cached_property
    def judged(self) -> frozenset[tuple[str, str]]:
        """Workload and response of all primary contrasts; of workloads without any, the primary response."""
        return frozenset((*self.primaries.items(), *((one.workload, self.response_of(one)) for one in self.contrasts)))

    def resolved_of(self, assignment: Mapping[str, Level]) -> Resolved:
        """What a treatment of this plan asks for. KeyError if the plan has no such treatment."""
        return self.resolved[self.place_of(assignment)]

    def place_of(self, assignment: Mapping[str, Level]) -> int:
        """The place of a treatment among `resolved`. KeyError if the plan has no such treatment."""
        return self._places[identify_assignment(assignment)]

    @cached_property
    def _places(self) -> Mapping[Identity, int]:
        return {identify_assignment(one): place for place, one in enumerate(self.treatments)}


def _write_canonically(assignment: Mapping[str, Level]) -> str:
    return json.dumps(assignment, sort_keys=True, separators=(",", ":"), default=dict)
