"""How a program of a machine is started: its environment, and the command around it."""

from collections.abc import Mapping, Sequence

from nearmetal.model import ControlGroup, Site

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
"""All that a program finds in its environment, whatever the machine is made of, besides what its caller gives."""


def build_words(probe: str, argv: Sequence[str], env: Mapping[str, str] | None, *place: str) -> list[str]:
    """The argument vector with which the probe starts a program, at its home, as where one logs in.

    `place` are options of its verb `launch`.
    """
    return [probe, "launch", *place, "--at-home", "--clear-env", *build_variables(env), "--", *argv]


def build_launch(
    site: Site,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    group: ControlGroup | None = None,
    inside: int | None = None,
) -> list[str]:
    """The command of a site by which a program of a machine starts: in a control group, inside its namespaces.

    `inside` is the number of a process whose namespaces and root it enters. It begins at its home, has
    `env` in its environment besides what every machine's programs have, and ends with the
    controller, however that ends.
    """
    entered = () if inside is None else ("--enter", str(inside))
    spent = ("--spent", group.spent) if entered and group and group.spent else ()
    return build_words(site.probe, argv, env, *site.bound, *entered, *spent, *(group.joined if group else ()))


def build_env(argv: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
    """The argument vector with which `env` starts a program, where the probe need not."""
    return ["env", "-i", *_assignments(env), *argv]


def build_variables(env: Mapping[str, str] | None) -> list[str]:
    """A program's whole environment, as the probe's verbs take it."""
    return [word for assignment in _assignments(env) for word in ("--env", assignment)]


def _assignments(env: Mapping[str, str] | None) -> list[str]:
    return [f"{name}={value}" for name, value in {**ENVIRONMENT, **(env or {})}.items()]
