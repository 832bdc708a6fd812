"""How long a plan takes, before it has run. Pure."""

from nearmetal import factors as words
from nearmetal import plugins
from nearmetal.model import Plan, Study
from nearmetal.study import workload_of

AROUND_A_TRIAL = 1.0
"""Seconds: preparing, starting together, and reading back."""


def estimate(study: Study, plan: Plan) -> float:
    """Seconds, from each environment's typical time to ready, each workload's declared duration, and observers."""
    treatments = plugins.names("treatments")
    around = AROUND_A_TRIAL + sum(plugins.load("observers", name).takes for name in study.observe.chosen)
    seconds = 0.0
    for treatment in plan.treatments:
        asked = words.ask(study, treatment, treatments)
        environment = plugins.load("environments", study.environment(asked.environment).kind)
        boots = 1 if study.design.share_boot else len(asked.workloads)
        seconds += boots * environment.typical_ready
        seconds += sum(workload_of(spec).duration + around for spec in asked.workloads) * study.design.repeats
    return seconds * len(plan.blocks)
