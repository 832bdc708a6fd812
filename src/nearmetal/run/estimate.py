"""How long a plan takes, and how much of a disk, before it has run. Pure."""

from nearmetal import factors as words
from nearmetal import plugins
from nearmetal.model import Plan, Preparing, Study, WorkloadSpec
from nearmetal.run import shape
from nearmetal.study import workload_of

AROUND_A_TRIAL = 1.0
"""Seconds: starting together, reading back, and preparing what takes no time worth telling."""

_EACH_MORE = 0.5
"""Of an environment's typical time to ready, for each of its machines beside the first, which are made at once: so it
is of sixty clients of kind host on two CPUs."""


def estimate(study: Study, plan: Plan) -> float:
    """Seconds, from each environment's typical time to ready, what each workload declares, and observers."""
    treatments = plugins.names("treatments")
    seconds = 0.0
    for treatment in plan.treatments:
        asked = words.ask(study, treatment, treatments)
        environment = plugins.load("environments", study.environment(asked.environment).kind)
        around = AROUND_A_TRIAL + sum(plugins.load("observers", name).takes for name in asked.observe.chosen)
        boots = 1 if study.design.share_boot else len(asked.workloads)
        of_clients = plugins.load("environments", study.environment(asked.clients.environment).kind)
        seconds += boots * environment.typical_ready * (1 + _EACH_MORE * (shape.number_of_servers(asked) - 1))
        seconds += boots * of_clients.typical_ready * _EACH_MORE * (asked.clients.count - 1)
        seconds += sum(_taken(spec) + around for spec in asked.workloads) * study.design.repeats
    return seconds * len(plan.blocks)


def most_captured(study: Study, plan: Plan) -> int:
    """Bytes of captures at the most, as long as every file is full: one at each end of each trial that has them."""
    treatments = plugins.names("treatments")
    most = 0
    for treatment in plan.treatments:
        asked = words.ask(study, treatment, treatments)
        if capture := asked.observe.capture:
            trials = len(asked.workloads) * study.design.repeats * len(plan.blocks)
            most += trials * (asked.clients.count + shape.number_of_servers(asked)) * capture.limit
    return most


def left(trials: int, elapsed: float, measured: int, before: float) -> float:
    """Seconds that so many trials still take, at the pace of those measured; of none yet, at `before` seconds each."""
    return max(0, trials) * (elapsed / measured if measured else before)


def _taken(spec: WorkloadSpec) -> float:
    workload = workload_of(spec)
    return workload.duration + (workload.preparing if isinstance(workload, Preparing) else 0.0)
