"""Which accelerators really run a guest here. A device that opens proves nothing: a guest of ours has to boot on it."""

import json
import os
import time
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, HostCannot, TimedOut
from nearmetal.files import replace
from nearmetal.lab.image import Image, newc, placed
from nearmetal.model import Frozen, Site

from .arguments import MACHINE, PROGRAM, common

CANDIDATES = ("kvm", "tcg")
"""The best first."""
_LIMITS = {"tcg": LIMITS.boot}
_LIMIT = 10.0
"""Seconds that a guest has on an accelerator; real ones take less than one."""
_LIMIT_OF_TYPE = 30.0
"""Seconds that a guest has on another machine type where the default is known to boot one, emulated or not."""
_MEMORY = 256 * 2**20
_TRIED = "proof-"
"""What is booted from is called so in the state folder, and by whose it is."""
# Once QEMU has the file open it needs no name, so that a killed controller leaves none on a host.
_BOOT = 'exec 3<"$1"; rm -f -- "$1"; shift; exec "$@"'
_WORD = "nearmetal: this guest has booted"
_INIT = f"""#!/bin/sh
/bin/busybox mount -t proc proc /proc
echo {_WORD}
echo o >/proc/sysrq-trigger
sleep 60
"""


class Proof(Frozen):
    """What came of booting a guest on an accelerator."""

    accel: str
    works: bool
    detail: str


async def best(image: Image, cache: Path, site: Site) -> Proof:
    """The best accelerator that is seen to boot a guest. HostCannot, with what was tried, when none does."""
    tried = []
    for accel in CANDIDATES:
        proof = await proved(accel, image, cache, site)
        if proof.works:
            return proof
        tried.append(f"{accel}: {proof.detail}")
    raise HostCannot(f"no accelerator boots a guest ({'; '.join(tried)})", remedy="see: nearmetal doctor")


async def proved(accel: str, image: Image, cache: Path, site: Site, machine: str = MACHINE) -> Proof:
    """As found out earlier since the site booted, else tried now."""
    known = _read(_file(cache, site), await _circumstances(image, site))
    return known.get(_name(accel, machine)) or await proved_now(accel, image, cache, site, machine)


async def proved_now(accel: str, image: Image, cache: Path, site: Site, machine: str = MACHINE) -> Proof:
    """Tried now, and remembered instead of what was found out earlier."""
    limit = _LIMITS.get(accel, _LIMIT) if machine == MACHINE else _LIMIT_OF_TYPE
    proof = await prove(accel, image, limit, site, machine)
    circumstances = await _circumstances(image, site)
    file = _file(cache, site)
    _write(file, circumstances, {**_read(file, circumstances), proof.accel: proof})
    return proof


def _name(accel: str, machine: str) -> str:
    """What a proof is remembered by."""
    return accel if machine == MACHINE else f"{accel} on {machine}"


def _file(cache: Path, site: Site) -> Path:
    return cache / ("accelerators.json" if site.spec is None else f"accelerators-of-{site.name}.json")


async def _circumstances(image: Image, site: Site) -> list[str]:
    """What a proof holds for: it is tried again when one of these has changed."""
    return [await _version(site), image.key, site.boot_id]


async def prove(accel: str, image: Image, limit: float, site: Site, machine: str = MACHINE) -> Proof:
    """Boot the image's kernel on it, with an /init that says a word and powers off, within `limit` seconds."""
    name = _name(accel, machine)
    parts = await placed.parts(image, site)
    initrd = f"{site.state}/{_TRIED}{os.getpid()}-{os.urandom(4).hex()}"
    argv = [
        *(site.probe, "launch", *site.bound, "--", "sh", "-c", _BOOT, "boot", initrd),
        *common(machine, accel, "max", 1, _MEMORY),
        *("-kernel", parts.kernel, "-initrd", "/proc/self/fd/3", "-append", "console=ttyS0 quiet panic=-1"),
        *("-serial", "stdio", "-no-reboot"),
    ]
    try:
        # A later archive's file replaces an earlier one's.
        await placed.initrd(parts.initrd, newc.archive([newc.regular("init", _INIT.encode(), 0o755)]), initrd, site)
        begun = time.monotonic()
        ended = await site.exec(argv, timeout=limit)
    except TimedOut:
        return Proof(accel=name, works=False, detail=f"it opens, but a guest on it hangs: no boot within {limit:g} s")
    finally:
        await site.exec(["rm", "-f", "--", initrd])
    took = time.monotonic() - begun
    if _WORD in ended.text:
        return Proof(accel=name, works=True, detail=f"a guest booted in {took:.1f} s")
    said = (ended.complaint or ended.text.strip()).splitlines()
    return Proof(accel=name, works=False, detail="; ".join(said[-3:]) or f"QEMU ended with status {ended.status}")


def sweep(state: Path) -> None:
    """Remove what was booted from by those who were killed meanwhile."""
    for left in state.glob(f"{_TRIED}*"):
        owner = left.name.removeprefix(_TRIED).partition("-")[0]
        if not Path(f"/proc/{owner}").exists():
            left.unlink(missing_ok=True)


async def offered(site: Site) -> list[str]:
    """The accelerators that the site's QEMU was built with."""
    listed = await site.exec([PROGRAM, "-accel", "help"])
    return [line.strip() for line in listed.text.splitlines() if line and ":" not in line]


async def machine_types(site: Site) -> list[str]:
    """The machine types that the site's QEMU knows."""
    listed = await site.exec([PROGRAM, "-machine", "help"])
    return [line.split()[0] for line in listed.text.splitlines()[1:] if line.strip()]


async def cpu_models(site: Site) -> list[str]:
    """The CPU models that the site's QEMU knows."""
    listed = await site.exec([PROGRAM, "-cpu", "help"])
    return [words[1] for line in listed.text.splitlines() if len(words := line.split()) > 1 and words[0] == "x86"]


_versions: dict[tuple[str, str], str] = {}
"""Told once by each site since it booted: asking takes as long as making a machine's disk."""


async def _version(site: Site) -> str:
    key = (site.name, site.boot_id)
    if key not in _versions:
        _versions[key] = (await site.exec([PROGRAM, "--version"])).text.partition("\n")[0]
    return _versions[key]


def _read(file: Path, circumstances: list[str]) -> dict[str, Proof]:
    """What is remembered; nothing when the circumstances were others."""
    try:
        document = json.loads(file.read_text("utf-8"))
        if document["circumstances"] != circumstances:
            return {}
        return {proof["accel"]: Proof.from_json(proof) for proof in document["proofs"]}
    except (OSError, *MALFORMED):
        return {}


def _write(file: Path, circumstances: list[str], known: dict[str, Proof]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "circumstances": circumstances,
        "proofs": [proof.model_dump(mode="json") for proof in known.values()],
    }
    replace(file, (json.dumps(document, indent=1) + "\n").encode())
