"""Which hosts a study has: those of [hosts], and each machine that is a host of its own. Pure."""

from collections.abc import Mapping

from nearmetal import plugins
from nearmetal.model import HostSpec, Reached, Study


def of(study: Study) -> Mapping[str, HostSpec]:
    """How each host is reached, by its name; a machine that is one has its environment's."""
    own = {name: found for name in study.environments if (found := reached(study, name)) is not None}
    return {**study.hosts, **own}


def reached(study: Study, level: str) -> HostSpec | None:
    """How the host is reached that machines of an environment are; None where they are not hosts of their own."""
    if level not in study.environments:
        return None
    spec = study.environments[level]
    plugin = plugins.load("environments", spec.kind)
    return plugin.host(spec.options) if isinstance(plugin, Reached) else None
