"""Services, and what asks them."""

from collections.abc import Mapping

from nearmetal.model import MachineSpec, ServiceSpec, Study
from nearmetal.model.services import FILLED, OURS
from nearmetal.spelling import did_you_mean
from nearmetal.study.checks.treatments import iterate_asked
from nearmetal.study.checks.workloads import iterate_filled
from nearmetal.study.error_messages import StudyText, show_value
from nearmetal.study.factors import is_everywhere
from nearmetal.study.levels import find_placeholders
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.plugin_answers import validate_parameters
from nearmetal.study.resolve import collect_services

_ASKING = 'server = "{name}" in a workload of kind http, or services = ["{name}"] in one of kind command'


def check_services(study: Study, where: StudyText) -> None:
    """Each service by itself; workloads ask those that are there, and each is asked."""
    for name, spec in study.services.items():
        _check_service(name, spec, study, where)
    asked: set[str] = set()
    for index, workload in enumerate(study.workloads):
        for _, filled in iterate_filled(workload, study):
            parameters = validate_parameters(filled)
            names = collect_services(filled.kind, parameters)
            key = "server" if getattr(parameters, "server", None) else "services"
            _check_asked(names, ("workloads", index, key), study, where)
            asked.update(names)
    for name in study.services:
        if name not in asked:
            what = f"no workload asks the service {show_value(name)}"
            raise where.make_error(("services", name), what, f"write {_ASKING.format(name=name)}; or remove it")


def _check_service(name: str, spec: ServiceSpec, study: Study, where: StudyText) -> None:
    path: KeyPath = ("services", name)
    if name in OURS:
        what = f"{show_value(name)} is a server of nearmetal's own"
        raise where.make_error(path, what, f"rename it, as in [services.my-{name}]")
    if spec.start == "image" and not _has_own_image(study):
        what = "the lab image, of which its machines are made, has no entry point"
        remedy = 'build yours, `nearmetal image build --from FILE --name mine`, and add [machine] image = "mine"'
        raise where.make_error((*path, "start"), what, remedy)
    for key, value in spec.model_dump().items():
        for factor in find_placeholders(value):
            if factor in study.factors:  # other words in braces are what they are: JSON, a template of the service's
                _check_placeholder(factor, (*path, key), study, where)
    is_shared = study.design.share_boot or study.design.repeats > 1
    if spec.lifetime == "boot" and not is_shared:
        what = "each boot has one trial, so that a service of the boot is one of the trial"
        remedy = "remove `lifetime`, or set design.share_boot = true or design.repeats"
        raise where.make_error((*path, "lifetime"), what, remedy)


def _check_placeholder(factor: str, path: KeyPath, study: Study, where: StudyText) -> None:
    if path[-1] not in FILLED:
        what = f"levels are put into {', '.join(FILLED)} of a service, and {{{factor}}} stands in {path[-1]}"
        raise where.make_error(path, what, "describe a service for each level, and vary `server`")
    if not is_everywhere(study.factors, factor):
        what = f"the placeholder {{{factor}}} has no level where the `when` of `{factor}` does not hold"
        raise where.make_error(path, what, f"give `{factor}` a level everywhere: remove its `when`")


def _has_own_image(study: Study) -> bool:
    """Whether some machine is made of another image than the lab's."""
    return any(asked.machine.image != MachineSpec().image for _, asked in iterate_asked(study))


def _check_asked(names: tuple[str, ...], path: KeyPath, study: Study, where: StudyText) -> None:
    known = study.services
    for name in names:
        if name not in known:
            what = f"there is no service {show_value(name)}"
            others = (*(OURS if path[-1] == "server" else ()), *known)
            remedy = did_you_mean(name, others, "services")
            raise where.make_error(path, what, remedy if known else f'add [services.{name}] start = ["…"], port = 8080')
        if path[-1] == "server" and known[name].port is None:
            what = f"the service {show_value(name)} has no `port` for requests"
            raise where.make_error(("services", name), what, "add port = 8080")
    if len(set(names)) < len(names):
        raise where.make_error(path, "a service is named twice", "name each once")
    beside = {name: one for name, one in known.items() if one.lifetime == "boot" or name in names}
    _check_ports(beside, where)


def _check_ports(services: Mapping[str, ServiceSpec], where: StudyText) -> None:
    """Those that run at one time listen on a port each."""
    owners: dict[int, str] = {}
    for name, one in services.items():
        if one.port is not None and owners.setdefault(one.port, name) != name:
            what = (
                f"the services {show_value(owners[one.port])} and {show_value(name)} run at one time, both "
                f"on port {one.port}"
            )
            raise where.make_error(("services", name, "port"), what, "give each a port of its own")
