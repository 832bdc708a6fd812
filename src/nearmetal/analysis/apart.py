"""What else is not the same between two runs of a study: what was asked for, software, host and machines. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from nearmetal.analysis.fairness import fairness_of
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import FairnessRow
from nearmetal.store.manifest import MachineFacts, Manifest

When = Literal["before", "after"]

BEFORE: When = "before"
AFTER: When = "after"

_OF_THE_DESIGN = ("seed", "blocks", "alpha", "margin", "detect", "precision", "power")
_NO_CAUSE = ("name", "question", *(f"design.{key}" for key in _OF_THE_DESIGN))
"""Of a study's keys: they tell what is concluded, and how surely, but nothing of what is measured. The seed tells in
which random order; that two runs have two of them is as it should be."""


def apart(before: Manifest, after: Manifest) -> Iterable[FairnessRow]:
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
