"""What this host can measure, found out by trying: a namespace is made, a guest booted, an engine asked."""

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import BadInput, NearmetalError, message_of
from nearmetal.lab import clean, container_privileges, image, probe, rootless
from nearmetal.lab.architecture import HERE
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.host_checks import check_program, check_provided, finding
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import LocalSite, read_host_facts, run_checked
from nearmetal.lab.site_registry import Sites
from nearmetal.model import Document, EnvironmentSpec, Finding, Frozen, MachineSpec, Site
from nearmetal.model.hypervisor import name_hypervisor
from nearmetal.shortened_list import shorten_list
from nearmetal.study.kernel_table import TABLE
from nearmetal.study.resolve import resolve_alone
from nearmetal.system import system_errors
from nearmetal.units import show_size

DISK_NEEDED = 4 * 2**30
"""The image in its three forms, a copy-on-write disk for a machine or two, and room for a run."""

_NAMED = 3
"""Of what was left behind, so much is told by name."""
_NAMESPACE_TOOLS = (("unshare", "util-linux"), ("ip", "iproute2"))
_BUILD = "nearmetal image build"
_BUILD_TOOLS = {"mmdebstrap": "mmdebstrap", "mkfs.ext4": "e2fsprogs", "qemu-img": "qemu-utils"}


class HostDiagnosis(Frozen):
    """A host of a lab: what it can, by the names of the columns that `doctor --lab` prints."""

    name: str
    ssh: str
    roles: tuple[str, ...]
    tags: tuple[str, ...]
    findings: tuple[Finding, ...]


class Diagnosis(Document):
    """`doctor.v1`."""

    schema_: Annotated[Literal["doctor.v1"], Field(alias="schema")] = "doctor.v1"
    able: bool
    """Whether nothing is wrong that keeps this host, or one of the lab's, from measuring."""
    findings: tuple[Finding, ...]
    hosts: tuple[HostDiagnosis, ...] = ()
    """Those of a lab, with `--lab`; `findings` are empty then."""

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> "Diagnosis":
        return cls(able=all(one.ok or not one.fatal for one in findings), findings=tuple(findings))


USUAL = ("host", "docker", "qemu")
"""What the study quickstart compares."""


async def examine(environments: Sequence[str] = ()) -> Diagnosis:
    """This host, in the order in which it matters, and these environments, or all. Leaves nothing behind.

    What an environment lacks keeps this host from measuring only if the environment is named. BadInput if there is none
    of a name.
    """
    _refuse_unknown(environments)
    return Diagnosis.of(await _findings(environments))


async def find_packages(environments: Sequence[str]) -> list[str]:
    """Debian's names of the packages that these environments, and building the lab image, need and this host lacks.

    Nothing is made. BadInput if there is no environment of a name.
    """
    _refuse_unknown(environments)
    site = LocalSite()
    findings = [] if _built_image() else [check_program(name, package) for name, package in _BUILD_TOOLS.items()]
    findings += [check_program(name, package) for name, package in _NAMESPACE_TOOLS]
    for name in environments:
        environment = plugins.load("environments", name)
        if not any(field.is_required() for field in environment.Options.model_fields.values()):
            findings += await environment.check(EnvironmentSpec(kind=name), MachineSpec(), site)
    return sorted({package for one in findings if not one.ok for package in one.packages})


def _refuse_unknown(environments: Sequence[str]) -> None:
    known = plugins.list_names("environments")
    if unknown := [name for name in environments if name not in known]:
        raise BadInput(f"there is no environment {unknown[0]!r}", remedy=f"one of: {', '.join(known)}")


def _built_image() -> Image | None:
    return next((one for one in image.ls(Paths.default().cache) if one.name == "lab"), None)


async def _findings(asked: Sequence[str]) -> list[Finding]:
    site = LocalSite()
    findings = [
        rootless.find_root(str(os.geteuid()), "machines cannot be made"),
        check_provided("probe", probe.path),
        await _namespaces(site),
        _space(),
        _leftovers(),
        *await _what_the_host_is(),
        _captures(),
        *_plugins_of_others(),
    ]
    lab = _built_image()
    if lab is None:
        findings += [check_program(name, package) for name, package in _BUILD_TOOLS.items()]
        missing = finding("lab image", False, "not built yet; without it no machine can be tried", _BUILD)
        findings.append(missing.model_copy(update={"fatal": False}))
    of_environments = await _environments(site, asked, is_built=lab is not None)
    accelerators = await _accelerators(lab) if lab and (not asked or "qemu" in asked) else []
    if asked:
        of_environments = list(map(_make_fatal, of_environments))
        if not any(one.ok for one in accelerators):
            accelerators = list(map(_make_fatal, accelerators))
    return findings + of_environments + accelerators


def _make_fatal(one: Finding) -> Finding:
    """As of an environment that was asked for by name."""
    return one.model_copy(update={"fatal": True})


