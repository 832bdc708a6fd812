"""Which accelerators really run a guest here. A device that opens proves nothing: a guest of ours has to boot on it."""

import json
import os
import signal
import time
from pathlib import Path

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import MALFORMED, HostCannot, TimedOut
from nearmetal.lab.architecture import HERE
from nearmetal.lab.image import Image, newc, transfer
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.service import describe_end
from nearmetal.model import Frozen, Site
from nearmetal.system.files import replace_file

from . import least_privilege, process_privileges
from .arguments import MACHINE, MICROVM, PROGRAM, build_common, tell_clock

CANDIDATES = ("kvm", "tcg")
"""The best first."""
_LIMITS = {"tcg": LIMITS.boot}
_LIMIT_OF_TYPE = 3 * LIMITS.proof
"""Seconds that a guest has on another machine type where the default is known to boot one, emulated or not."""
_DOUBTED = 3600.0
"""Seconds for which a guest that did not boot in time is not tried again. The host may only have been busy."""
_TOLD_TO_END = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_MEMORY = 256 * 2**20
_TRIED = "proof-"
"""What is booted from is called so in the state folder, and by whose it is."""
# Once QEMU has the file open it needs no name, so that a killed controller leaves none on a host.
_BOOT = 'exec 9<"$1"; rm -f -- "$1"; shift; exec "$@"'
_WORD = "nearmetal: this guest has booted"
_INIT = f"""#!/bin/sh
/bin/busybox mount -t proc proc /proc
echo {_WORD}
echo o >/proc/sysrq-trigger
sleep 60
"""


class BootProof(Frozen):
    """What came of booting a guest on an accelerator."""

    accel: str
    works: bool
    detail: str
    until: float | None = None
    """Seconds since the epoch to which it is believed; None: for as long as its circumstances are the same."""


async def choose_best(image: Image, site: Site, program: str = PROGRAM) -> BootProof:
    """The best accelerator that is seen to boot a guest. HostCannot, with what was tried, when none does."""
    tried = []
    for accel in CANDIDATES:
        proof = await find_proof(accel, image, site, program=program)
        if proof.works:
            return proof
        tried.append(f"{accel}: {proof.detail}")
    raise HostCannot(f"no accelerator boots a guest ({'; '.join(tried)})", remedy="see: nearmetal doctor")


async def find_proof(accel: str, image: Image, site: Site, machine: str = MACHINE, program: str = PROGRAM) -> BootProof:
    """As found out earlier since the site booted, or within the last hour if a guest only was late; else tried now."""
    known = _read(_file(site), await _circumstances(image, site))
    name = await _name(accel, machine, program, site)
    if (found := known.get(name)) and (found.until is None or time.time() < found.until):
        return found
    return await renew_proof(accel, image, site, machine, program)


async def renew_proof(
    accel: str, image: Image, site: Site, machine: str = MACHINE, program: str = PROGRAM
) -> BootProof:
    """Tried now, and remembered instead of what was found out earlier."""
    limit = _LIMITS.get(accel, LIMITS.proof) if machine == MACHINE else _LIMIT_OF_TYPE
    proof = await boot_guest(accel, image, limit, site, machine, program)
    circumstances = await _circumstances(image, site)
    file = _file(site)
    known = {**_read(file, circumstances), proof.accel: proof}
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"circumstances": circumstances, "proofs": [one.model_dump(mode="json") for one in known.values()]}
    replace_file(file, (json.dumps(document, indent=1) + "\n").encode())
    return proof


async def _name(accel: str, machine: str, program: str, site: Site) -> str:
    """What a proof is remembered by."""
    on = "" if machine == MACHINE else f" on {machine}"
    return f"{accel}{on}" if program == PROGRAM else f"{accel}{on} by {program}, {await read_version(site, program)}"


def _file(site: Site) -> Path:
    return Paths.default().cache / ("accelerators.json" if site.spec is None else f"accelerators-of-{site.name}.json")


async def _circumstances(image: Image, site: Site) -> list[str]:
    """What a proof holds for: it is tried again when one of these has changed. An image of a user's own boots the lab's
    kernel, and so shares its proofs."""
    sums = image.manifest["sha256"]
    booted = [sums[part.name] for part in (image.kernel, image.initrd)]
    return [await read_version(site), *booted, site.boot_id, process_privileges.SANDBOX]


