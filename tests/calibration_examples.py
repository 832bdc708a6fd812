"""Calibrations made up for tests: journals of the built-in study in which all is known."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nearmetal import studies
from nearmetal.model import Assignment, BlockPlan, Response, TrialPlan, TrialRecord
from nearmetal.planning import plan as planning
from nearmetal.store.manifest import Manifest
from nearmetal.study.study_file import read
from tests.analysis_inputs import plan_records

Values = Callable[[Assignment, str, float], Mapping[str, Response]]
"""Of a treatment, a workload, and noise of mean 0 and spread 1 that is the boot's own."""


def manifest(blocks: int = 16, *overrides: str, quick: bool = False, kind: str = "mock") -> Manifest:
    both = [f"environments.{name}.kind={kind}" for name in ("first", "again")]
    given = (*both, f"design.blocks={blocks}", *overrides)
    study = read(studies.read_study_file("calibration"), "calibration", given, quick)
    return Manifest(
        run="r",
        created="2025-03-01T12:00:00+00:00",
        study=study,
        source="",
        overrides=given,
        quick=quick,
        plan=planning.make_plan(study),
        versions={},
        host={"kernel": {"release": "6.1-made-up"}},
    )


def seconds(value: float) -> Response:
    return Response(value=value, unit="s", better="lower")


def sound(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
    """As a machine has it whose boots vary by one percent, and whose injected differences are what they should be."""
    amount = float(treatment["amount"])
    factor = float(np.exp(0.01 * noise))
    if workload == "arithmetic":
        events = Response(value=1000 / factor, unit="1/s", better="higher")
        return {"elapsed": seconds(amount / 1000 * factor), "events": events}
    wait = amount * 10e-6 if workload == "waits" else 0.0
    latency = seconds(wait + 100e-6 * factor)
    errors = Response(value=0.0, unit="share", better="lower", scale="difference")
    rate = Response(value=1 / latency.value, unit="1/s", better="higher")
    return {"latency_p50": latency, "throughput": rate, "errors": errors}


def records(of: Manifest, values: Values = sound, seed: int = 1, **more: Any) -> list[TrialRecord]:
    """All trials of the plan, ok. The same seed, the same noise."""
    generator = np.random.default_rng(seed)

    def make_responses(block: BlockPlan, number: int, trial: TrialPlan) -> Mapping[str, Response]:
        return values(block.boots[number].treatment, trial.workload, generator.normal())

    return plan_records(of.plan, make_responses, **more)
