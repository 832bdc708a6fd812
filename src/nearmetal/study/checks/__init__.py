"""What a study can get wrong although each key has the right shape: BadInput with the place and the remedy."""

from collections.abc import Callable, Sequence

from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.study.checks import comparison, treatments
from nearmetal.study.checks.hosts import check_hosts
from nearmetal.study.checks.levels import check_levels, check_observers, check_targets
from nearmetal.study.checks.places import check_environments
from nearmetal.study.checks.services import check_services
from nearmetal.study.checks.workloads import check_loads, check_workload_parameters, check_workloads
from nearmetal.study.error_messages import StudyText

Check = Callable[[Study, StudyText], None]

CHECKS: Sequence[Check] = (
    comparison.check_names,
    lambda study, where: check_hosts(study.hosts, where),
    comparison.check_factors,
    check_environments,
    comparison.check_conditions,
    check_workloads,
    check_targets,
    comparison.check_reference,
    comparison.check_size,
    comparison.check_aim,
    check_observers,
    check_levels,
    check_workload_parameters,
    check_loads,
    check_services,
    comparison.check_counterparts,
    treatments.check_reality,
    treatments.check_places,
    treatments.check_servers,
    treatments.check_clients,
    treatments.check_cpus,
    treatments.check_machines,
    treatments.check_shapes,
    treatments.check_cables,
    treatments.check_meaning,
    treatments.check_sysctls,
)
"""In an order in which each may rely on those before it."""


def check(study: Study, where: StudyText) -> None:
    """Everything that can be known before anything runs. BadInput names the first thing that is wrong."""
    for one in CHECKS:
        try:
            one(study, where)
        except BadInput as error:
            table, _, key = error.where.partition(".")
            if table != "machine":
                raise
            raise where.make_error(
                (table, key), error.what, error.remedy
            ) from None  # a plugin's word, which knows no lines
