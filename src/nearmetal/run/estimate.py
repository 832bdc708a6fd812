"""How long a plan takes, and how much of a disk, before it has run. Pure."""

from nearmetal import plugins
from nearmetal.model import Plan, ResolvedWorkload
from nearmetal.run.background_load import SETTLED
from nearmetal.study.resolve import build_workload

A_PRETENDED_TRIAL = 0.1
"""Seconds: what a workload declares passes at once."""

AROUND_A_TRIAL = 1.0
"""Seconds: starting together, reading back, and preparing what takes no time worth telling."""

_EACH_MORE = 0.5
"""Of an environment's typical time to ready, for each of its machines beside the first, which are made at once: so it
is of sixty clients of kind host on two CPUs."""


def estimate_plan(plan: Plan) -> float:
    """Seconds, from each environment's typical time to ready, what each workload declares, and observers."""
    seconds = 0.0
    taken: dict[int, float] = {}
    for one in plan.resolved:
        environment = plugins.load("environments", one.environment.kind)
        around = AROUND_A_TRIAL + sum(plugins.load("observers", name).takes for name in one.observe.chosen)
        boots = 1 if plan.share_boot else len(one.workloads)
        of_clients = plugins.load("environments", one.clients.environment.kind)
        seconds += boots * environment.typical_ready * (1 + _EACH_MORE * (one.number_of_servers - 1))
        seconds += boots * of_clients.typical_ready * _EACH_MORE * (one.clients.count - 1)
        if one.is_pretended:
            seconds += A_PRETENDED_TRIAL * len(one.workloads) * plan.repeats
            continue
        if id(one.workloads) not in taken:  # treatments have many of them in common
            taken[id(one.workloads)] = sum(map(_estimate_workload, one.workloads))
        seconds += (taken[id(one.workloads)] + around * len(one.workloads)) * plan.repeats
    return seconds * plan.blocks


def most_captured(plan: Plan) -> int:
    """Bytes of captures at the most, as long as every file is full: one at each end of each trial that has them."""
    most = 0
    for one in plan.resolved:
        if capture := one.observe.capture:
            trials = len(one.workloads) * plan.repeats * plan.blocks
            most += trials * (one.clients.count + one.number_of_servers) * capture.limit
    return most


def _estimate_workload(spec: ResolvedWorkload) -> float:
    workload = build_workload(spec)
    return workload.duration + workload.preparing + (SETTLED if spec.under else 0.0)
