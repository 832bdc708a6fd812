"""A virtual machine of vSphere's, on a vCenter or a host of ESXi: found by its name, or cloned for each boot.

docs/environments.md has its options, and what is done with it by which `provision`; docs/adr/machines-on-loan.md says
how it gets back what it had. In the guest it goes on as with machines of kind `ssh`.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar

from pydantic import Field, IPvAnyAddress, StrictBool, field_validator, model_validator

from nearmetal.errors import HostCannot, NearmetalError, NotProvisioned
from nearmetal.lab.borrowed.ssh_guests import BehindSsh, GuestBehindSsh, check_inside, check_permitted
from nearmetal.lab.host_checks import check_provided, finding
from nearmetal.lab.ssh import login as ssh_login
from nearmetal.lab.vmware import borrowing
from nearmetal.lab.vmware import vmware_machine as machines
from nearmetal.lab.vmware.account import Account
from nearmetal.lab.vmware.vmware_machine import AS_FOUND, BorrowingRecord, VsphereMachine
from nearmetal.lab.vmware.vsphere import CARD, CLONE, CONFIGURE, POWER, Vsphere
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    HostSpec,
    LoginName,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
    SshTarget,
)
from nearmetal.optional_dependencies import describe_install

_SERVER = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9_.-]*)(:[0-9]{1,5})?")
_VARIABLE = re.compile(r"NEARMETAL_VMWARE_[A-Za-z0-9_]+")
"""No other: a study names the server too, which is shown what is in it."""
_THUMBPRINT = re.compile(r"([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}")


class Options(Frozen):
    server: Annotated[str, Field(max_length=300)]
    user: Annotated[str, Field(min_length=1)]
    password_env: str = "NEARMETAL_VMWARE_PASSWORD"
    ca_file: str | None = None
    thumbprint: str | None = None
    insecure: StrictBool = False
    vm: Annotated[str, Field(min_length=1)] | None = None
    template: Annotated[str, Field(min_length=1)] | None = None
    login: LoginName = "root"
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    address: IPvAnyAddress | None = None
    data: IPvAnyAddress | None = None
    key: str | None = None
    host_key: str | None = None
    jump: SshTarget | None = None

    @field_validator("server")
    @classmethod
    def _check_server(cls, server: str) -> str:
        if not _SERVER.fullmatch(server):
            raise ValueError(f'{server!r} is no server; write it as "vcenter.example.org", or with ":8443"')
        return server

    @field_validator("password_env")
    @classmethod
    def _password_env(cls, name: str) -> str:
        if not _VARIABLE.fullmatch(name):
            # Not with the value, which may be the password itself.
            raise ValueError(
                "names no environment variable that begins with NEARMETAL_VMWARE_; the password is in that variable, "
                "not in this file"
            )
        return name

    @field_validator("thumbprint")
    @classmethod
    def _check_thumbprint(cls, thumbprint: str | None) -> str | None:
        if thumbprint is not None and not _THUMBPRINT.fullmatch(thumbprint):
            raise ValueError(f"{thumbprint!r} is no SHA-256 of a certificate: 64 hexadecimal digits, or with colons")
        return thumbprint

    @model_validator(mode="after")
    def _check_choice(self) -> "Options":
        if (self.vm is None) == (self.template is None):
            raise ValueError('it takes either vm = "NAME", or template = "NAME"')
        if sum((self.ca_file is not None, self.thumbprint is not None, self.insecure)) > 1:
            raise ValueError("it takes only one of ca_file, thumbprint and insecure")
        return self

    @property
    def account(self) -> Account:
        return Account(self.server, self.user, self.password_env, self.ca_file, self.thumbprint, self.insecure)

    @property
    def source(self) -> str:
        return self.vm or self.template or ""

    def make_way(self, address: str) -> HostSpec:
        host = f"[{address}]" if ":" in address else address
        ssh = f"{self.login}@{host}:{self.port}"
        return HostSpec(ssh=ssh, trunk=self.data, key=self.key, host_key=self.host_key, jump=self.jump)


class BorrowedState(Frozen):
    """What a handle says of a machine of vSphere's besides how one logs in."""

    options: Options
    reference: str
    """Of the machine, or of the template while there is no clone yet."""
    uuid: str
    clone: str = ""
    """The name of the clone that is made; "" for a machine of the user's."""
    loan: BorrowingRecord | None = None
    """None for a machine that is used as it is."""

    def mark_started(self, machine: VsphereMachine) -> "BorrowedState":
        """This state when `machine`, which may be a clone by now, is about to be started."""
        loan = self.loan.model_copy(update={"started": True}) if self.loan else None
        return self.model_copy(update={"reference": machine.reference, "uuid": machine.uuid, "loan": loan})