async def boot_guest(
    accel: str, image: Image, limit: float, site: Site, machine: str = MACHINE, program: str = PROGRAM
) -> BootProof:
    """Boot the image's kernel on it, with an /init that says a word and powers off, within `limit` seconds."""
    name = await _name(accel, machine, program, site)
    words = [f"console={HERE.console}", "quiet", "panic=-1", *tell_clock(await find_clock(machine, accel, site))]
    parts, power = await transfer.place_parts(image, site), await least_privilege.find_privilege(program, accel, site)
    initrd = f"{site.state}/{_TRIED}{os.getpid()}-{os.urandom(4).hex()}"
    argv = [
        *(site.probe, "launch", *site.bound, "--open", parts.kernel, "--", "sh", "-c", _BOOT, "boot", initrd),
        *(site.probe, "launch", *site.bound, *power.launched(initrd), "--"),
        *build_common(program, machine, accel, "max", 1, _MEMORY),
        *power.arguments,
        *("-kernel", "/proc/self/fd/{file0}", "-initrd", "/proc/self/fd/9", "-append", " ".join(words)),
        *("-serial", "stdio", "-no-reboot"),
    ]
    try:
        # A later archive's file replaces an earlier one's.
        await transfer.write_initrd(
            parts.initrd, newc.archive([newc.regular("init", _INIT.encode(), 0o755)]), initrd, site
        )
        await run_checked(site, "chown", "--", power.owner(initrd), initrd)
        begun = time.monotonic()
        ended = await site.exec(argv, timeout=limit)
    except TimedOut:
        detail = f"it opens, but a guest on it hangs: no boot within {limit:g} s"
        return BootProof(accel=name, works=False, detail=detail, until=time.time() + _DOUBTED)
    finally:
        await site.exec(["rm", "-f", "--", initrd])
    took = time.monotonic() - begun
    if _WORD in ended.text:
        return BootProof(accel=name, works=True, detail=f"a guest booted in {took:.1f} s")
    said = "; ".join((ended.complaint or ended.text.strip()).splitlines()[-3:])
    # Who was let in nowhere may be by the next time: an ordinary user by another login. And who was told to end has
    # proved nothing; a QEMU that its accelerator breaks ends by SIGABRT or SIGSEGV.
    is_told = ended.status - 128 in _TOLD_TO_END
    until = time.time() if is_told or "Permission denied" in said else None
    return BootProof(accel=name, works=False, detail=said or describe_end("QEMU", ended), until=until)


def sweep(state: Path) -> None:
    """Remove what was booted from by those who were killed meanwhile."""
    for left in state.glob(f"{_TRIED}*"):
        owner = left.name.removeprefix(_TRIED).partition("-")[0]
        if not Path(f"/proc/{owner}").exists():
            left.unlink(missing_ok=True)


async def find_clock(machine: str, accel: str, site: Site) -> int | None:
    """The rate in kHz of the time stamp counter, for a guest that cannot measure it; None for all others.

    Emulation passes the host's counter on (QEMU, cpu_get_host_ticks). Where its clock is fixed, Linux tells that rate
    as the CPU's. HostCannot where it is not, so that nobody tells the counter's.
    """
    if machine != MICROVM or accel != "tcg":
        return None
    told = (await run_checked(site, "cat", "/proc/cpuinfo")).decode()
    rate = next((line.partition(":")[2] for line in told.splitlines() if line.startswith("cpu MHz")), "")
    varies = (await site.exec(["test", "-e", "/sys/devices/system/cpu/cpu0/cpufreq"])).status == 0
    if varies or not rate.strip():
        what = f"an emulated {MICROVM} has no clock but the CPU's counter, whose rate this host does not tell"
        raise HostCannot(what, site.name, f'set machine.board = "{MACHINE}", or run it where KVM works')
    return round(float(rate) * 1000)


async def list_offered(site: Site, program: str = PROGRAM) -> list[str]:
    listed = await site.exec([program, "-accel", "help"])
    return [line.strip() for line in listed.text.splitlines() if line and ":" not in line]


async def list_machine_types(site: Site, program: str) -> list[str]:
    listed = await site.exec([program, "-machine", "help"])
    return [line.split()[0] for line in listed.text.splitlines()[1:] if line.strip()]


async def list_cpu_models(site: Site, program: str) -> list[str]:
    return parse_cpu_models((await site.exec([program, "-cpu", "help"])).text)


def parse_cpu_models(listed: str) -> list[str]:
    """The names in what `-cpu help` prints. Before QEMU 9.1 each line of one program begins with "x86". Pure."""
    lines = listed.partition("\n\n")[0].splitlines()[1:]
    return [line.removeprefix("x86 ").split()[0] for line in lines if line.strip()]


_versions: dict[tuple[str, str, str], str] = {}
"""Told once by each site since it booted: asking takes as long as making a machine's disk."""


async def read_version(site: Site, program: str = PROGRAM) -> str:
    key = (site.name, site.boot_id, program)
    if key not in _versions:
        _versions[key] = (await site.exec([program, "--version"])).text.partition("\n")[0]
    return _versions[key]


def _read(file: Path, circumstances: list[str]) -> dict[str, BootProof]:
    """What is remembered; nothing when the circumstances were others."""
    try:
        document = json.loads(file.read_text("utf-8"))
        if document["circumstances"] != circumstances:
            return {}
        return {proof["accel"]: BootProof.from_json(proof) for proof in document["proofs"]}
    except (OSError, *MALFORMED):
        return {}
