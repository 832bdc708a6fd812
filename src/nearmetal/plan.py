"""Study and seed to plan: which boots and trials run, in which order, and what is compared. Pure.

The order within a block sorts boots by a hash of the seed, the block, the attempt and the boot: a random order that
any language can reproduce, and in which leaving one treatment out does not move the others.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence

from nearmetal import factors as words
from nearmetal.errors import BadInput
from nearmetal.model import (
    Assignment,
    BlockPlan,
    BootPlan,
    ContrastPlan,
    Look,
    Plan,
    SequentialBlocks,
    Study,
    TrialPlan,
)
from nearmetal.study import digest, primaries


def make(study: Study, left_out: Sequence[Assignment] = ()) -> Plan:
    """The plan of a study. BadInput when a contrast's reference cannot be told."""
    without = {words.identity(treatment) for treatment in left_out}
    treatments = [one for one in words.treatments_of(study) if words.identity(one) not in without]
    contrasts = list(contrasts_of(study, treatments))
    level = study.design.alpha / max(1, len(contrasts))
    name = digest(study)
    return Plan(
        study=name,
        seed=study.design.seed,
        treatments=tuple(treatments),
        contrasts=tuple(contrasts),
        primaries=primaries(study),
        level=level,
        looks=_looks(study.design.blocks, level),
        blocks=tuple(block(study, treatments, name, index) for index in range(study.design.most_blocks)),
    )


def _looks(blocks: int | SequentialBlocks, level: float) -> tuple[Look, ...]:
    if isinstance(blocks, int) or blocks.min == blocks.max:
        return ()
    from nearmetal.analysis import sequential  # loads numpy, which a study of fixed blocks need not wait for

    return sequential.looks(blocks.min, blocks.max, level)


def block(study: Study, treatments: Iterable[Assignment], name: str, index: int, attempt: int = 0) -> BlockPlan:
    """Every treatment x workload once, in the random order of this attempt; of a study without a seed, in any order."""
    seed = (study.design.seed, index, attempt)
    workloads = [workload.name for workload in study.workloads]
    if study.design.share_boot:
        units = [(treatment, sorted(workloads, key=lambda w: _hash(*seed, treatment, w))) for treatment in treatments]
    else:
        units = [(treatment, [workload]) for treatment in treatments for workload in workloads]
    units.sort(key=lambda unit: _hash(*seed, unit[0], unit[1]))
    boots: list[BootPlan] = []
    position = 0
    for treatment, names in units:
        trials: list[TrialPlan] = []
        for workload in names:
            for repeat in range(study.design.repeats):
                trials.append(
                    TrialPlan(
                        id=_hash(name, index, attempt, treatment, workload, repeat)[:16],
                        workload=workload,
                        repeat=repeat,
                        position=position,
                    )
                )
                position += 1
        boots.append(BootPlan(treatment=treatment, trials=tuple(trials)))
    return BlockPlan(index=index, attempt=attempt, boots=tuple(boots))


def _hash(*parts: object) -> str:
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


def contrasts_of(study: Study, treatments: Sequence[Assignment]) -> Iterable[ContrastPlan]:
    """Each treatment against its reference: for each factor that the reference names, all other factors alike."""
    planned = {words.identity(treatment) for treatment in treatments}
    for name, level in words.reference_of(study).items():
        for treatment in treatments:
            if name not in treatment or words.same(treatment[name], level):
                continue
            try:
                other = words.counterpart(study, treatment, name)
            except words.Unnamed as error:
                raise BadInput(str(error), study.name, error.remedy) from None
            if words.identity(other) in planned:
                for workload in study.workloads:
                    yield ContrastPlan(workload=workload.name, treatment=treatment, reference=other)


def enough_blocks(contrasts: int, alpha: float, sequential: bool = False) -> int:
    """The fewest blocks with which any of m contrasts can be decided: n >= 1 + log2(m / alpha)."""
    if sequential:
        from nearmetal.analysis.sequential import SPENT  # loads numpy

        alpha *= SPENT
    return math.ceil(1 + math.log2(max(1, contrasts) / alpha))
