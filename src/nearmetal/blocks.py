"""Which boots and trials a block has, and in which order: regenerated from the plan whenever it is needed. Pure.

The order within a block sorts boots by a hash of the seed, the block, the attempt and the boot: a random order that
any language can reproduce, and in which leaving one treatment out does not move the others. So no manifest holds
blocks; it holds a checksum of all trial ids.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence

from nearmetal.model import Assignment, BlockPlan, BootPlan, Plan, TrialPlan


def plan_block(plan: Plan, index: int, attempt: int = 0, treatments: Sequence[Assignment] | None = None) -> BlockPlan:
    """Every treatment x workload once, in the random order of this attempt; of a plan without a seed, in any order.

    `treatments` are those that take part: all of the plan's, unless given.
    """
    listed = plan.treatments if treatments is None else treatments
    order = f"[{_canonical(plan.seed)},{index},{attempt},"
    names = f"[{_canonical(plan.study)},{index},{attempt},"
    # A million trials are planned so: what does not change from one to the next is written once.
    alone = [([name], f",{_canonical([name])}]") for name in plan.workloads]
    repeats = {name: [f",{_canonical(name)},{n}]" for n in range(plan.repeats)] for name in plan.workloads}
    units: list[tuple[str, Assignment, str, list[str]]] = []
    for treatment in listed:
        text = plan.canonical_of(treatment)
        mine = alone
        if plan.share_boot:
            drawn = {name: _hash(f"{order}{text},{_canonical(name)}]") for name in plan.workloads}
            ordered = sorted(plan.workloads, key=drawn.__getitem__)
            mine = [(ordered, f",{_canonical(ordered)}]")]
        units += [(_hash(f"{order}{text}{tail}"), treatment, text, workloads) for workloads, tail in mine]
    units.sort(key=lambda unit: unit[0])
    boots: list[BootPlan] = []
    position = 0
    for _, treatment, text, workloads in units:
        trials: list[TrialPlan] = []
        for name in workloads:
            for repeat, tail in enumerate(repeats[name]):
                identity = _hash(f"{names}{text}{tail}")[:16]
                trials.append(TrialPlan.model_construct(id=identity, workload=name, repeat=repeat, position=position))
                position += 1
        boots.append(BootPlan.model_construct(treatment=treatment, trials=tuple(trials)))
    return BlockPlan.model_construct(index=index, attempt=attempt, boots=tuple(boots))


def plan_blocks(plan: Plan) -> Iterator[BlockPlan]:
    """The first attempt of each planned block, in order."""
    return (plan_block(plan, index) for index in range(plan.blocks))


def checksum_trial_ids(plan: Plan) -> str:
    """sha256 of the ids of all trials of first attempts, in the order of the plan: blocks, treatments, workloads."""
    digest = hashlib.sha256()
    tails = [f",{_canonical(name)},{n}]" for name in plan.workloads for n in range(plan.repeats)]
    texts = [plan.canonical_of(treatment) for treatment in plan.treatments]
    for index in range(plan.blocks):
        begin = f"[{_canonical(plan.study)},{index},0,"
        for text in texts:
            for tail in tails:
                digest.update(_hash(f"{begin}{text}{tail}")[:16].encode())
    return digest.hexdigest()


def _canonical(part: object) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"), default=dict)


def _hash(canonical: str) -> str:
    return hashlib.sha256(canonical.encode()).hexdigest()
