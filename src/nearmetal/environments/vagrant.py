"""The machine of a Vagrantfile, whatever makes it: brought up for each boot, or used as it runs.

Options in [environments.NAME]:
`folder`        where the Vagrantfile is
`machine`       which of its machines, where it has several
`provisioners`  false: what would be installed in a new machine is not
`data`          the address on it that is measured, where that is not the one that SSH reaches

With "boot", the machine must not be there yet: each boot of the study is a `vagrant up` and a `vagrant destroy`. With
"reuse" and "restart" it is there already, and stays as it was found: one that runs goes on, one that was off is
halted again. What was brought up is in the ledger before, with its identity, so that no other machine is removed.

Inside, it is used as a machine of kind `ssh` is. One logs in as root; a machine that was made for us is told to let
root in by its user's key. The host key that it shows first is the only one that is accepted from then on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, IPvAnyAddress, StrictBool

from nearmetal.errors import HostCannot, NotProvisioned, ToolFailed
from nearmetal.lab.behind_ssh import BehindSsh, GuestBehindSsh, permitted
from nearmetal.lab.findings import finding, programs
from nearmetal.lab.vagrant import login, project
from nearmetal.lab.vagrant.output import Known
from nearmetal.lab.vagrant.project import Project
from nearmetal.model import (
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


class Options(Frozen):
    folder: Annotated[str, Field(min_length=1)] = "."
    machine: str | None = None
    provisioners: StrictBool = True
    data: IPvAnyAddress | None = None

    @property
    def whole_folder(self) -> str:
        return str(Path(self.folder).expanduser().absolute())


class VagrantEnvironment:
    kind: ClassVar[str] = "vagrant"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "reuse")
    on_switch: ClassVar[bool] = False
    typical_ready: ClassVar[float] = 40.0

    def __init__(self) -> None:
        self._guests = BehindSsh()

    def is_elsewhere(self, options: Mapping[str, Any]) -> bool:
        return True

    # ── What is missing ──────────────────────────────────────────────────────────────────────────────────────────

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            finding(
                "Vagrant on this host",
                site.spec is None,
                "Vagrantfiles and the keys of their machines are used where nearmetal runs",
                "leave machine.host out",
            ),
            *await programs(site, {project.PROGRAM: "vagrant"}),
            _vagrantfile(options),
            *permitted(spec.provision, machine),
        ]
        if all(one.ok for one in found):
            found.append(await _usable(options, spec.provision or "boot", site))
        return found

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: boxes are Vagrant's to fetch."""

    # ── Create ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        options = Options.model_validate(dict(order.options))
        place = Project(options.whole_folder, site)
        try:
            name, known = chosen(await place.machines(), options)
            _ready_for(order.provision, name, known)
            handle = Handle(
                kind=self.kind,
                name=order.name,
                site=site.name,
                data={
                    "folder": place.folder,
                    "machine": name,
                    "provider": known.provider,
                    "found": known.state,
                    "identity": place.identity(name, known.provider),
                },
            )
            ledger.creating(handle)
            if known.state != _RUNS:
                handle = await _brought_up(handle, options, place, ledger)
            way = await _way(handle, options, place)
        except (HostCannot, ToolFailed) as error:
            raise NotProvisioned(error.what, order.name, error.remedy) from None
        return await self._guests.enter(handle, order, way, ledger)

    # ── Reach, remove ────────────────────────────────────────────────────────────────────────────────────────────

    async def attach(self, handle: Handle, site: Site) -> GuestBehindSsh:
        return await self._guests.attach(GuestBehindSsh, handle, site)

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Only what we brought up: not a machine that somebody made since under the same name."""
        place, name = Project(handle.data["folder"], site), handle.data["machine"]
        there = place.identity(name, handle.data["provider"])
        is_the_same = there is not None and there == (handle.data["identity"] or there)
        if is_the_same and handle.data["found"] == _RUNS:
            await self._left(handle, place)
        await self._guests.let_go(handle)
        if is_the_same and handle.data["found"] == _NEW:
            await place.destroy(name)
        elif is_the_same and handle.data["found"] in _OFF:
            await place.halt(name)

    async def _left(self, handle: Handle, place: Project) -> None:
        """One that was switched off meanwhile has nothing of ours any more."""
        known = (await place.machines()).get(handle.data["machine"])
        if known and known.state == _RUNS:
            await self._guests.leave(handle)


# ── The parts of create and check ────────────────────────────────────────────────────────────────────────────────


async def _brought_up(handle: Handle, options: Options, place: Project, ledger: Recorder) -> Handle:
    await place.up(handle.data["machine"], options.provisioners)
    identity = place.identity(handle.data["machine"], handle.data["provider"])
    known = handle.model_copy(update={"data": {**handle.data, "identity": identity}})
    ledger.creating(known)
    return known


async def _way(handle: Handle, options: Options, place: Project) -> HostSpec:
    found = await place.login(handle.data["machine"])
    refused = login.problem(found, options.data)
    if refused:
        raise refused
    return await login.way(found, options.data)


async def _usable(options: Options, provision: Provision, site: Site) -> Finding:
    what = f"a machine of {options.whole_folder}"
    place = Project(options.whole_folder, site)
    try:
        name, known = chosen(await place.machines(), options)
        _ready_for(provision, name, known)
        if known.state == _RUNS:
            found = await place.login(name)
            refused = login.problem(found, options.data)
            if refused:
                raise refused
    except (HostCannot, ToolFailed) as error:
        return Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)
    return Finding(what=what, ok=True, detail=f"{name} ({known.provider}): {known.state}")


# ── Which machine, and whether it can be had so ───────────────────────────────────────────────────────────────────


def chosen(machines: Mapping[str, Known], options: Options) -> tuple[str, Known]:
    """The machine that is meant, by its name. HostCannot where that is none, or several."""
    names = ", ".join(machines)
    if options.machine is None and len(machines) != 1:
        raise HostCannot(f"the Vagrantfile has {len(machines)} machines: {names}", remedy='name one: machine = "…"')
    name = options.machine or next(iter(machines))
    if name not in machines:
        raise HostCannot(f"the Vagrantfile has no machine {name!r}", remedy=f"name one of: {names}")
    return name, machines[name]


def _ready_for(provision: Provision, name: str, known: Known) -> None:
    """HostCannot when a machine in this state cannot be provisioned so."""
    if known.state not in (_NEW, _RUNS, *_OFF):
        raise HostCannot(f"{name} is {known.state}", remedy=f"bring it up, or destroy it: vagrant up {name}")
    if provision == "boot" and known.state != _NEW:
        raise HostCannot(
            f"{name} is there already ({known.state}), and each boot is to be a new machine",
            remedy=f'set provision = "reuse" to measure it as it is, or: vagrant destroy {name}',
        )
    if provision != "boot" and known.state == _NEW:
        raise HostCannot(
            f"{name} is not there, so it cannot be used again",
            remedy=f'bring it up (vagrant up {name}), or set provision = "boot": each boot is then a new machine',
        )


def _vagrantfile(options: Options) -> Finding:
    """Vagrant itself would look in the folders above too."""
    folder = Path(options.whole_folder)
    return finding(
        f"a Vagrantfile in {folder}",
        any((folder / name).is_file() for name in ("Vagrantfile", "vagrantfile")),
        "there is none",
        "name the folder where it is: folder = …",
    )


plugin = VagrantEnvironment()
