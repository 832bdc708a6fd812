"""Reading back what the machines of a boot are: for validity, the fairness diff, and what a machine's memory costs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nearmetal.errors import MALFORMED
from nearmetal.lab.changes import congestion
from nearmetal.lab.image.build import BINARIES
from nearmetal.lab.lab import Lab
from nearmetal.lab.machine_files import require_programs
from nearmetal.lab.machines import kernel
from nearmetal.lab.machines import share as shares
from nearmetal.lab.stage import LabStage
from nearmetal.model import Handle, Machine, MachineSpec, ProcessId, Readback, Response, Site, Warned
from nearmetal.run import verify
from nearmetal.run.blame import Invalid
from nearmetal.run.boot_state import BootTask, ProvisionedBoot
from nearmetal.run.events import BlockSink
from nearmetal.run.liveness import Liveness
from nearmetal.run.resource_readback import Allotment, PlacedMachine
from nearmetal.store.events import FactsSeen
from nearmetal.store.facts import sift_facts

_UPPER = "upperdir="
_IN_MEMORY = ("tmpfs", "ramfs")


async def inspect_machines(task: BootTask, booted: ProvisionedBoot, lab: Lab, stage: LabStage, sink: BlockSink) -> None:
    """Read back what the machines are, for validity, the fairness diff, and what a machine's memory costs."""
    for index, server in enumerate(stage.servers):
        facts = await _read_facts(server, booted)
        handle = booted.find_handle(server)
        if image := handle.image.name:
            if task.made_of not in (None, image):
                others = f"its treatment's earlier boots were of {task.made_of}"
                raise Invalid(f"it is made of {image}, and {others}: another system")
            facts["image"] = image
        if index == 0:
            if lies_on := await _find_disk(handle, facts, server.site):
                facts["disk"] = {"lies_on": lies_on}
            sink.emit(FactsSeen(treatment=task.boot.treatment, role="server", site=server.site.name, facts=facts))
            with _read(server):
                _note_family(booted, server, facts)
            await _memory_overhead(booted, server, facts)
        kept = _list_kept_cpus(stage, server.site.name)
        booted.note_readback("resources", await _verify_machine(server, booted.spec, facts, booted, kept))
        booted.note_readback("share", await shares.verify(server, booted.spec))
    of_clients = booted.asked.clients
    wanted = of_clients.machine
    # Clients of which the study says nothing are alike on a host: its first speaks for all.
    firsts = {client.site.name: client for client in reversed(stage.clients)}
    for client in stage.clients:
        is_first = client is firsts[client.site.name]
        if not wanted and not is_first:
            continue
        facts = await _read_facts(client, booted)
        if is_first:
            sink.emit(FactsSeen(treatment=task.boot.treatment, role="client", site=client.site.name, facts=facts))
        if wanted:
            if wanted.brings_image:
                await require_programs(client, wanted.image)
            given = len(stage.cpus[client.name])
            spec = wanted if of_clients.has_own_cpus else wanted.model_copy(update={"vcpus": given})
            booted.note_readback("clients", await _verify_machine(client, spec, facts, booted, frozenset()))
            booted.note_readback("clients' share", await shares.verify(client, spec))
    placed = [
        PlacedMachine(
            handle,
            await lab.site(handle.site),
            booted.cpusets.get(handle.name, ""),
            _list_kept_cpus(stage, handle.site),
        )
        for handle in booted.handles
    ]
    booted.liveness = await Liveness.start_watching(stage, booted.handles, placed)
    _note_places(booted, booted.liveness.given)


async def _verify_machine(
    machine: Machine, spec: MachineSpec, facts: Mapping[str, Any], booted: ProvisionedBoot, kept: frozenset[int]
) -> Readback:
    """What a machine has, against what it is to have; `kept` as for `verify.verify_resources`."""
    handle = booted.find_handle(machine)
    ram = verify.ram_of((await machine.exec(["cat", "/proc/iomem"])).text) if handle.hardware else None
    with _read(machine):
        return verify.verify_resources(spec, facts, handle, ram, kept)


def _note_family(booted: ProvisionedBoot, server: Machine, facts: Mapping[str, Any]) -> None:
    """What it says of itself, beside what its environment says: a name can be wrong."""
    description = booted.asked.environment.description
    booted.observed_family = observed = verify.observe_family(description, facts, kernel.is_its_hosts(server))
    if (
        None not in (observed, description.family)
        and description.family != "unknown"
        and observed != description.family
    ):
        text = f"the server is a {observed} by its own word, and a {description.family} by its environment's"
        booted.warnings.append(Warned(code="family-differs", text=text))