async def _tried(what: str, attempt: Callable[[], Awaitable[Any]], remedy: str, *, fatal: bool = True) -> Finding:
    try:
        await attempt()
    except NearmetalError as error:
        found = _failed(what, error, fatal=fatal)
        return found if found.remedy else found.model_copy(update={"remedy": remedy})
    except OSError as error:
        found = _refused(what, error, fatal=fatal)
        # What a name would mend is not in what was tried.
        return found if error.errno in system_errors.FULL else found.model_copy(update={"remedy": remedy})
    return Finding(what=what, ok=True)


def _failed(what: str, error: NearmetalError, *, fatal: bool = False) -> Finding:
    detail = f"{error.where}: {error.what}" if error.where else error.what
    return Finding(what=what, ok=False, detail=detail, remedy=error.remedy, fatal=fatal)


def _refused(what: str, error: OSError, *, fatal: bool = True) -> Finding:
    """What the system did not let us look at, or try."""
    detail = f"{error.filename}: " if error.filename else ""
    detail += error.strerror or str(error)
    remedy = system_errors.find_remedy(error, otherwise="see what it says")
    return Finding(what=what, ok=False, detail=detail, remedy=remedy, fatal=fatal)


async def _namespaces(site: Site) -> Finding:
    what = "network namespace"
    for name, package in _NAMESPACE_TOOLS:
        found = check_program(name, package)
        if not found.ok:
            return found.model_copy(update={"what": f"{what}: {name}"})
    has_none = "this kernel, or this container, has none"
    attempt = partial(run_checked, site, "unshare", "--net", "ip", "link", "show", "dev", "lo")
    return await _tried(what, attempt, "run nearmetal as root" if os.geteuid() else has_none)


def _space() -> Finding:
    cache = Paths.default().cache
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        missing = OSError(error.errno, why, str(cache))  # what is to be there, by which the remedy is found
        remedy = system_errors.find_remedy(missing, otherwise="name a place that can be written to")
        return Finding(what="disk space", ok=False, detail=f"{cache} cannot be made: {why}", remedy=remedy)
    free = shutil.disk_usage(there).free
    detail, remedy = f"{show_size(free)} free below {there}", f"free {show_size(DISK_NEEDED)}"
    return Finding(what="disk space", ok=free >= DISK_NEEDED, detail=detail, remedy=remedy)


def _leftovers() -> Finding:
    """Nothing that keeps from measuring, a run puts it right before it begins; unless nobody can look."""
    try:
        left = clean.left_behind()
    except OSError as error:
        return _refused("leftovers", error)
    detail = f"a nearmetal that died left {len(left)}: {shorten_list(left, _NAMED)}" if left else "none"
    return Finding(what="leftovers", ok=not left, fatal=False, detail=detail, remedy="nearmetal clean")


async def _what_the_host_is() -> list[Finding]:
    """Worth knowing before one writes "bare metal"."""
    try:
        facts = await read_host_facts()
    except NearmetalError as error:
        return [Finding(what="facts of this host", ok=False, detail=error.what, remedy=error.remedy)]
    hypervisor = name_hypervisor(facts)
    detail = "" if hypervisor is None else f"`host` is itself a virtual machine ({hypervisor})"
    remedy = "say so where you publish; its own neighbours and clock are part of every figure"
    bare = Finding(what="bare metal", ok=hypervisor is None, fatal=False, detail=detail, remedy=remedy)
    return [*_container(facts), bare, compare_with_table(facts["sysctls"])]