class VmwareEnvironment:
    kind: ClassVar[str] = "vmware"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "reuse")
    typical_ready: ClassVar[float] = 60.0

    def __init__(self) -> None:
        self._guests = BehindSsh()
        self._apis: dict[Account, Vsphere] = {}

    def _open_api(self, account: Account) -> Vsphere:
        _require_pyvmomi()
        if account not in self._apis:
            self._apis[account] = Vsphere(account)
        return self._apis[account]

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(
            family="guest",
            kernel="own",
            placement="elsewhere",
            is_one=Options.model_validate(dict(options)).template is None,
            ignores=tuple(sorted({*VIRTUAL_HARDWARE, "network"} - {"nic"})),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        provision = spec.provision or self.provisions[0]
        found = [
            check_provided("pyVmomi", _require_pyvmomi),
            finding("this host", site.spec is None, "vSphere is spoken to from here", "leave machine.host out"),
            check_provided("a password", options.account.password),
            check_provided(
                "a way to log in", lambda: ssh_login.refuse_unusable(options.make_way("192.0.2.1"), "the guest")
            ),
            *machines.check_wishes(machine),
            # One that is started for the study is ours to boot again.
            *check_permitted("restart" if provision == "boot" else provision, machine),
        ]
        if all(one.ok for one in found):
            found += await _check_machine(self._open_api(options.account), options, machine, provision)
        return found

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing so far: vSphere is not asked."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing is prepared; but that no certificate is asked for is told."""
        options = Options.model_validate(dict(spec.options))
        if options.insecure:
            site.say(f"warning: {options.server} may be anybody: its certificate is not checked (insecure)")

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        options = Options.model_validate(dict(order.options))
        api = self._open_api(options.account)

        def note_handle(borrowed: BorrowedState) -> Handle:
            handle = Handle(
                kind=self.kind,
                name=order.name,
                site=site.name,
                role=order.role,
                stays=options.template is None,
                data={"vmware": borrowed.model_dump(mode="json")},
            )
            ledger.creating(handle)
            return handle

        try:
            seen = await borrowing.find_machine(api, options.source)
            is_cloned, has_address = options.template is not None, options.address is not None
            for one in machines.list_objections(seen, order.spec, order.provision, is_cloned, has_address):
                if not one.ok:  # it has come to be since the check before the run
                    raise HostCannot(one.detail, one.what, one.remedy)
            borrowed = _make_borrowed(seen, order, options)
            handle = note_handle(borrowed)
            if (loan := borrowed.loan) is not None:
                if borrowed.clone:
                    seen = await borrowing.make_clone(api, seen, borrowed.clone, loan)
                else:
                    seen = await borrowing.borrow_machine(api, seen, loan)
                await api.configure(seen, machines.find_change(seen.hardware, loan.given, loan.mark))
                handle = note_handle(borrowed.mark_started(seen))
                await borrowing.start_borrowed(api, seen, loan)
            address = str(options.address) if options.address else await borrowing.wait_address(api, seen)
        except HostCannot as error:
            raise NotProvisioned(error.what, error.where or order.name, error.remedy) from None
        return await self._guests.enter(handle, order, options.make_way(address), ledger)

    async def attach(self, handle: Handle, site: Site) -> GuestBehindSsh:
        return await self._guests.attach(GuestBehindSsh, handle, site)

    async def open_door(self, handle: Handle) -> Door | None:
        return None

    async def destroy(self, handle: Handle, site: Site) -> None:
        borrowed = BorrowedState.model_validate(handle.data["vmware"])
        api = self._open_api(borrowed.options.account)
        now = await _find_again(api, borrowed)
        if now is not None and borrowed.loan is None and now.power == "on":
            await self._guests.leave(handle)
        await self._guests.let_go(handle)
        if now is not None and borrowed.clone:
            await borrowing.remove_clone(api, now)
        elif now is not None and borrowed.loan is not None:
            await borrowing.give_machine_back(api, now, borrowed.loan, lambda: self._guests.try_to_leave(handle))


async def _check_machine(api: Vsphere, options: Options, spec: MachineSpec, provision: Provision) -> list[Finding]:
    """What speaks against the machine itself, and against what we may do with it."""
    try:
        can_clone = options.template is None or await api.can_clone()
        seen = await borrowing.find_machine(api, options.source)
        denied = await api.denied(seen.reference, _list_needed(options, spec, seen, provision))
    except NearmetalError as error:
        return [Finding(what=f"vSphere at {options.server}", ok=False, detail=error.what, remedy=error.remedy)]
    is_esxi = f"{options.server} is a host of ESXi, and only a vCenter clones"
    found = [
        finding("clones", can_clone, is_esxi, 'name a vm = "…"'),
        *machines.list_objections(seen, spec, provision, options.template is not None, options.address is not None),
        finding(
            f"privileges of {options.user} on {seen.name!r}",
            not denied,
            f"these are lacking: {', '.join(denied)}",
            "have them added to a role of the user's",
        ),
    ]
    address = str(options.address) if options.address else machines.choose_address(seen.addresses)
    if seen.power == "on" and address is not None and all(one.ok for one in found):
        found += await check_inside(options.make_way(address), spec)
    return found


def _require_pyvmomi() -> None:
    """HostCannot when pyVmomi is not installed, as not everybody needs it, or is broken."""
    if find_spec("pyVmomi") is None:
        raise HostCannot("it is not installed", "pyVmomi", describe_install("pyvmomi"))
    try:
        import_module("pyVmomi")
        import_module("pyVim.connect")
    except Exception as error:  # a damaged or half-installed package may raise anything
        what = f"it is installed and cannot be imported ({type(error).__name__}: {error})"
        raise HostCannot(what, "pyVmomi", describe_install("--force-reinstall", "pyvmomi")) from None


def _make_borrowed(seen: VsphereMachine, order: Order, options: Options) -> BorrowedState:
    """What is about to become of a machine; one that already is as the study asks is only used. Pure, but the mark."""
    given = machines.choose_hardware(order.spec, seen.hardware)
    loan = BorrowingRecord(
        found=seen.hardware, given=given, was_on=seen.power == "on", mark=borrowing.describe_borrower(order.name)
    )
    is_used = options.template is None and order.provision != "boot" and seen.hardware == given
    return BorrowedState(
        options=options,
        reference=seen.reference,
        uuid=seen.uuid,
        clone=order.name if options.template is not None else "",
        loan=None if is_used else loan,
    )


def _list_needed(options: Options, spec: MachineSpec, seen: VsphereMachine, provision: Provision) -> tuple[str, ...]:
    """The privileges that what is done to a machine takes."""
    card = CARD if spec.nic not in (AS_FOUND, seen.hardware.nic) else ()
    if options.template is not None:
        return (*CLONE, *CONFIGURE, *card, *POWER)
    return () if provision == "reuse" else (*CONFIGURE, *card, *POWER)


async def _find_again(api: Vsphere, borrowed: BorrowedState) -> VsphereMachine | None:
    """The machine that was borrowed, or the clone, however far it came. None when it is no more."""
    await api.settled(borrowed.reference)
    if not borrowed.clone:
        seen = await api.seen(borrowed.reference)
        return seen if seen is not None and seen.uuid == borrowed.uuid else None
    # It was about to be made when it was first written down.
    named = [await api.seen(one) for one, name in (await api.names()).items() if name == borrowed.clone]
    return next((one for one in named if one is not None and _is_our_clone(one, borrowed)), None)


def _is_our_clone(seen: VsphereMachine, borrowed: BorrowedState) -> bool:
    """By its mark; until it has one, which vSphere gives it as soon as it is made, it does not run. Pure."""
    if not seen.mark:
        return seen.power == "off"
    return borrowed.loan is not None and seen.mark == borrowed.loan.mark


plugin = VmwareEnvironment()