def _list_kept_cpus(stage: LabStage, site: str) -> frozenset[int]:
    """CPUs of a site that its machines keep for what is measured: those of a kernel of their own are no CPUs of it."""
    servers = [server for server in stage.servers if server.site.name == site and kernel.is_its_hosts(server)]
    return frozenset(cpu for server in servers if (cpu := stage.kept_cpu(server)) is not None)


def name_roles(handles: Sequence[Handle]) -> dict[str, str]:
    """ "server-0", "client-1", as observers call them, by the names of the machines, which each boot has anew."""
    named: dict[str, str] = {}
    met: Counter[str] = Counter()
    for handle in handles:
        role = handle.role or "machine"
        named[handle.name] = f"{role}-{met[role]}"
        met[role] += 1
    return named


def _note_places(booted: ProvisionedBoot, given: Allotment) -> None:
    found = {one.handle.name: where for one, where in zip(given.placed, given.where, strict=True) if where is not None}
    if found:
        roles = name_roles([one.handle for one in given.placed])
        booted.readback["cpus"] = {roles[name]: dict(readback.values) for name, readback in found.items()}
    for name, readback in found.items():
        if not readback.ok:
            raise Invalid(f"{name} is not where it was put: {readback.reason}")


async def _read_facts(machine: Machine, booted: ProvisionedBoot) -> dict[str, Any]:
    """What fits of them: a machine may tell anything."""
    # Of the programs under test: in the fairness diff their hashes show that they are the same everywhere.
    hashed = [word for path in BINARIES for word in ("--hash", path)]
    ended = await machine.exec([machine.probe, "facts", "--json", *hashed])
    if ended.status != 0:
        raise Invalid(f"the probe cannot tell its facts: {ended.complaint[-300:]}", machine.name)
    try:
        told = json.loads(ended.stdout)
    except (ValueError, RecursionError):
        told = None
    facts, problems = sift_facts(told)
    if machine.name in booted.kernels.routed:
        # The sysctl says what its connections do not have.
        facts["sysctls"][congestion.SYSCTL] = booted.kernels.held[machine.name][congestion.SYSCTL]
    if problems:
        text = f"what {machine.name} told of itself is left out where it is not as facts are: {', '.join(problems)}"
        booted.warnings.append(Warned(code="facts-malformed", text=text))
    return facts


@contextmanager
def _read(machine: Machine) -> Iterator[None]:
    """Invalid where facts are missing without which a machine cannot be verified."""
    try:
        yield
    except MALFORMED:
        raise Invalid("the probe's facts lack what it is verified by", machine.name) from None


async def _memory_overhead(booted: ProvisionedBoot, server: Machine, facts: dict[str, Any]) -> None:
    """What the host holds for a guest beyond what the guest itself uses. A machine that shares the host's kernel, or is
    pretended, has no guest and no such number."""
    cost = await server.cost()
    if cost is None or cost.memory_bytes is None:
        return
    if kernel.is_its_hosts(server) or booted.asked.environment.description.family == "pretended":
        return
    with _read(server):
        used = facts["memory"]["total_bytes"] - facts["memory"]["available_bytes"]
    beyond = cost.memory_bytes - used
    booted.responses["memory_overhead"] = Response(value=beyond, unit="B", better="lower", scale="difference")


async def _find_disk(handle: Handle, facts: Mapping[str, Any], site: Site) -> str | None:
    """What a machine's disk lies on: a file system and a device of its host ("ext4 on /dev/vda", "tmpfs"), whatever the
    machine itself takes it for. None where it cannot be known.

    An overlay is one to whoever looks from inside, whether its files are in memory or on a disk; and a guest sees the
    disk that it was given, not the file behind it. `facts` are the machine's of itself.
    """
    root = facts.get("filesystems", {}).get("/", {})
    if handle.hardware:
        folder = handle.hardware.disk.folder
    elif not isinstance(handle.life, ProcessId):
        return None
    elif root.get("type") != "overlay":
        return _describe_disk(str(root["type"]), str(root["source"])) if root else None
    else:
        upper = (one.removeprefix(_UPPER) for one in root.get("options", ()) if one.startswith(_UPPER))
        folder = next(upper, "")
    if not folder:
        return None
    found = await site.exec(["findmnt", "--noheadings", "--nofsroot", "--output", "FSTYPE,SOURCE", "--target", folder])
    words = found.text.split()
    return _describe_disk(*words) if found.status == 0 and len(words) == 2 else None


def _describe_disk(kind: str, source: str) -> str:
    return kind if kind in _IN_MEMORY else f"{kind} on {source}"
