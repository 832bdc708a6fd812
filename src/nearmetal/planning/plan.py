"""Study to plan: which treatments run, resolved, how many blocks of them, and what is compared. Pure.

`blocks.py` says which boots and trials each block has, and in which order.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from nearmetal.errors import BadInput
from nearmetal.model import Assignment, ContrastPlan, Look, Plan, Resolved, SequentialBlocks, Study, identify_assignment
from nearmetal.study import factors as words
from nearmetal.study.kernel_table import TABLE
from nearmetal.study.levels import is_same_level
from nearmetal.study.resolve import resolve_treatments

_SINCE_VERSION_1: Mapping[tuple[str, ...], Any] = {
    ("clients", "clocks"): 0.01,
    ("link", "each"): False,
    **{("clients", key): None for key in ("image", "vcpus", "memory", "accel", "nic")},
    **{("machine", key): None for key in ("kernel", "board", "vmm")},
    ("clients", "offload"): None,
    ("machine", "vmm_arguments"): [],
    ("machine", "network"): "lab",
    ("kernel",): {"align": "off", "sysctl": {}},
    ("services",): {},
    ("design", "detect"): None,
    ("design", "precision"): None,
    ("design", "power"): 0.8,
}
"""Keys that studies of manifest version 1 did not have, each with the value that means what version 1 did.

They are left out of the digest at that value, so that a study which says nothing new keeps its trial ids and seeds.
"""


def digest_study(study: Study) -> str:
    """sha256 of what the study asks for, whatever its file looks like: the same as version 1 gave the same study."""
    document = study.model_dump(mode="json")
    for path, before in _SINCE_VERSION_1.items():
        *tables, key = path
        table = document
        for name in tables:
            table = table[name]
        if table[key] == before:
            del table[key]
    _drop_later_keys(document)
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _drop_later_keys(document: Mapping[str, Any]) -> None:
    """Workloads of version 1 had no headlines, and none ran under another's load. Hosts had neither roles nor tags."""
    for workload in document["workloads"]:
        for key in ("headlines", "under"):
            if not workload[key]:
                del workload[key]
    for host in document["hosts"].values():
        for key in ("interface", "roles", "tags"):
            if not host[key]:
                del host[key]


def make_plan(study: Study, left_out: Sequence[Assignment] = (), resolved: Sequence[Resolved] | None = None) -> Plan:
    """The plan of a study. BadInput when a contrast's reference cannot be told.

    `resolved` are all its treatments, if they have been resolved already.
    """
    without = {identify_assignment(treatment) for treatment in left_out}
    every = resolve_treatments(study) if resolved is None else resolved
    kept = tuple(one for one in every if identify_assignment(one.assignment) not in without)
    contrasts = tuple(contrasts_of(study, [one.assignment for one in kept]))
    level = study.design.alpha / max(1, len(contrasts))
    return Plan(
        study=digest_study(study),
        seed=study.design.seed,
        resolved=kept,
        contrasts=contrasts,
        primaries={one.name: str(one.primary) for one in every[0].workloads},
        level=level,
        looks=_plan_looks(study.design.blocks, level),
        blocks=study.design.most_blocks,
        workloads=tuple(workload.name for workload in study.workloads),
        repeats=study.design.repeats,
        share_boot=study.design.share_boot,
        order="balanced",
        kernel_table=TABLE if study.kernel.align == "network" else None,
    )


def _plan_looks(blocks: int | SequentialBlocks | Literal["auto"], level: float) -> tuple[Look, ...]:
    if not isinstance(blocks, SequentialBlocks) or blocks.min == blocks.max:
        return ()
    from nearmetal.analysis import sequential  # loads numpy, which a study of fixed blocks need not wait for

    return sequential.looks(blocks.min, blocks.max, level)


def contrasts_of(study: Study, treatments: Sequence[Assignment]) -> Iterable[ContrastPlan]:
    """Each treatment against its reference: for each factor that the reference names, all other factors alike."""
    planned = {identify_assignment(treatment) for treatment in treatments}
    for name, level in words.reference_of(study).items():
        for treatment in treatments:
            if name not in treatment or is_same_level(treatment[name], level):
                continue
            try:
                other = words.find_counterpart(study, treatment, name)
            except words.UnnamedLevel as error:
                raise BadInput(str(error), study.name, error.remedy) from None
            if identify_assignment(other) in planned:
                for workload in study.workloads:
                    for response in (None, *workload.headlines):
                        yield ContrastPlan(
                            workload=workload.name, treatment=treatment, reference=other, response=response
                        )


def is_left_without_contrast(study: Study, plan: Plan, resolved: Sequence[Resolved]) -> bool:
    """Whether a study compares something, and a plan of it nothing because of what it leaves out of `resolved`."""
    return not plan.contrasts and any(True for _ in contrasts_of(study, [one.assignment for one in resolved]))


def enough_blocks(contrasts: int, alpha: float, sequential: bool = False) -> int:
    """The fewest blocks with which any of m contrasts can be decided: n >= 1 + log2(m / alpha)."""
    if sequential:
        from nearmetal.analysis.sequential import SPENT  # loads numpy

        alpha *= SPENT
    return math.ceil(1 + math.log2(max(1, contrasts) / alpha))
