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
from nearmetal.model import Assignment, BlockPlan, BootPlan, ContrastPlan, Level, Plan, Study, TrialPlan
from nearmetal.study import digest, primaries, treatments_of


def make(study: Study, left_out: Sequence[Assignment] = ()) -> Plan:
    """The plan of a study. BadInput when a contrast's reference cannot be told."""
    treatments = [treatment for treatment in treatments_of(study) if treatment not in left_out]
    contrasts = list(contrasts_of(study, treatments))
    name = digest(study)
    return Plan(
        study=name,
        seed=study.design.seed,
        treatments=tuple(treatments),
        contrasts=tuple(contrasts),
        primaries=primaries(study),
        level=study.design.alpha / max(1, len(contrasts)),
        blocks=tuple(block(study, treatments, name, index) for index in range(study.design.fixed_blocks)),
    )


def block(study: Study, treatments: Iterable[Assignment], name: str, index: int, attempt: int = 0) -> BlockPlan:
    """Every treatment x workload once, in the random order of this attempt."""
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
    reference = study.reference or {name: factor.levels[0] for name, factor in study.factors.items()}
    for name, level in reference.items():
        for treatment in treatments:
            if name not in treatment or words.same(treatment[name], level):
                continue
            other = _counterpart(study, treatment, name, reference)
            if other in treatments:
                for workload in study.workloads:
                    yield ContrastPlan(workload=workload.name, treatment=treatment, reference=other)


def _counterpart(study: Study, treatment: Assignment, name: str, reference: Assignment) -> dict[str, Level]:
    """The same combination with one factor at its reference level.

    Factors that no longer apply are dropped. Those that newly apply are taken from the reference, which must name
    them: any other choice would be ours, not the study's.
    """
    wanted = {**treatment, name: reference[name]}
    counterpart = words.completed(study.factors, wanted)
    for new in counterpart.keys() - wanted.keys():
        if new not in reference:
            raise BadInput(
                f"compared with {name} = {words.show(reference[name])}, the factor `{new}` comes in, and the reference "
                "does not say at which level",
                study.name,
                f"name it: reference = {{ …, {new} = … }}",
            )
        counterpart[new] = reference[new]
    return counterpart


def enough_blocks(contrasts: int, alpha: float) -> int:
    """The fewest blocks with which any of m contrasts can be decided: n >= 1 + log2(m / alpha)."""
    return math.ceil(1 + math.log2(max(1, contrasts) / alpha))
