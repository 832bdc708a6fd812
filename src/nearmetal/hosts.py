"""Which hosts a study has, and which machines hang on a switch of the lab's there. Pure."""

from collections.abc import Mapping

from nearmetal import plugins
from nearmetal.model import Elsewhere, EnvironmentSpec, HostSpec, Reached, Study


def of(study: Study) -> Mapping[str, HostSpec]:
    """How each host is reached, by its name: those of [hosts], and each machine that is a host of its own."""
    own = {name: found for name in study.environments if (found := reached(study, name)) is not None}
    return {**study.hosts, **own}


def reached(study: Study, level: str) -> HostSpec | None:
    """How the host is reached that machines of an environment are; None where they are not hosts of their own."""
    if level not in study.environments:
        return None
    spec = study.environments[level]
    plugin = plugins.load("environments", spec.kind)
    return plugin.host(spec.options) if isinstance(plugin, Reached) else None


def is_elsewhere(spec: EnvironmentSpec) -> bool:
    """Whether an environment's machines are in a network of the user's, at addresses known only once they run."""
    plugin = plugins.load("environments", spec.kind)
    return isinstance(plugin, Elsewhere) and plugin.is_elsewhere(spec.options)


def is_one_machine(spec: EnvironmentSpec) -> bool:
    """Whether an environment stands for one machine of the user's, which no study can have twice at once."""
    plugin = plugins.load("environments", spec.kind)
    return isinstance(plugin, Reached) or (isinstance(plugin, Elsewhere) and plugin.is_one(spec.options))


def one_under_two_names(study: Study) -> list[tuple[str, str]]:
    """Levels of `environment` that say the same of one machine of the user's: their comparison is an A/A on it."""
    levels = [str(level) for level in study.factors["environment"].levels]
    ones = [level for level in levels if is_one_machine(study.environment(level))]
    return [
        (one, other)
        for number, one in enumerate(ones)
        for other in ones[number + 1 :]
        if study.environment(one) == study.environment(other)
    ]


def hangs_on_switch(spec: EnvironmentSpec) -> bool:
    return plugins.load("environments", spec.kind).on_switch and not is_elsewhere(spec)


def is_reached_from_outside(spec: EnvironmentSpec) -> bool:
    """Whether the way to its machines is their clients' host's own network."""
    return isinstance(plugins.load("environments", spec.kind), Reached) or is_elsewhere(spec)
