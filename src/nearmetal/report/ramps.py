"""The steps of ramps, from the documents that the load generators left with the trials."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmetal.model import Assignment, TrialRecord
from nearmetal.report.charts.climb import Rates
from nearmetal.report.reading import ReportInput

_Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Step(BaseModel):
    """One step of a `load.v1` document; per second, of one client."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    offered: _Rate
    request_rate: _Rate
    reply_rate: _Rate
    error_rate: _Rate
    generator_failed: bool = False
    """Whether the generator was the limit, so that the rates are its own."""


class _RampDocument(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    steps: tuple[_Step, ...] = ()


@dataclass(frozen=True)
class Rung(Rates):
    """What one offered rate gave: means over all clients and blocks whose generators got so far."""

    steps: int
    """How many steps at this rate the means are of."""


@dataclass(frozen=True)
class Ramp:
    """One treatment's ramp of one workload, rates ascending."""

    workload: str
    treatment: Assignment
    rungs: tuple[Rung, ...]
    left_out: int
    """Steps in which the generator was the limit, which are in no mean."""
    missing: int
    """Documents that the run's folder should hold and does not, or that cannot be read."""


def list_ramps(report: ReportInput, workloads: Sequence[str]) -> list[Ramp]:
    """The ramps of these workloads, in the order of the study; of trials that count, as in the analysis."""
    return [
        _make_ramp(workload, treatment, records, report)
        for workload in workloads
        for treatment in report.manifest.plan.treatments
        if (records := report.trials(workload, treatment))
    ]


def _make_ramp(workload: str, treatment: Assignment, records: Iterable[TrialRecord], report: ReportInput) -> Ramp:
    at: dict[float, list[_Step]] = defaultdict(list)
    left_out = missing = 0
    for record in records:
        for content in report.artifacts(record, "load-*.json"):
            steps = _read_steps(content)
            if steps is None:
                missing += 1
            for step in steps or ():
                if step.generator_failed:
                    left_out += 1
                else:
                    at[step.offered].append(step)
    return Ramp(workload, treatment, tuple(_list_rungs(at)), left_out, missing)


def _read_steps(content: bytes | None) -> tuple[_Step, ...] | None:
    """None of a document that cannot be read."""
    try:
        return _RampDocument.model_validate_json(content or b"").steps
    except ValidationError:
        return None


def _list_rungs(at: Mapping[float, Sequence[_Step]]) -> Iterable[Rung]:
    for offered, steps in sorted(at.items()):
        yield Rung(
            offered=offered,
            requests=statistics.fmean(step.request_rate for step in steps),
            replies=statistics.fmean(step.reply_rate for step in steps),
            errors=statistics.fmean(step.error_rate for step in steps),
            steps=len(steps),
        )
