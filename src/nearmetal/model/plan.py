"""What a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping

from nearmetal.model.words import Frozen, Level


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


class Look(Frozen):
    """When a sequential run looks at its primary contrasts, and at what it then calls them decided."""

    blocks: int
    """After so many planned blocks."""
    level: float
    """What they are tested at then, each by itself."""
    boundary: int | None
    """The same as a whole number: where ranks are not tied, |W+ - W-| has to reach it. None if it cannot."""


class Plan(Frozen):
    study: str
    """The study's digest."""
    seed: int | None
    """None where a run is to draw it: the order is one of those that it may get."""
    treatments: tuple[Mapping[str, Level], ...]
    contrasts: tuple[ContrastPlan, ...]
    primaries: Mapping[str, str]
    """Workload to the response that its contrasts are about."""
    level: float
    """What each primary contrast is tested at: alpha over the number of primary contrasts."""
    looks: tuple[Look, ...] = ()
    """Of a sequential design; none where the number of blocks is fixed."""
    blocks: tuple[BlockPlan, ...]

    @property
    def trials(self) -> int:
        """How many there are in all its blocks, when none is repeated."""
        return sum(len(block.trials) for block in self.blocks)
