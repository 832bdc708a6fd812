"""What is not the same between runs of a study: what each was to measure, software, host and machines. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from nearmetal.analysis.fairness import fairness_of
from nearmetal.analysis.responses import Arm, Arms, key_of, pairs_of
from nearmetal.analysis.results import FairnessRow
from nearmetal.model import Assignment, Frozen
from nearmetal.store.manifest import MachineFacts, Manifest

When = Literal["before", "after"]

BEFORE: When = "before"
AFTER: When = "after"

_OF_THE_DESIGN = ("seed", "blocks", "alpha", "margin", "detect", "precision", "power")
_NO_CAUSE = ("name", "question", *(f"design.{key}" for key in _OF_THE_DESIGN))
"""Of a study's keys: they tell what is concluded, and how surely, but nothing of what is measured. The seed tells in
which random order; that two runs have two of them is as it should be."""


def list_differences(before: Manifest, after: Manifest) -> Iterable[FairnessRow]:
    """What was not the same, beside the time."""
    yield from _rows("study", _measured(before), _measured(after))
    yield from _rows("software", before.versions, after.versions)
    yield from _rows("host", *({"without root": "; ".join(one.rootless) or "no"} for one in (before, after)))
    yield from _facts(before.host, after.host, "")
    known = {(key_of(facts.treatment), facts.role): facts for facts in before.fairness}
    seen: set[str] = set()
    for facts in after.fairness:
        was = known.get((key_of(facts.treatment), facts.role))
        if was is None:
            continue
        where = f"{facts.treatment.get('environment', '')} {facts.role}: "
        for row in _facts(was.facts, facts.facts, where):
            # Treatments of one environment have most of it in common.
            if (key := row.model_dump_json()) not in seen:
                seen.add(key)
                yield row


def _measured(manifest: Manifest) -> dict[str, str]:
    keys = _flat(manifest.study.model_dump(mode="json"))
    return {key: text for key, text in keys.items() if not key.startswith(_NO_CAUSE)}


def _facts(before: Mapping[str, Any], after: Mapping[str, Any], where: str) -> Iterator[FairnessRow]:
    machines = [
        MachineFacts(treatment={"environment": when}, role="server", facts=facts)
        for when, facts in ((BEFORE, before), (AFTER, after))
        if facts
    ]
    for row in fairness_of(machines, {"environment": BEFORE}):
        if not row.is_the_same:
            yield row.model_copy(update={"fact": where + row.fact})


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        items: Iterable[tuple[str, Any]] = value.items()
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        items = ((str(one.get("name", place)), one) for place, one in enumerate(value))
    else:
        return {path: "not set" if value is None else str(value)}
    return {name: text for key, one in items for name, text in _flat(one, f"{path}.{key}" if path else key).items()}


def _rows(group: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[FairnessRow]:
    for name in dict.fromkeys((*before, *after)):
        values = {when: run[name] for when, run in ((BEFORE, before), (AFTER, after)) if name in run}
        if len(set(values.values())) != 1 or len(values) != 2:
            yield FairnessRow(group=group, fact=name, values=values)


SubjectKind = Literal["treatment", "contrast"]


class UnsharedComparison(Frozen):
    """A treatment, or one against its reference, in a primary response, which not all of the runs were to measure."""

    of: SubjectKind
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


Planned = tuple[SubjectKind, str, str, str, str]
"""What it is of, workload, response, treatment and reference."""

_Run = tuple[Manifest, Arms]


def find_shared(manifests: Iterable[Manifest]) -> frozenset[Planned]:
    """What each of these runs was to measure."""
    return frozenset.intersection(*(frozenset(find_planned(one)) for one in manifests))


def find_unshared(before: Sequence[_Run], after: Sequence[_Run]) -> Iterator[UnsharedComparison]:
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
                yield UnsharedComparison(
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
    arms: Arms, of: SubjectKind, workload: str, response: str, treatment: Assignment, reference: Assignment
) -> bool:
    alike = [(one,) for one in arms.get((key_of(treatment), workload), Arm()).first]
    sides = alike if of == "treatment" else pairs_of(arms, treatment, reference, workload)
    return any(all(response in one.values for one in block) for block in sides)


def find_dropped(lone: Iterable[UnsharedComparison], of: SubjectKind) -> list[UnsharedComparison]:
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
