"""The machine of a Vagrantfile, whatever makes it: brought up for each boot, or used as it runs.

docs/environments.md has its options, which state of it goes with which `provision`, and what of it is ours: no other
machine is removed, and no other boot is halted. Where that is not known, it is told and left.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, IPvAnyAddress, StrictBool, model_validator

from nearmetal.errors import BadInput, HostCannot, NotProvisioned, ToolFailed
from nearmetal.lab.borrowed.ssh_guests import BehindSsh, GuestBehindSsh, check_inside, check_permitted
from nearmetal.lab.host_checks import check_programs, finding
from nearmetal.lab.vagrant import login, project
from nearmetal.lab.vagrant.output import MachineStatus
from nearmetal.lab.vagrant.project import Project, VagrantError
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    HostSpec,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
)

_NEW = "not_created"
_RUNS = "running"
_OFF = ("poweroff", "shutoff", "aborted", "stopped", "not_running", "off")
"""What providers call a machine that is there and switched off."""

_NAMES = ("Vagrantfile", "vagrantfile")
"""What Vagrant looks for in a folder."""

_PACKAGES = "vagrant vagrant-libvirt"

_LOOK_AGAIN = 0.1
"""Seconds between two looks for the identity of a machine that comes up."""


class Options(Frozen):
    vagrantfile: Annotated[str, Field(min_length=1)] | None = None
    folder: Annotated[str, Field(min_length=1)] | None = None
    machine: Annotated[str, Field(min_length=1)] | None = None
    provisioners: StrictBool = True
    data: IPvAnyAddress | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.vagrantfile is not None and self.folder is not None:
            raise ValueError("it takes only one of vagrantfile and folder")
        return self

    @property
    def whole_folder(self) -> str:
        given = Path(self.vagrantfile or self.folder or ".").expanduser().absolute()
        is_file = self.vagrantfile is not None and given.name in _NAMES and not given.is_dir()
        return str(given.parent if is_file else given)


class VagrantEnvironment:
    kind: ClassVar[str] = "vagrant"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "reuse")
    typical_ready: ClassVar[float] = 40.0

    def __init__(self) -> None:
        self._guests = BehindSsh()
        self._started: set[str] = set()
        """By machine name: those that were off, and that this process brings up."""
        self._machines: dict[str, GuestBehindSsh] = {}
        """By machine name: those in use, which know of each boot that the study makes."""

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(
            family="guest",
            kernel="own",
            placement="elsewhere",
            is_one=True,  # a machine of a Vagrantfile is there once, whoever brings it up
            ignores=tuple(sorted({*VIRTUAL_HARDWARE, "network"})),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            finding(
                "Vagrant on this host",
                site.spec is None,
                "Vagrantfiles and the keys of their machines are used where nearmetal runs",
                "leave machine.host out",
            ),
            *await check_programs(site, {project.PROGRAM: _PACKAGES}),
            _check_vagrantfile(options),
            *check_permitted(spec.provision, machine),
        ]
        if all(one.ok for one in found):
            found += await _check_usable(options, spec.provision or "boot", machine, site)
        return found

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing so far: Vagrant and its provider are not asked."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: boxes are Vagrant's to fetch."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        options = Options.model_validate(dict(order.options))
        place = Project(options.whole_folder, site)
        try:
            name, known = choose_machine(await place.machines(), options)
            _ready_for(order.provision, name, known)
            there = place.identity(name, known.provider)
            stays, folder = known.state != _NEW, place.folder
            found = {"folder": folder, "machine": name, "provider": known.provider, "found": known.state}
            data = {**found, "identity": there if stays else None}
            handle = Handle(kind=self.kind, name=order.name, site=site.name, role=order.role, stays=stays, data=data)
            ledger.creating(handle)
            if known.state in _OFF:
                self._started.add(order.name)
            if known.state != _RUNS:
                handle = await _brought_up(handle, there, options, place, ledger)
            way = await _way(name, options, place)
            if known.state in _OFF:
                handle = handle.knowing(
                    data={"way": way.model_dump(mode="json"), "boot_id": await login.read_boot_id(way)}
                )
                ledger.creating(handle)
        except (HostCannot, ToolFailed) as error:
            raise NotProvisioned(error.what, order.name, error.remedy) from None
        return await self._guests.enter(handle, order, way, ledger)

    async def attach(self, handle: Handle, site: Site) -> GuestBehindSsh:
        machine = await self._guests.attach(GuestBehindSsh, handle, site)
        self._machines[handle.name] = machine
        return machine

    async def open_door(self, handle: Handle) -> Door | None:
        return None

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Only what we brought up: not a machine that somebody made since under the same name, nor a boot of theirs.

        HostCannot where that cannot be told apart.
        """
        place, name, found = Project(handle.data["folder"], site), handle.data["machine"], handle.data["found"]
        there, ours = place.identity(name, handle.data["provider"]), handle.data["identity"]
        is_the_same = there is not None and there == ours
        if is_the_same and found == _RUNS:
            known = (await place.machines(when_free=True)).get(name)
            if known and known.state == _RUNS:  # one that was switched off meanwhile has nothing of ours any more
                await self._guests.leave(handle)
        await self._guests.let_go(handle)
        if found == _NEW and is_the_same:
            await place.destroy(name)
        elif found == _NEW and (ours is None or (ours and there is None)):
            await _remove_unfinished(place, name, is_known=ours is not None)
        elif found in _OFF and is_the_same and await self._is_our_boot(handle, place):
            await self._guests.try_to_leave(handle)
            await place.halt(name)
        self._started.discard(handle.name)
        self._machines.pop(handle.name, None)

    async def _is_our_boot(self, handle: Handle, place: Project) -> bool:
        """Whether a machine that was off is in a boot of ours. HostCannot where that cannot be known."""
        name = handle.data["machine"]
        known = (await place.machines(when_free=True)).get(name)
        if known is None or known.state in (_NEW, *_OFF):
            return False
        machine = self._machines.get(handle.name)
        ours = machine.boot_id if machine else handle.data.get("boot_id")
        try:
            if ours is not None:
                return await login.read_boot_id(HostSpec.from_json(handle.data["way"])) == ours
            why = "its start was interrupted"
        except (HostCannot, BadInput) as error:
            why = error.what
        if handle.name in self._started:
            return True
        what = f"{name} is {known.state}, and whether it was booted for a study cannot be known: {why}"
        raise HostCannot(what, place.folder, f"if it was, halt it: {place.by_hand('halt', name)}")


