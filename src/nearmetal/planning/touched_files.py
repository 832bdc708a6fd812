"""What of a study's own its run would run and touch: for those who are to run a study of somebody else. Pure."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from nearmetal.model import Frozen, MachineSpec, Resolved, ResolvedEnvironment, Study
from nearmetal.study.resolve import collect_hosts

TouchedKind = Literal["command", "service", "URI", "Vagrantfile", "host", "file", "image"]

_OF_OPTIONS: Mapping[str, TouchedKind] = {
    "engine": "URI",
    "uri": "URI",
    "server": "URI",
    "vagrantfile": "Vagrantfile",
    "folder": "Vagrantfile",
    "key": "file",
    "ca_file": "file",
}
_OF_PARAMETERS: Mapping[str, TouchedKind] = {"argv": "command", "url": "URI", "send_file": "file", "ca": "file"}


class TouchedFile(Frozen):
    kind: TouchedKind
    of: str
    """The workload, service, environment or host that says so."""
    what: str


def list_touched(study: Study, resolved: Iterable[Resolved]) -> list[TouchedFile]:
    """Each thing once: hosts first, then as treatments ask for it."""
    return list(dict.fromkeys([*_list_hosts(study), *(one for each in resolved for one in _list_treatment(each))]))


def _list_hosts(study: Study) -> Iterator[TouchedFile]:
    for name, host in collect_hosts(study).items():
        yield TouchedFile(kind="host", of=name, what=host.ssh + (f" by way of {host.jump}" if host.jump else ""))
        if host.key:
            yield TouchedFile(kind="file", of=name, what=host.key)


def _list_treatment(resolved: Resolved) -> Iterator[TouchedFile]:
    for environment in (resolved.environment, resolved.clients.environment):
        yield from _list_environment(environment)
    yield from _list_machine(resolved.server, resolved.environment.level)
    if resolved.clients.machine is not None:
        yield from _list_machine(resolved.clients.machine, resolved.clients.environment.level)
    for name, service in resolved.services.items():
        start = "what its image starts" if service.start == "image" else shlex.join(service.start)
        if service.start:
            yield TouchedFile(kind="service", of=name, what=start)
        if not isinstance(service.ready, str):
            yield TouchedFile(kind="command", of=name, what=shlex.join(service.ready))
        elif "://" in service.ready:
            yield TouchedFile(kind="URI", of=name, what=service.ready)
        for file in service.files:
            yield TouchedFile(kind="file", of=name, what=f"{file.source}:{file.destination}")
    for workload in resolved.workloads:
        yield from _list_values(workload.name, workload.parameters)
        for file in workload.files:
            yield TouchedFile(kind="file", of=workload.name, what=f"{file.source}:{file.destination}")


def _list_environment(environment: ResolvedEnvironment) -> Iterator[TouchedFile]:
    found = [
        TouchedFile(kind=kind, of=environment.level, what=str(value))
        for key, kind in _OF_OPTIONS.items()
        if (value := environment.options.get(key)) is not None
    ]
    if environment.kind == "vagrant" and not any(one.kind == "Vagrantfile" for one in found):
        found.append(TouchedFile(kind="Vagrantfile", of=environment.level, what="./Vagrantfile"))
    yield from found


def _list_machine(spec: MachineSpec, level: str) -> Iterator[TouchedFile]:
    if spec.brings_image:
        yield TouchedFile(kind="image", of=level, what=spec.image)
    if spec.share is not None:
        yield TouchedFile(kind="file", of=level, what=str(spec.share))
    if spec.vmm or spec.vmm_arguments:
        words = [spec.vmm or "qemu-system", *spec.vmm_arguments]
        yield TouchedFile(kind="command", of=level, what=shlex.join(words))
    if spec.kernel is not None and spec.kernel.startswith("/"):
        yield TouchedFile(kind="file", of=level, what=spec.kernel)
    for argv in spec.neighbours:
        yield TouchedFile(kind="command", of=level, what=shlex.join(argv))


def _list_values(of: str, values: Mapping[str, Any]) -> Iterator[TouchedFile]:
    """Of parameters, and of the tables in them."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _list_values(of, value)
        elif value and (kind := _OF_PARAMETERS.get(key)):
            words = [str(word) for word in value] if isinstance(value, list | tuple) else None
            yield TouchedFile(kind=kind, of=of, what=shlex.join(words) if words else str(value))
