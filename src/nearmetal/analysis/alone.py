"""What one of two runs was to measure and the other was not, so that nothing can be said of it. Pure."""

from collections.abc import Iterable, Iterator
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
    """Which was to measure it."""
    workload: str
    response: str
    treatment: Assignment
    reference: Assignment
    """Of a treatment, itself."""
    measured: bool
    """Whether a good trial of it is there, of a contrast one of each side in one block."""
    why: str | None
    """Where the other run left it out, what it lacked."""


def alone(before: tuple[Manifest, Arms], after: tuple[Manifest, Arms]) -> Iterator[Alone]:
    for when, (manifest, arms), (other, _) in ((BEFORE, before, after), (AFTER, after, before)):
        left_out = {key_of(one): why for one, why in zip(other.left_out, other.left_out_why, strict=True)}
        shared = _planned(other)
        for of, workload, treatment, reference in _each(manifest):
            response = manifest.plan.primaries[workload]
            if (of, workload, response, key_of(treatment), key_of(reference)) in shared:
                continue
            alike = [(one,) for one in arms.get((key_of(treatment), workload), Arm()).first]
            sides = alike if of == "treatment" else pairs_of(arms, treatment, reference, workload)
            yield Alone(
                of=of,
                run=when,
                workload=workload,
                response=response,
                treatment=treatment,
                reference=reference,
                measured=any(all(response in one.values for one in block) for block in sides),
                why=next((left_out[key] for key in map(key_of, (treatment, reference)) if key in left_out), None),
            )


def dropped(lone: Iterable[Alone], of: Of) -> int:
    """How many the run before had measured and the run after was not even to measure."""
    return sum(one.of == of and one.run == BEFORE and one.measured for one in lone)


def _planned(manifest: Manifest) -> set[tuple[object, ...]]:
    primaries = manifest.plan.primaries
    return {
        (of, workload, primaries[workload], key_of(treatment), key_of(reference))
        for of, workload, treatment, reference in _each(manifest)
    }


def _each(manifest: Manifest) -> Iterator[tuple[Of, str, Assignment, Assignment]]:
    for workload in manifest.plan.primaries:
        for treatment in manifest.plan.treatments:
            yield "treatment", workload, treatment, treatment
    for contrast in manifest.plan.contrasts:
        if contrast.workload in manifest.plan.primaries:
            yield "contrast", contrast.workload, contrast.treatment, contrast.reference