async def _brought_up(handle: Handle, stale: str | None, options: Options, place: Project, ledger: Recorder) -> Handle:
    """The handle, and the ledger, with the machine's identity as soon as there is one: long before `up` is over.
    `stale` is what stood in its place before."""
    bringing = asyncio.create_task(place.up(handle.data["machine"], options.provisioners))
    known = handle
    try:
        while not (await asyncio.wait([bringing], timeout=_LOOK_AGAIN))[0]:
            known = _noted(known, stale, place, ledger)
    finally:
        bringing.cancel()
        await asyncio.wait([bringing])
        known = _noted(known, stale, place, ledger)
    refused = bringing.exception()
    if isinstance(refused, VagrantError) and refused.is_busy:
        # What has come to be there is the other Vagrant's.
        ledger.creating(handle.knowing(data={"identity": ""}))
    bringing.result()
    return known


def _noted(handle: Handle, stale: str | None, place: Project, ledger: Recorder) -> Handle:
    there = place.identity(handle.data["machine"], handle.data["provider"])
    if there in (None, stale, handle.data["identity"]):
        return handle
    known = handle.knowing(data={"identity": there})
    ledger.creating(known)
    return known


async def _remove_unfinished(place: Project, name: str, is_known: bool) -> None:
    """Remove what was made for a machine that is not there. `is_known`: the ledger has its identity. HostCannot where a
    machine has come to be and nothing says by whom."""
    known = (await place.machines(when_free=True)).get(name)
    if known is not None and known.state == _NEW:
        await place.discard(name)
    elif known is not None and not is_known:
        why = "whether it was made for a study cannot be known: its start was interrupted"
        remedy = f"if it is none of yours, remove it: {place.by_hand('destroy', name)}"
        raise HostCannot(f"{name} is there ({known.state}), and {why}", place.folder, remedy)


async def _way(machine: str, options: Options, place: Project) -> HostSpec:
    found = await place.login(machine)
    if refused := login.find_problem(found, options.data):
        raise refused
    return await login.find_way(found, options.data)


async def _check_usable(options: Options, provision: Provision, machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether there is such a machine, and of one that runs also what is seen inside."""
    what, inside = f"a machine of {options.whole_folder}", []
    place = Project(options.whole_folder, site)
    try:
        name, known = choose_machine(await place.machines(), options)
        _ready_for(provision, name, known)
        if known.state == _RUNS:
            inside = await check_inside(await _way(name, options, place), machine)
    except (HostCannot, ToolFailed) as error:
        return [Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)]
    return [Finding(what=what, ok=True, detail=f"{name} ({known.provider}): {known.state}"), *inside]


def choose_machine(machines: Mapping[str, MachineStatus], options: Options) -> tuple[str, MachineStatus]:
    """The machine that is meant, by its name. HostCannot where that is none, or several."""
    names = ", ".join(machines)
    if options.machine is None and len(machines) != 1:
        raise HostCannot(f"the Vagrantfile has {len(machines)} machines: {names}", remedy='name one: machine = "…"')
    name = options.machine or next(iter(machines))
    if name not in machines:
        raise HostCannot(f"the Vagrantfile has no machine {name!r}", remedy=f"name one of: {names}")
    return name, machines[name]


def _ready_for(provision: Provision, name: str, known: MachineStatus) -> None:
    """HostCannot when a machine in this state cannot be provisioned so."""
    if known.state not in (_NEW, _RUNS, *_OFF):
        raise HostCannot(f"{name} is {known.state}", remedy=f"bring it up, or destroy it: vagrant up {name}")
    if provision == "boot" and known.state != _NEW:
        what = f"{name} is there already ({known.state}), and each boot is to be a new machine"
        raise HostCannot(what, remedy=f'set provision = "reuse" to measure it as it is, or: vagrant destroy {name}')
    if provision != "boot" and known.state == _NEW:
        remedy = f'bring it up (vagrant up {name}), or set provision = "boot": each boot is then a new machine'
        raise HostCannot(f"{name} is not there, so it cannot be used again", remedy=remedy)


def _check_vagrantfile(options: Options) -> Finding:
    """Vagrant itself would look in the folders above too."""
    folder = Path(options.whole_folder)
    return finding(
        f"a Vagrantfile in {folder}",
        any((folder / name).is_file() for name in _NAMES),
        "that is a file, and of another name" if folder.is_file() else "there is none",
        'name it, or the folder where it is: vagrantfile = "…/Vagrantfile"',
    )


plugin = VagrantEnvironment()
