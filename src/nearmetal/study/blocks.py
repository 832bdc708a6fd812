"""Which boots and trials a block has, and in which order: regenerated from the plan whenever it is needed. Pure.

docs/validity.md says how orders are balanced over the blocks. A block that is repeated draws an order of its own: it
sorts boots by a hash of the seed, the block, the attempt and the boot. So did each block of runs that were planned
before orders were balanced (`Plan.order`). No manifest holds blocks; it holds a checksum of all trial ids.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence

from nearmetal.model import Assignment, BlockPlan, BootPlan, Plan, TrialPlan


def plan_block(plan: Plan, index: int, attempt: int = 0, treatments: Sequence[Assignment] | None = None) -> BlockPlan:
    """Every treatment x workload once, in the order of this attempt; of a plan without a seed, in any order.

    `treatments` are those that take part: all of the plan's, unless given. The others' order is as it was with them.
    """
    begin = f"[{_to_canonical(plan.study)},{index},{attempt},"
    repeats = {name: [f",{_to_canonical(name)},{n}]" for n in range(plan.repeats)] for name in plan.workloads}
    units = (
        _order_boots(plan, index) if plan.order == "balanced" and attempt == 0 else _draw_boots(plan, index, attempt)
    )
    wanted = None if treatments is None else {plan.canonical_of(treatment) for treatment in treatments}
    boots: list[BootPlan] = []
    position = 0
    for treatment, text, workloads in units:
        if wanted is not None and text not in wanted:
            continue
        trials: list[TrialPlan] = []
        for name in workloads:
            for repeat, tail in enumerate(repeats[name]):
                identity = _hash(f"{begin}{text}{tail}")[:16]
                trials.append(TrialPlan.model_construct(id=identity, workload=name, repeat=repeat, position=position))
                position += 1
        boots.append(BootPlan.model_construct(treatment=treatment, trials=tuple(trials)))
    return BlockPlan.model_construct(index=index, attempt=attempt, boots=tuple(boots))


_Unit = tuple[Assignment, str, Sequence[str]]
"""A boot: its treatment, that as canonical text, and the workloads that run in it."""


def _draw_boots(plan: Plan, index: int, attempt: int) -> list[_Unit]:
    """Boots by a hash of the seed, the block, the attempt and the boot."""
    order = f"[{_to_canonical(plan.seed)},{index},{attempt},"
    # A million trials are planned so: what does not change from one to the next is written once.
    alone = [([name], f",{_to_canonical([name])}]") for name in plan.workloads]
    units: list[tuple[str, Assignment, str, list[str]]] = []
    for treatment in plan.treatments:
        text = plan.canonical_of(treatment)
        mine = alone
        if plan.share_boot:
            drawn = {name: _hash(f"{order}{text},{_to_canonical(name)}]") for name in plan.workloads}
            ordered = sorted(plan.workloads, key=drawn.__getitem__)
            mine = [(ordered, f",{_to_canonical(ordered)}]")]
        units += [(_hash(f"{order}{text}{tail}"), treatment, text, workloads) for workloads, tail in mine]
    units.sort(key=lambda unit: unit[0])
    return [unit[1:] for unit in units]


def _order_boots(plan: Plan, index: int) -> list[_Unit]:
    """Boots so that over the blocks each has every place and follows each other one as often as can be."""
    seed = f"[{_to_canonical(plan.seed)},"
    listed = [(treatment, plan.canonical_of(treatment)) for treatment in plan.treatments]
    names = [_to_canonical(name) for name in plan.workloads]
    if plan.share_boot:
        places = _balance_places([text for _, text in listed], index, seed)
        within = {place: _balance_places(names, index, f"{seed}{listed[place][1]},") for place in places}
        return [(*listed[place], [plan.workloads[number] for number in within[place]]) for place in places]
    units = [(*one, [name]) for one in listed for name in plan.workloads]
    return [
        units[place]
        for place in _balance_places([f"{text},{name}" for _, text in listed for name in names], index, seed)
    ]


def _balance_places(things: Sequence[str], index: int, seed: str) -> list[int]:
    """Things by their places, in the order of a block: a row of a Williams design, drawn by the seed.

    Of n things, n blocks from a multiple of n on have each thing once in each place. If n is even, each follows each
    other once; if n is odd, in 2 n blocks twice (E. J. Williams, "Experimental designs balanced for the estimation of
    residual effects of treatments", Australian Journal of Scientific Research A 2, 1949). Which thing is which in the
    design, the first row, and the steps to the next ones are drawn anew for each such number of blocks.
    """
    n = len(things)
    if n == 1:
        return [0]
    drawn = f"{seed}{index // (n if n % 2 == 0 else 2 * n)},"
    named = [place for _, place in sorted((_hash(f"{drawn}{thing}]"), place) for place, thing in enumerate(things))]
    start, step, is_turned = _draw_numbers(f"{drawn}rows]", n)
    row = (start + step * index) % n
    zigzag = [place // 2 if place % 2 == 0 else n - 1 - place // 2 for place in range(n)]
    if n % 2 and bool(index // n % 2) != is_turned:
        zigzag.reverse()
    return [named[(place + row) % n] for place in zigzag]


def _draw_numbers(text: str, n: int) -> tuple[int, int, bool]:
    """A number below n, one that has no divisor in common with n, and a bit: all drawn by the text."""
    drawn = int(_hash(text), 16)
    step = 1 + (drawn >> 64) % n
    while math.gcd(step, n) > 1:
        step += 1
    return drawn % n, step, bool(drawn >> 255)


def plan_blocks(plan: Plan) -> Iterator[BlockPlan]:
    """The first attempt of each planned block, in order."""
    return (plan_block(plan, index) for index in range(plan.blocks))


def checksum_trial_ids(plan: Plan) -> str:
    """sha256 of the ids of all trials of first attempts, in the order of the plan: blocks, treatments, workloads."""
    digest = hashlib.sha256()
    tails = [f",{_to_canonical(name)},{n}]" for name in plan.workloads for n in range(plan.repeats)]
    texts = [plan.canonical_of(treatment) for treatment in plan.treatments]
    for index in range(plan.blocks):
        begin = f"[{_to_canonical(plan.study)},{index},0,"
        for text in texts:
            for tail in tails:
                digest.update(_hash(f"{begin}{text}{tail}")[:16].encode())
    return digest.hexdigest()


def _to_canonical(part: object) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"), default=dict)


def _hash(canonical: str) -> str:
    return hashlib.sha256(canonical.encode()).hexdigest()
