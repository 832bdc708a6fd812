"""What the machines of a treatment are to be, from what it asks for. Pure."""

from collections.abc import Iterator

from nearmetal import cpu_lists, plugins
from nearmetal.factors import Asked, aim
from nearmetal.lab.cpus import sharing
from nearmetal.lab.cpus.layout import Layout
from nearmetal.lab.cpus.sharing import Share
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network, trunk
from nearmetal.model import EnvironmentSpec, Level, MachineSpec, Provision, Study, Treatment

_CLIENT_MEMORY = 2**30
"""Bytes that a client may take: no study is about them, so it is as much as a load generator could ever need."""


CAN_SHARE_NETWORK = ("host",)
"""Kinds of machines on the lab's switch that can have their site's own network instead."""


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


def share(asked: Asked, spec: MachineSpec, available: list[int], layout: Layout, elsewhere: list[int] | None) -> Share:
    """Who gets which of a site's CPUs; `elsewhere` has the CPUs of the clients' site where that is another."""
    shared = sharing.share(
        available,
        spec.vcpus,
        number_of_servers(asked),
        spec.cpus,
        asked.clients.cpus,
        layout,
        kept_free=kernel.keeps_cpus(spec),
    )
    return shared if elsewhere is None else Share(shared.servers, asked.clients.cpus or cpu_lists.show(elsewhere))


def share_without_servers(asked: Asked, available: list[int]) -> Share:
    """The same where the servers are on none of our hosts: the clients' site is theirs alone."""
    return Share(("",) * number_of_servers(asked), asked.clients.cpus or cpu_lists.show(available))


def number_of_servers(asked: Asked) -> int:
    return asked.clients.count if asked.clients.connect == "pairs" else 1


def mtu(study: Study) -> int:
    """What packets the machines of a study send: alike in all its treatments, so that only the factors differ."""
    placed = {table: {getattr(study, table).host} for table in ("machine", "clients")}
    for name, factor in study.factors.items():
        its = aim(name, study, plugins.names("treatments"))
        if its.kind in placed and its.key == "host":
            placed[its.kind] = set(factor.levels)
    return network.MTU if len(placed["machine"] | placed["clients"]) == 1 else trunk.DATA_MTU


def client_provision(environment: EnvironmentSpec) -> Provision:
    """Clients are made anew where they can be: they are not what is under study."""
    can = plugins.load("environments", environment.kind).provisions
    return "boot" if "boot" in can else can[0]


def image_beside(spec: MachineSpec) -> str:
    """What whatever else takes part is made of: the servers' image, but for one of the user's own."""
    return MachineSpec().image if spec.brings_image else spec.image


def client(spec: MachineSpec, shared: Share) -> MachineSpec:
    """A client beside machines under test of this spec: of the same image, on the CPUs that they leave."""
    return MachineSpec(image=image_beside(spec), vcpus=len(cpu_lists.parse(shared.clients)), memory=_CLIENT_MEMORY)
