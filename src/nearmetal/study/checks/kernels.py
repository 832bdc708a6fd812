"""Sysctls that a study sets: each can be set on servers and clients without a change of anything else's kernel."""

from nearmetal.model import Description, Study, is_per_namespace
from nearmetal.study.asked import find_targets
from nearmetal.study.checks.treatments import Descriptions, iterate_asked
from nearmetal.study.lines import KeyPath
from nearmetal.study.resolve import installed_names
from nearmetal.study.text import StudyText, show_value


def check_sysctls(study: Study, where: StudyText) -> None:
    """None belongs to a kernel that its machine shares with others."""
    aims = find_targets(study, installed_names())
    factors = [(aim.key, name) for name, some in aims.items() for aim in some if aim.kind == "sysctl"]
    if not factors and not study.kernel.sysctl:
        return
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        places: dict[str, KeyPath] = dict.fromkeys(study.kernel.sysctl, ("kernel", "sysctl"))
        places |= {key: ("factors", name) for key, name in factors if name in treatment}
        for role, level in (("server", asked.environment), ("client", asked.clients.environment)):
            for name, path in places.items():
                if problem := _find_problem(name, described[level]):
                    what = f"{name} cannot be set on the {role}, {show_value(level)}: {problem}"
                    raise where.make_error(path, what, _REMEDY)


_REMEDY = "leave it out, or let servers and clients be guests; a factor can have a `when`"


def _find_problem(name: str, machine: Description) -> str | None:
    if machine.kernel == "emulated":
        return "the program that imitates its kernel takes none"
    if machine.kernel == "host" and not is_per_namespace(name):
        return "it belongs to the kernel as a whole, which is that of the host"
    return None
