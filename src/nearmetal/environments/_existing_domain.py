"""Domains that are somebody's, for `kind = "libvirt"` with `domain`: found by name, and reached by SSH.

Inside, one is used as a machine of kind `ssh` is. One that runs goes on running; one that is off is started, and shut
down when its boot of the study is over. docs/adr/libvirt-by-virsh.md has the reasons.
"""

import secrets

from nearmetal.errors import HostCannot, NotProvisioned
from nearmetal.lab.borrowed import ssh_guests as behind_ssh
from nearmetal.lab.borrowed.ssh_guests import BehindSsh, GuestBehindSsh
from nearmetal.lab.host_checks import check_programs, finding
from nearmetal.lab.libvirt import existing_domain, virsh
from nearmetal.lab.libvirt.existing_domain import Domain, DomainState
from nearmetal.lab.libvirt.options import Options
from nearmetal.lab.libvirt.virsh import Connection
from nearmetal.lab.ssh.login import refuse_unusable
from nearmetal.model import Cost, Description, EnvironmentSpec, Finding, Handle, MachineSpec, Order, Recorder, Site
from nearmetal.units import show_size

_NOBODY = "192.0.2.1"
"""An address for documentation (RFC 5737), in place of one that is not known yet."""


class ExistingDomains:
    def __init__(self) -> None:
        self._guests = BehindSsh()

    def describe(self) -> Description:
        return Description(family="guest", kernel="own", placement="elsewhere", is_one=True)

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            *await check_programs(site, {virsh.PROGRAM: "libvirt-clients"}),
            *behind_ssh.check_permitted(spec.provision, machine),
        ]
        if all(one.ok for one in found):
            found += await _check_usable(options, spec, machine, site)
        return found

    async def prepare(self, machine: MachineSpec, site: Site) -> None:
        """Nothing: it is there."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        options = Options.model_validate(dict(order.options))
        connection = options.connect(site)
        try:
            found = await existing_domain.find(connection, str(options.domain))
            existing_domain.refuse_unready(found, order.provision)
            domain, mark = Domain(connection, found.uuid), "" if found.runs else secrets.token_hex()
            data = {
                "uri": connection.uri,
                "uuid": found.uuid,
                "domain": found.name,
                "runs": found.runs,
                "id": await domain.run_id(),
                "mark": mark,
                "options": options.model_dump(mode="json", exclude_unset=True),
            }
            handle = Handle(kind="libvirt", name=order.name, site=site.name, role=order.role, stays=True, data=data)
            ledger.creating(handle)
            if not found.runs:
                await domain.start(mark)
            address = await domain.addressed()
        except HostCannot as error:
            raise NotProvisioned(error.what, order.name, error.remedy) from None
        return await domain.while_it_runs(self._guests.enter(handle, order, options.way(str(address)), ledger))

    async def attach(self, handle: Handle, site: Site) -> "DomainGuest":
        return await self._guests.attach(DomainGuest, handle, site)

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Nothing is removed. The run that bears our mark is shut down, and no other."""
        domain = _find_domain(handle, site)
        if handle.data["runs"]:
            if handle.data["id"] == await domain.run_id():
                await self._guests.leave(handle)
        else:
            name, mark = handle.data["domain"], handle.data["mark"]
            await domain.shut_down(name, mark, lambda: self._power_off_inside(handle, domain))
        await self._guests.let_go(handle)
        if not handle.data["runs"] and "way" not in handle.data:
            await _refuse_unmarked(domain, handle)

    async def _power_off_inside(self, handle: Handle, domain: Domain) -> bool:
        """To power itself off, from inside: also one that was started, and not reached yet."""
        if "way" not in handle.data:
            address = await domain.address()
            if address is None:
                return False
            way = Options.model_validate(handle.data["options"]).way(str(address))
            handle = handle.knowing(data={"way": way.model_dump(mode="json")})
        return await self._guests.power_off(handle)


class DomainGuest(GuestBehindSsh):
    """A guest whose monitor libvirt knows."""

    def __init__(self, handle: Handle, *more: object) -> None:
        super().__init__(handle, *more)  # type: ignore[arg-type]
        self._domain = _find_domain(handle, self.site)

    async def cost(self) -> Cost | None:
        self.must_be_connected()
        cost = await self._domain.cost()
        if cost is None and not await self._domain.runs():
            raise self.lost()
        return cost


def _find_domain(handle: Handle, site: Site) -> Domain:
    return Domain(Connection(handle.data["uri"], site), handle.data["uuid"])


async def _refuse_unmarked(domain: Domain, handle: Handle) -> None:
    """HostCannot where it may be the run that we began and did not come to mark: nobody can tell, so it is not ours."""
    if await domain.runs() and await domain.state() == existing_domain.PAUSED and await domain.mark() is None:
        virsh_there = f"virsh --connect {handle.data['uri']}"
        raise HostCannot(
            f"{handle.data['domain']} is paused and unmarked: a start of ours may have been cut short there",
            handle.data["uri"],
            f"if you did not pause it, {virsh_there} destroy {domain.uuid}; else {virsh_there} resume {domain.uuid}",
        )


async def _check_usable(options: Options, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether there is such a domain, as large as is asked for; if so, and it runs, also what is seen inside."""
    what = f"the domain {options.domain}"
    connection = options.connect(site)
    try:
        refuse_unusable(options.way(_NOBODY), what)
        found = await existing_domain.find(connection, str(options.domain))
        existing_domain.refuse_unready(found, spec.provision or "boot")
        fits = [Finding(what=what, ok=True, detail=found.state), *_large_enough(found, machine)]
        if not all(one.ok for one in fits):
            return fits
        if found.runs:
            address = await Domain(connection, found.uuid).address()
            if address is None:
                raise HostCannot("it runs, and nothing tells its address", remedy=existing_domain.NO_ADDRESS)
            return [*fits, *await behind_ssh.check_inside(options.way(str(address)), machine)]
        await Domain(connection, found.uuid).mark()
    except HostCannot as error:
        remedy = error.remedy or f"see: virsh --connect {connection.uri} list --all"
        return [Finding(what=what, ok=False, detail=error.what, remedy=remedy)]
    return fits


def _large_enough(found: DomainState, machine: MachineSpec) -> list[Finding]:
    return [
        finding(
            f"{machine.vcpus} CPUs in {found.name}",
            machine.vcpus <= found.vcpus,
            f"it has {found.vcpus}",
            f"set machine.vcpus to at most {found.vcpus}, or give it more",
        ),
        finding(
            f"{show_size(machine.memory)} of memory in {found.name}",
            machine.memory <= found.memory,
            f"it has {show_size(found.memory)}",
            "ask for less in machine.memory, or give it more",
        ),
    ]
