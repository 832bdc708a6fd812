"""From a journal's records to one value per treatment, workload, response and block.

A block's boot of a treatment is the unit. An attempt has an outcome if all its repeats are `ok`, which are averaged on
the response's scale, or if those that are not `ok` are the treatment's own fault: then it has failed. If others are to
blame for one, the attempt has no outcome. Nor has it if a record that is not `ok` names nobody, as those of version 1
do: runs of that version count by their first good attempt.
"""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from nearmetal import model
from nearmetal.analysis.censoring import Bound, join_bounds

BOOT = ""
"""Stands for the workload where a response belongs to a boot that several workloads share. No study can name one so."""

Key = str
"""A treatment as text that tells true from 1 and from "true"."""

_encoded = json.JSONEncoder(sort_keys=True).encode  # one for all: json.dumps makes one each time

_known: dict[str, Key] = {}
_MOST_KNOWN = 10_000


def key_of(treatment: model.Assignment) -> Key:
    """A run asks for the same few keys a hundred thousand times; `repr` takes a sixth of what encoding takes."""
    text = repr(treatment)
    if (key := _known.get(text)) is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        key = _known[text] = _encoded(dict(treatment))
    return key


class Value(NamedTuple):
    """One response of one replicate. `problem` says why it has no place on its scale, or not just one."""

    value: float
    kind: model.ResponseKind
    problem: str | None = None
    """"censored", "not-finite" or "not-positive" (on a ratio scale)."""
    censored: Bound | None = None
    """What is known of it, where that is no more than a bound."""


@dataclass(frozen=True, slots=True)
class Replicate:
    """The outcome of one workload in one boot, in one attempt of one block: repeats that are all ok, or a failure."""

    block: int
    attempt: int
    position: float
    """The mean place of its trials within the block."""
    records: tuple[model.TrialRecord, ...]
    values: Mapping[str, Value]
    """Empty if it failed."""
    has_failed: bool = False


Pairs = tuple[tuple[Replicate, Replicate], ...]
"""Treatment and reference, one pair per block."""


class Arm:
    """All outcomes of one treatment and workload, by block and attempt."""

    def __init__(self, replicates: Iterable[Replicate] = ()) -> None:
        self._blocks: dict[int, dict[int, Replicate]] = {}
        for replicate in replicates:
            self._blocks.setdefault(replicate.block, {})[replicate.attempt] = replicate

    @property
    def outcomes(self) -> Iterable[Replicate]:
        """Of every block and attempt."""
        return (replicate for attempts in self._blocks.values() for replicate in attempts.values())

    @property
    def replicates(self) -> Iterable[Replicate]:
        """The outcomes of those boots that worked."""
        return (one for attempts in self._blocks.values() for one in attempts.values() if not one.has_failed)

    @cached_property
    def counted(self) -> tuple[Replicate, ...]:
        """One outcome per block, of the first attempt that has one; blocks in planned order."""
        return tuple(attempts[min(attempts)] for _, attempts in sorted(self._blocks.items()))

    @cached_property
    def first(self) -> tuple[Replicate, ...]:
        """Those of `counted` that worked."""
        return tuple(replicate for replicate in self.counted if not replicate.has_failed)

    @property
    def failed(self) -> int:
        """In how many blocks it failed."""
        return len(self.counted) - len(self.first)

    @cached_property
    def trials(self) -> list[model.TrialRecord]:
        """Of those replicates."""
        return [record for replicate in self.first for record in replicate.records]

    @cached_property
    def by_client(self) -> Set[str]:
        """Responses of which one of these trials has the value of each client."""
        return {name for record in self.trials for name, told in record.responses.items() if told.by_client}

    def paired(self, other: "Arm") -> list[tuple[Replicate, Replicate]]:
        """One pair per block, of the first attempt in which both arms have an outcome; blocks in planned order."""
        pairs = []
        for block in sorted(self._blocks.keys() & other._blocks.keys()):
            mine, others = self._blocks[block], other._blocks[block]
            both = mine.keys() & others.keys()
            if both:
                attempt = min(both)
                pairs.append((mine[attempt], others[attempt]))
        return pairs


