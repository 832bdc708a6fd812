"""Which accelerators really run a guest here. A device that opens proves nothing: a guest of ours has to boot on it."""

import json
import os
import tempfile
import time
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, TimedOut
from nearmetal.lab import probe, process
from nearmetal.lab.image import Image, newc
from nearmetal.model import Frozen

from .arguments import PROGRAM, common

CANDIDATES = ("kvm", "tcg")
"""The best first."""
_LIMITS = {"tcg": LIMITS.boot}
_LIMIT = 10.0
"""Seconds that a guest has on an accelerator; real ones take less than one."""
_MEMORY = 256 * 2**20
_WORD = "nearmetal: this guest has booted"
_INIT = f"""#!/bin/sh
mount -t proc proc /proc
echo {_WORD}
echo o >/proc/sysrq-trigger
sleep 60
"""


class Proof(Frozen):
    """What came of booting a guest on an accelerator."""

    accel: str
    works: bool
    detail: str


async def best(image: Image, cache: Path) -> Proof:
    """The best accelerator that is seen to boot a guest. HostCannot, with what was tried, when none does."""
    tried = []
    for accel in CANDIDATES:
        proof = await proved(accel, image, cache)
        if proof.works:
            return proof
        tried.append(f"{accel}: {proof.detail}")
    raise HostCannot(f"no accelerator boots a guest ({'; '.join(tried)})", remedy="see: nearmetal doctor")


async def proved(accel: str, image: Image, cache: Path) -> Proof:
    """As found out earlier since this host booted, else tried now."""
    known = _read(_file(cache), await _circumstances(image))
    return known[accel] if accel in known else await proved_now(accel, image, cache)


async def proved_now(accel: str, image: Image, cache: Path) -> Proof:
    """Tried now, and remembered instead of what was found out earlier."""
    proof = await prove(accel, image, _LIMITS.get(accel, _LIMIT))
    circumstances = await _circumstances(image)
    _write(_file(cache), circumstances, {**_read(_file(cache), circumstances), accel: proof})
    return proof


def _file(cache: Path) -> Path:
    return cache / "accelerators.json"


async def _circumstances(image: Image) -> list[str]:
    """What a proof holds for: it is tried again when one of these has changed."""
    return [await _version(), image.key, Path("/proc/sys/kernel/random/boot_id").read_text().strip()]


async def prove(accel: str, image: Image, limit: float) -> Proof:
    """Boot the image's kernel on it, with an /init that says a word and powers off, within `limit` seconds."""
    with tempfile.NamedTemporaryFile(prefix="nearmetal-proof-") as initrd:
        # A later archive's file replaces an earlier one's.
        initrd.write(image.initrd.read_bytes() + newc.archive([newc.regular("init", _INIT.encode(), 0o755)]))
        initrd.flush()
        argv = [
            *(str(probe.path()), "launch", f"--die-with-parent={os.getpid()}", "--"),
            *common("q35", accel, 1, _MEMORY),
            *("-kernel", str(image.kernel), "-initrd", initrd.name, "-append", "console=ttyS0 quiet panic=-1"),
            *("-serial", "stdio", "-no-reboot"),
        ]
        begun = time.monotonic()
        try:
            ended = await process.run(argv, timeout=limit)
        except TimedOut:
            return Proof(
                accel=accel, works=False, detail=f"it opens, but a guest on it hangs: no boot within {limit:g} s"
            )
    took = time.monotonic() - begun
    if _WORD in ended.text:
        return Proof(accel=accel, works=True, detail=f"a guest booted in {took:.1f} s")
    said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip().splitlines()
    return Proof(accel=accel, works=False, detail="; ".join(said[-3:]) or f"QEMU ended with status {ended.status}")


async def offered() -> list[str]:
    """The accelerators that this QEMU was built with."""
    listed = await process.run([PROGRAM, "-accel", "help"])
    return [line.strip() for line in listed.text.splitlines() if line and ":" not in line]


async def _version() -> str:
    return (await process.run([PROGRAM, "--version"])).text.partition("\n")[0]


def _read(file: Path, circumstances: list[str]) -> dict[str, Proof]:
    """What is remembered; nothing when the circumstances were others."""
    try:
        document = json.loads(file.read_text())
        if document["circumstances"] != circumstances:
            return {}
        return {proof["accel"]: Proof.from_json(proof) for proof in document["proofs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(file: Path, circumstances: list[str], known: dict[str, Proof]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "circumstances": circumstances,
        "proofs": [proof.model_dump(mode="json") for proof in known.values()],
    }
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(document, indent=1) + "\n")
    unfinished.replace(file)
