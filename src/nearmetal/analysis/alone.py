"""What some of the runs that are compared were to measure and others were not: nothing can be said of it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from nearmetal.analysis.apart import AFTER, BEFORE, When
from nearmetal.analysis.responses import Arm, Arms, key_of, pairs_of
from nearmetal.model import Assignment, Frozen
from nearmetal.store.manifest import Manifest

Of = Literal["treatment", "contrast"]


class Alone(Frozen):
    """A treatment, or a treatment against its reference, in a workload's primary response."""

    of: Of
    run: When
    """Which side was to measure it."""
    workload: str
    response: str
    treatment: Assignment
    reference: Assignment
    """Of a treatment, itself."""
    measured: bool
    """Whether a good trial of it is there, of a contrast one of each side in one block."""
    why: str | None
    """Where a run left it out, what it lacked."""


Planned = tuple[Of, str, str, str, str]
"""What it is of, workload, response, treatment and reference."""

_Run = tuple[Manifest, Arms]


def find_shared(manifests: Iterable[Manifest]) -> frozenset[Planned]:
    """What each of these runs was to measure."""
    return frozenset.intersection(*(frozenset(find_planned(one)) for one in manifests))


def find_alone(before: Sequence[_Run], after: Sequence[_Run]) -> Iterator[Alone]:
    """What some runs were to measure and others were not, once for each side that has it."""
    shared = find_shared(manifest for manifest, _ in (*before, *after))
    left_out = {
        key_of(one): why
        for manifest, _ in (*before, *after)
        for one, why in zip(manifest.left_out, manifest.left_out_why, strict=True)
    }
    for when, runs in ((BEFORE, before), (AFTER, after)):
        planned = {key: one for manifest, _ in runs for key, one in find_planned(manifest).items()}
        for (of, workload, response, *sides), (treatment, reference) in planned.items():
            if (of, workload, response, *sides) not in shared:
                yield Alone(
                    of=of,
                    run=when,
                    workload=workload,
                    response=response,
                    treatment=treatment,
                    reference=reference,
                    measured=any(_is_measured(arms, of, workload, response, treatment, reference) for _, arms in runs),
                    why=next((left_out[side] for side in sides if side in left_out), None),
                )


def _is_measured(
    arms: Arms, of: Of, workload: str, response: str, treatment: Assignment, reference: Assignment
) -> bool:
    alike = [(one,) for one in arms.get((key_of(treatment), workload), Arm()).first]
    sides = alike if of == "treatment" else pairs_of(arms, treatment, reference, workload)
    return any(all(response in one.values for one in block) for block in sides)


def find_dropped(lone: Iterable[Alone], of: Of) -> list[Alone]:
    """Those that runs before had measured and runs after were not even to measure."""
    return [one for one in lone if one.of == of and one.run == BEFORE and one.measured]


def find_planned(manifest: Manifest) -> Mapping[Planned, tuple[Assignment, Assignment]]:
    """What a run was to measure: treatments, then treatments against their references, in the order of its plan."""
    plan, found = manifest.plan, dict[Planned, tuple[Assignment, Assignment]]()
    for workload, primary in plan.primaries.items():
        for one in plan.treatments:
            found["treatment", workload, primary, key_of(one), key_of(one)] = one, one
    for contrast in plan.contrasts:
        if contrast.workload in plan.primaries:
            keys = key_of(contrast.treatment), key_of(contrast.reference)
            place: Planned = ("contrast", contrast.workload, plan.response_of(contrast), *keys)
            found[place] = contrast.treatment, contrast.reference
    return found