def first_attempts(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of blocks and attempts each block's first one; blocks in planned order."""
    return sorted({block: (block, attempt) for block, attempt in sorted(found, reverse=True)}.values())


Arms = Mapping[tuple[Key, str], Arm]
"""By treatment and workload; only those with an outcome."""


def that_count(records: Iterable[model.TrialRecord], arms: Arms) -> list[model.TrialRecord]:
    """Those that tables of a single arm are of, in the order in which they are given: trials of the first attempt in
    which their arm has an outcome, if it worked then."""
    ids = {record.trial.id for arm in arms.values() for record in arm.trials}
    return [record for record in records if record.trial.id in ids]


def outcomes_of(
    arms: Arms, treatment: model.Assignment, reference: model.Assignment, workload: str
) -> list[tuple[Replicate, Replicate]]:
    """Outcomes of both sides of a comparison, as `Arm.paired` has them; none where a side has none."""
    mine, others = (arms.get((key_of(side), workload), Arm()) for side in (treatment, reference))
    return mine.paired(others)


def pairs_of(
    arms: Arms, treatment: model.Assignment, reference: model.Assignment, workload: str
) -> list[tuple[Replicate, Replicate]]:
    """The outcomes of those blocks in which both sides worked."""
    return [pair for pair in outcomes_of(arms, treatment, reference, workload) if not has_failed(pair)]


def has_failed(pair: tuple[Replicate, Replicate]) -> bool:
    """Whether a side failed, or both."""
    return pair[0].has_failed or pair[1].has_failed


def count(records: Iterable[model.TrialRecord]) -> model.TrialCounts:
    """Every trial of every attempt, by how it ended."""
    by_status = Counter(record.status.value for record in records)
    return model.TrialCounts(**by_status)


def arms_of(records: Sequence[model.TrialRecord], repeats: int) -> Arms:
    """Gather the outcomes of boots: `repeats` trials, all of them ok, or a failure that is the treatment's own."""
    trials: dict[tuple[Key, str, int, int], list[model.TrialRecord]] = defaultdict(list)
    for record in records:
        address = record.trial
        trials[key_of(address.treatment), address.workload, address.block, address.attempt].append(record)
    replicates: dict[tuple[Key, str], list[Replicate]] = defaultdict(list)
    for (treatment, workload, block, attempt), group in trials.items():
        bad = [record for record in group if record.status is not model.TrialStatus.OK]
        if any(record.blame != "treatment" for record in bad) or (not bad and len(group) != repeats):
            continue
        group.sort(key=lambda record: record.trial.repeat)
        position = sum(record.trial.position for record in group) / len(group)
        values = {} if bad else _values(group)
        replicates[treatment, workload].append(Replicate(block, attempt, position, tuple(group), values, bool(bad)))
    return {arm: Arm(found) for arm, found in replicates.items()}


def arms_of_study(records: Sequence[model.TrialRecord], design: model.DesignSpec) -> Arms:
    arms = arms_of(records, design.repeats)
    return with_boots_apart(arms) if design.share_boot else arms


def with_boots_apart(arms: Arms) -> Arms:
    """Where all workloads of a block share a boot: what is the boot's own as an arm of its own, of no workload.

    Else the same value would count once for each workload. A boot tells it by the first of its workloads that is ok;
    it has failed if none is.
    """
    workloads: dict[tuple[Key, str], Arm] = {}
    boots: dict[Key, dict[tuple[int, int], Replicate]] = defaultdict(dict)
    for (treatment, workload), arm in arms.items():
        workloads[treatment, workload] = Arm(
            _only(replicate, replicate.values.keys() - model.OF_THE_BOOT) for replicate in arm.outcomes
        )
        for replicate in arm.outcomes:
            known = boots[treatment].setdefault((replicate.block, replicate.attempt), replicate)
            if (replicate.has_failed, replicate.position) < (known.has_failed, known.position):
                boots[treatment][replicate.block, replicate.attempt] = replicate
    own = {
        (treatment, BOOT): Arm(
            _only(replicate, replicate.values.keys() & model.OF_THE_BOOT) for replicate in found.values()
        )
        for treatment, found in boots.items()
    }
    return workloads | own


def _only(replicate: Replicate, names: Set[str]) -> Replicate:
    return replace(replicate, values={name: value for name, value in replicate.values.items() if name in names})


def _values(records: Sequence[model.TrialRecord]) -> dict[str, Value]:
    """Each response that every repeat has, in the order of their names."""
    if len(records) == 1:
        return {name: _value(response) for name, response in sorted(records[0].responses.items())}
    shared = set(records[0].responses).intersection(*(record.responses for record in records[1:]))
    return {name: _average(name, records) for name in sorted(shared)}


def _average(name: str, records: Sequence[model.TrialRecord]) -> Value:
    """The mean of the repeats on the response's scale; the plain mean where that scale cannot hold them."""
    repeats = [_value(record.responses[name]) for record in records]
    values = [repeat.value for repeat in repeats]
    # Of several the graver one: "censored" is the least of them.
    problem = max((repeat.problem for repeat in repeats if repeat.problem), default=None)
    is_geometric = repeats[0].kind.scale == "ratio" and all(0 <= value < math.inf for value in values)
    average = _geometric_mean(values) if is_geometric else mean(values)
    bound = join_bounds(repeat.censored for repeat in repeats)
    return Value(average, repeats[0].kind, problem or (None if math.isfinite(average) else "not-finite"), bound)


def _geometric_mean(values: Sequence[float]) -> float:
    """Of finite values that are not negative."""
    return statistics.geometric_mean(values) if min(values) > 0 else 0.0


def mean(values: Sequence[float]) -> float:
    """Of values that may be anything; not a number where no float can hold it."""
    try:
        return statistics.fmean(values)
    except (OverflowError, ValueError):  # beyond the largest; the infinite of both signs
        return math.nan


def find_deviation(values: Sequence[float]) -> float:
    """The sample's standard deviation, 0 of a single value; not a number if no float can hold it.

    `statistics.stdev` computes in fractions, which takes a hundred times as long.
    """
    if len(values) == 1:
        return 0.0
    centre = mean(values)
    try:
        return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))
    except OverflowError:
        return math.nan


def _value(response: model.Response) -> Value:
    kind = kind_of(response.unit, response.better, response.scale)
    if response.censored is None and 0 < response.value < math.inf:  # as nearly all are
        return Value(response.value, kind)
    return Value(response.value, kind, _problem(response), response.censored)


def _problem(response: model.Response) -> str | None:
    if response.censored:
        return "censored"
    if 0 < response.value < math.inf:
        return None
    if not math.isfinite(response.value):
        return "not-finite"
    if response.scale == "ratio" and response.value <= 0:
        return "not-positive"
    return None


@lru_cache(maxsize=1024)
def kind_of(unit: str, better: model.Better, scale: model.Scale) -> model.ResponseKind:
    """One object for each kind, so that kinds compare quickly."""
    return model.ResponseKind(unit=unit, better=better, scale=scale)