def _container(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What keeps from measuring is found by those who try it."""
    if "container" in facts:
        lacks = facts["container"]["lacks"]
        listed = "; ".join(f"{container_privileges.FLAGS[flag]} ({flag})" for flag in lacks)
        detail = f"nearmetal runs in one, {f'without {listed}' if lacks else 'which keeps nothing of the host from it'}"
        remedy = f"docker run {' '.join(container_privileges.FLAGS)}"
        yield Finding(what="container", ok=not lacks, fatal=False, detail=detail, remedy=remedy)


def compare_with_table(sysctls: Mapping[str, str]) -> Finding:
    """What of this host's network settings is not as in the table that kernels are aligned to. Pure."""
    other = [one for one in TABLE.values if sysctls.get(one.name, one.value) != one.value]
    detail = ", ".join(f"{one.name} = {sysctls[one.name]} (table: {one.value})" for one in other) or "as in the table"
    whole = " ".join(f"{one.name}='{one.value}'" for one in other if one.scope == "kernel")
    remedy = "runs set these in namespaces of their own ([kernel] align)"
    if whole:
        remedy += f"; what belongs to the whole kernel only you can set: sysctl -w {whole}"
    return Finding(what="network settings", ok=not other, fatal=False, detail=detail, remedy=remedy)


def _captures() -> Finding:
    """Only studies that ask for captures need it."""
    found = check_program("tcpdump", "tcpdump")
    detail = "" if found.ok else f"{found.detail}; studies that capture packets of their servers cannot run"
    return found.model_copy(update={"what": "captures: tcpdump", "fatal": False, "detail": detail})


async def _environments(site: Site, asked: Sequence[str] = (), is_built: bool = True) -> list[Finding]:
    """Each environment of this host: what it lacks, or that a machine of it, of the lab image, was made and ran a
    command."""
    findings: list[Finding] = []
    try:
        names = asked or plugins.list_names("environments")
    except NearmetalError:
        return []  # told with what others' packages bring
    for name in names:
        what = f"environment {name}"
        try:
            findings += await _environment(name, site, is_built)
        except NearmetalError as error:
            findings.append(Finding(what=what, ok=False, detail=error.what, remedy=error.remedy, fatal=False))
        except Exception as error:  # it may be anybody's, and raise anything
            findings.append(Finding(what=what, ok=False, detail=message_of(error), fatal=False))
    return findings


def _plugins_of_others() -> Iterator[Finding]:
    """What somebody else's packages bring and cannot be used. Environments are told by themselves, unless none can be:
    where a name is provided twice, nothing of its group is found."""
    for group in get_args(plugins.Group):
        try:
            names = plugins.list_names(group)
        except NearmetalError as error:
            yield Finding(what=group, ok=False, detail=error.what, remedy=error.remedy)
            continue
        for name in names:
            if group == "environments" or plugins.package_of(group, name) is None:
                continue
            try:
                plugins.load(group, name)
            except NearmetalError as error:
                what = f"{group.removesuffix('s')} {name}"
                yield Finding(what=what, ok=False, detail=error.what, remedy=error.remedy, fatal=False)


async def _environment(name: str, site: Site, is_built: bool) -> list[Finding]:
    environment = plugins.load("environments", name)
    if asked := [key for key, field in environment.Options.model_fields.items() if field.is_required()]:
        keys = " and ".join(f"`{key}`" for key in asked)
        return [_not_tried(name, f"a study says where its machines are, by {keys} in [environments.NAME]")]
    found = await environment.check(EnvironmentSpec(kind=name), MachineSpec(), site)
    lacking = [one for one in found if not one.ok and one.fatal]
    # The Vagrantfile of a study is seldom in the folder where one happens to be.
    of_host = [one for one in lacking if name != "vagrant" or not one.what.startswith("a Vagrantfile")]
    if of_host:
        return [one.model_copy(update={"what": f"environment {name}: {one.what}", "fatal": False}) for one in of_host]
    if lacking:
        return [_not_tried(name, "a study says where its machines are, by `vagrantfile` in [environments.NAME]")]
    if name == "qemu":
        return [Finding(what="environment qemu", ok=True, detail="guests are tried by accelerator, below")]
    if not is_built:
        return [_not_tried(name, "what it needs is there, but for the lab image")]
    if not environment.describe({}, MachineSpec()).is_on_switch:
        return [_not_tried(name, "what it needs is there")]
    what = f"environment {name}: a machine that runs a command"
    return [await _tried(what, partial(_machine, name, site), "see what it says", fatal=False)]


def _not_tried(name: str, why: str) -> Finding:
    """Of an environment whose machines are not ours to make."""
    return Finding(what=f"environment {name}", ok=True, detail=f"not tried: {why}")


async def _machine(kind: str, site: Site) -> None:
    """Make a machine, run a command in it, and remove it."""
    token = new_token()
    with held(ledgers_folder() / f"{token}.jsonl") as ledger:
        lab = Lab(token, ledger, Sites({}))
        try:
            machine = MachineSpec()
            made = resolve_alone(EnvironmentSpec(kind=kind), machine)
            handle = await lab.create(made, machine, "server", "", site)
            await run_checked(await lab.attach(handle), "true")
        finally:
            await lab.close()


async def _accelerators(lab: Image) -> list[Finding]:
    """Boot a guest on each: a device that opens proves nothing."""
    from nearmetal.lab.qemu import accelerator, arguments

    if not check_program(arguments.PROGRAM, HERE.qemu_package).ok:
        return []  # which is what the environment lacks
    findings: list[Finding] = []
    for accel in ("kvm", "tcg"):
        what = f"accelerator {accel}"
        if accel == "kvm" and not Path("/dev/kvm").exists():
            detail = "there is no /dev/kvm; guests are emulated by tcg"
            remedy = "enable virtualization in the firmware, or nested virtualization; modprobe kvm"
            findings.append(Finding(what=what, ok=False, fatal=False, detail=detail, remedy=remedy))
            continue
        try:
            proof = await accelerator.renew_proof(accel, lab, LocalSite())
        except NearmetalError as error:
            findings.append(_failed(what, error))
        except OSError as error:
            findings.append(_refused(what, error, fatal=False))
        else:
            instead = "" if proof.works or accel == "tcg" else "; guests are emulated by tcg instead"
            mend = rootless.find_kvm_remedy(proof.detail) or 'use accel = "tcg", or mend nested virtualization'
            remedy = "" if proof.works else mend
            told = Finding(what=what, ok=proof.works, fatal=False, detail=proof.detail + instead, remedy=remedy)
            findings.append(told)
    return findings
