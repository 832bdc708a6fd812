"""Runs made up for analysis: manifests, records and values, without anybody having run them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.results import Analysis, Contrast
from nearmetal.model import (
    BlockPlan,
    Plan,
    Response,
    Study,
    TrialPlan,
    TrialRecord,
    TrialStatus,
    Warned,
)
from nearmetal.planning import plan as planning
from nearmetal.store.manifest import Manifest
from nearmetal.study.blocks import plan_blocks

PRIMARIES = {"web": "throughput"}
PAIR = ("host", "docker")
KINDS = ("host", "docker", "qemu")
"""Levels that need no table."""

Value = Callable[[int, str, int], float]
"""Of block, environment and repeat."""
MakeResponses = Callable[[BlockPlan, int, TrialPlan], Mapping[str, Response]]
"""Of a block, the number of a boot in it, and a trial of that boot."""


def manifest(environments: Sequence[str] = ("host", "docker"), **design: Any) -> Manifest:
    study = Study.model_validate(
        {
            "name": "trial",
            "reference": {"environment": environments[0]},
            "environments": {name: {"kind": "mock"} for name in environments if name not in KINDS},
            "factors": {"environment": {"levels": list(environments)}},
            "workloads": [{"name": "web", "kind": "http"}],
            "design": {"blocks": 8, **design},
        }
    )
    return Manifest(
        run="r",
        created="2025-03-01T12:00:00Z",
        study=study,
        source="",
        plan=planning.make_plan(study),
        versions={},
        host={},
    )


def record(
    environment: str,
    block: int,
    values: Mapping[str, Response],
    *,
    attempt: int = 0,
    repeat: int = 0,
    position: int = 0,
    status: TrialStatus = TrialStatus.OK,
    how: str = "boot",
    cpus: tuple[str, str] = ("0", "1"),
    boot: str | None = None,
    warnings: tuple[Warned, ...] = (),
) -> TrialRecord:
    boot = boot or f"{environment}-{block}-{attempt}"
    made: TrialRecord = TrialRecord.from_json(
        {
            "trial": {
                "id": f"{environment}-{block}-{attempt}-{repeat}",
                "block": block,
                "attempt": attempt,
                "position": position,
                "repeat": repeat,
                "treatment": {"environment": environment},
                "workload": "web",
            },
            "site": "local",
            "boot": {"id": boot, "how": how},
            "machines": [
                {"role": "server", "environment": environment, "boot_id": boot, "cpus": cpus[0]},
                {"role": "client", "environment": environment, "boot_id": "b", "cpus": cpus[1]},
            ],
            "status": status.value,
            "responses": {name: asdict(response) for name, response in values.items()},
            "warnings": [warning.model_dump(mode="json") for warning in warnings],
        }
    )
    return made


def ratio(value: float, **more: Any) -> Response:
    return Response(value=value, unit="1/s", better="higher", **more)


def plain(value: float) -> Response:
    return Response(value=value, unit="share", better="lower", scale="difference")


def whole_run(of: Manifest, value: Value, response: Callable[[float], Response] = ratio) -> list[TrialRecord]:
    return [
        record(environment, block, {"throughput": response(value(block, environment, repeat))}, repeat=repeat)
        for block in range(of.study.design.most_blocks)
        for environment in ("host", "docker")
        for repeat in range(of.study.design.repeats)
    ]


def plan_records(plan: Plan, make_responses: MakeResponses, **more: Any) -> list[TrialRecord]:
    """A record for each trial of a plan, in its order; all are ok."""
    return [
        TrialRecord.from_json(
            {
                "trial": {
                    "id": trial.id,
                    "block": block.index,
                    "attempt": 0,
                    "position": trial.position,
                    "repeat": 0,
                    "treatment": boot.treatment,
                    "workload": trial.workload,
                },
                "site": "local",
                "boot": {"id": f"{block.index}-{number}", "how": "boot"},
                "status": "ok",
                "responses": {
                    name: asdict(response) for name, response in make_responses(block, number, trial).items()
                },
                **more,
            }
        )
        for block in plan_blocks(plan)
        for number, boot in enumerate(block.boots)
        for trial in boot.trials
    ]


def run(of: Manifest, records: Iterable[TrialRecord]) -> Analysis:
    return analyse(of, records, [], PRIMARIES)


def only(analysis: Analysis) -> Contrast:
    (contrast,) = analysis.contrasts
    return contrast


def codes(contrast: Contrast) -> set[str]:
    return {warning.code for warning in contrast.warnings}


def wobble(block: int, size: float) -> float:
    """Noise without a trend, the same every time."""
    return size * (0.31, -0.72, 0.93, -0.14, -0.55, 0.66, -0.87, 0.28)[block % 8]
