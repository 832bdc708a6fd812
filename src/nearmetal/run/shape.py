"""What the machines of a treatment are to be, from what it asks for. Pure."""

from collections.abc import Iterator

from nearmetal import plugins
from nearmetal.factors import Asked
from nearmetal.lab import cpus
from nearmetal.model import Level, MachineSpec, Treatment

_CLIENT_MEMORY = 2**30
"""Bytes that a client may take: no study is about them, so it is as much as a load generator could ever need."""


def treatments(asked: Asked) -> Iterator[tuple[Treatment, Level]]:
    """The treatments to carry out, each with its level."""
    for name, level in asked.treatments.items():
        yield plugins.load("treatments", name), level


def server(asked: Asked) -> MachineSpec:
    """A machine under test, as the study asks for it and as its treatments shape it."""
    spec = asked.machine
    for treatment, level in treatments(asked):
        spec = treatment.shape(spec, level)
    return spec


def share(asked: Asked, spec: MachineSpec, available: list[int]) -> cpus.Share:
    """Who gets which of a site's CPUs."""
    clients = asked.clients
    servers = clients.count if clients.connect == "pairs" else 1
    return cpus.share(available, spec.vcpus, servers, spec.cpus, clients.cpus)


def client(spec: MachineSpec, shared: cpus.Share) -> MachineSpec:
    """A client beside machines under test of this spec: of the same image, on the CPUs that they leave."""
    return MachineSpec(image=spec.image, vcpus=len(cpus.parse(shared.clients)), memory=_CLIENT_MEMORY)
