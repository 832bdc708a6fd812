"""What `up` is asked for, read as a study's would be: the same keys, the same checks, the same words for what is wrong.

Effects: `refuse_what_cannot_be` looks at the host, and changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearmetal import plugins
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.cpus import allocation, layout
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.local_site import list_available_cpus
from nearmetal.lab.machines import kernel
from nearmetal.model import MachineSpec, Resolved, ResolvedEnvironment, Study
from nearmetal.run.unavailable_treatments import find_unavailable
from nearmetal.spelling import did_you_mean
from nearmetal.study.checks.places import describe_kind
from nearmetal.study.error_messages import join_path
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.resolve import Resolver
from nearmetal.study.study_file import parsed_override, read

# A workload is what a study cannot do without; it never runs.
_STUDY = """
name = "by-hand"
environments.{0}.kind = "{0}"
factors.environment = ["{0}"]
clients.environment = "{0}"
[[workloads]]
name = "none"
kind = "ping"
"""
_FILE = "nearmetal up"
"""What the text is called when something is wrong with it."""
_SETTABLE = ("machine", "environments")


@dataclass(frozen=True)
class MachineRequest:
    study: Study
    resolved: Resolved

    @property
    def environment(self) -> ResolvedEnvironment:
        return self.resolved.environment

    @property
    def spec(self) -> MachineSpec:
        return self.resolved.server


def parse_request(environment: str, overrides: Sequence[str]) -> MachineRequest:
    """From the words of the command line. BadInput."""
    known = plugins.list_names("environments")
    if environment not in known:
        raise BadInput(
            f"there is no environment {environment[:100]!r}", remedy=did_you_mean(environment, known, "choose one of")
        )
    described = describe_kind(environment, {}, MachineSpec())
    if described is None or described.is_reached_from_outside:
        raise BadInput(
            f"machines of kind {environment!r} are not made by `up`",
            remedy="have one up by what makes it, and log in: ssh USER@HOST",
        )
    paths = [parsed_override(text).path for text in overrides]
    for text, path in zip(overrides, paths, strict=True):
        if path[0] not in _SETTABLE or len(path) < 2:
            raise BadInput(
                f"--set {text[:100]!r}: a machine has no such key",
                remedy=f"set a key of [machine] or of its environment: machine.memory=1GiB, "
                f"environments.{environment}.KEY=VALUE",
            )
    _refuse_treatments(paths)
    study = _read(environment, overrides)
    resolved = Resolver(study).resolve_treatment({"environment": environment})
    _refuse_ignored_keys(resolved.environment, paths)
    if resolved.environment.description.is_reached_from_outside:
        raise BadInput(
            f"this machine of kind {environment!r} exists already",
            remedy="have it up by what made it, and log in: ssh USER@HOST",
        )
    return MachineRequest(study, resolved)


def _refuse_treatments(paths: Iterable[KeyPath]) -> None:
    treatments = plugins.list_names("treatments")
    for table, name, *_ in paths:
        if table == "machine" and name in treatments:
            raise BadInput(
                f"machine.{name} is a treatment, and treatments are carried out in a run only",
                remedy="set it by hand in the machine, or in a study: see docs/treatments.md",
            )


def _refuse_ignored_keys(environment: ResolvedEnvironment, paths: Iterable[KeyPath]) -> None:
    """In a study it may stand there for other environments' sake; here there is no other."""
    name, means_nothing = environment.level, environment.description.ignores
    for table, key, *rest in paths:
        if table == "environments" and key != name:
            what = f"{join_path((table, key, *rest))[:100]} is another's: this machine is of {name!r}"
            raise BadInput(what, remedy=f"leave it out, or set environments.{name}.KEY=VALUE")
        if table == "machine" and key in means_nothing:
            what = f"machine.{key} means nothing to a machine of kind {environment.kind!r}"
            raise BadInput(what, remedy="leave it out")


def _read(environment: str, overrides: Sequence[str]) -> Study:
    """BadInput without the line of a text that nobody has seen."""
    try:
        return read(_STUDY.format(environment), _FILE, overrides)
    except BadInput as error:
        is_line = error.where.removeprefix(f"{_FILE}:").isdigit()
        raise BadInput(error.what, _FILE if is_line else error.where, error.remedy) from None


async def refuse_unavailable(wanted: MachineRequest, open_site: OpenSite) -> None:
    """HostCannot with what is lacking."""
    for _, lacking in await find_unavailable(wanted.study, [wanted.resolved], open_site):
        raise HostCannot(f"{lacking.what}: {lacking.detail}", wanted.environment.kind, lacking.remedy)


async def choose_cpuset(wanted: MachineRequest, open_site: OpenSite) -> str:
    """The host's CPUs that the machine may use, as a server of a study would have them."""
    site, spec = await open_site(wanted.spec.host), wanted.spec
    available, lie = await list_available_cpus(site), await layout.read(site)
    return allocation.assign_cpus(available, spec.vcpus, 1, spec.cpus, None, lie, kernel.keeps_cpus(spec)).servers[0]
