"""The guest that a snapshot is made of: like those ordered in all that its memory depends on, and nobody."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineError, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.image import Image, transfer
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.keys import LabKeys
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.remote import agent
from nearmetal.model import Running, Site

from . import arguments, disk_trouble, files, identity, kernel_override, monitor, snapshot
from .arguments import GuestSpec
from .monitor import Monitor
from .snapshot import Snapshot

_NAME: Final = "nobody"
_PARTING: Final = 2.0
"""Seconds that a QEMU which has let go of its monitor may take to end."""
_KEEP_MAC: Final = ("vmxnet3",)
"""NICs that keep a MAC which they were given also when their guest restarts."""

# A network of its own, which goes with it: nothing of it has to be found again after we died.
_MAKE_NETWORK: Final = "ip link set lo up && ip tuntap add dev data mode tap vnet_hdr && ip link set data up"
_ALONE: Final = ("unshare", "--net", "sh", "-c", f'{_MAKE_NETWORK} && exec "$0" "$@"')
_TAP: Final = "/proc/self/ns/net:data"


def describe_template(guest: GuestSpec) -> GuestSpec:
    """The guest to save for one that was ordered."""
    port = identity.NOBODY if guest.port else None
    return replace(guest, name=_NAME, port=port)


def describe_restored(guest: GuestSpec, saved: Snapshot) -> GuestSpec:
    """What QEMU restores for a guest that was ordered: the NIC is the one that was saved, and so is its MAC."""
    guest = replace(guest, backing=(str(saved.disk), *guest.backing))
    if guest.port is None:
        return guest
    found_by = guest.port.mac if guest.nic in _KEEP_MAC else identity.NOBODY.mac
    return replace(guest, port=guest.port.model_copy(update={"mac": found_by}), nic_mac=identity.NOBODY.mac)


def find_key(guest: GuestSpec, image: Image, keys: LabKeys) -> str:
    """What stands for everything that the saved memory depends on."""
    disk, qemu = image.disk.stat(), Path(shutil.which(guest.vmm) or "/").stat()
    facts: dict[str, Any] = {
        "command": arguments.build_saved(describe_template(guest)),
        "kernel": guest.kernel,
        "listen": identity.LISTEN,
        "qemu": [qemu.st_size, qemu.st_mtime_ns],
        "image": [image.digest, image.manifest["sha256"], str(image.disk), disk.st_size, disk.st_mtime_ns],
        "keys": [keys.client.public.decode(), keys.host.public.decode(), hashlib.sha256(keys.agent).hexdigest()],
        "probe": probe.sha256(),
        # Emulation has a CPU of its own; an accelerator passes on what the host's is.
        "cpu": "" if guest.accel == "tcg" else _host_cpu(),
    }
    return snapshot.key(facts)


def _host_cpu() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    wanted = ("vendor_id", "cpu family", "model", "stepping", "microcode", "flags")
    return [line for line in lines if line.partition("\t")[0] in wanted]


async def provide_snapshot(guest: GuestSpec, image: Image, parts: Parts, keys: LabKeys, site: Site) -> Snapshot:
    """The snapshot for a guest, made now where there is none. HostCannot where it cannot be."""
    wanted = find_key(guest, image, keys)
    if found := snapshot.find(wanted):
        return found
    async with snapshot.lock_making():
        if found := snapshot.find(wanted):
            return found  # another process made it while we waited
        async with snapshot.make_snapshot(wanted, image.disk) as unfinished:
            await _make(describe_template(guest), parts, keys, unfinished, site)
    made = snapshot.find(wanted)
    if made is None:
        raise ToolFailed("the snapshot was made but is not whole", str(snapshot.folder()))
    return made


async def _make(guest: GuestSpec, parts: Parts, keys: LabKeys, unfinished: Snapshot, site: Site) -> None:
    initrd = unfinished.folder / arguments.INITRD
    try:
        await run_checked(
            site, *arguments.build_disk_command("qcow2", parts.disk, parts.disk_format, str(unfinished.disk))
        )
        await transfer.write_initrd(
            parts.initrd, seed_archive(make_seed(keys, _NAME, True, identity.LISTEN)), str(initrd), site
        )
        await files.hand_folder_over(str(unfinished.folder), guest, guest.privilege.owner(_NAME), site)
        async with _start_qemu(arguments.build_saved(guest), guest, unfinished, site) as (qemu, running):
            await _save(unfinished, qemu, running, site)
        # Not every device that QEMU saves can it restore: one that cannot be had back is no snapshot.
        async with _start_qemu(arguments.build_restored(guest), guest, unfinished, site) as (qemu, running):
            await load(unfinished, qemu, running)
        await files.take_folder_back(str(unfinished.folder), site)
    except (MachineError, ToolFailed, HostCannot) as error:
        if remedy := disk_trouble.find_remedy(error):
            raise HostCannot(f"no guest can be saved: {error.what}", str(snapshot.folder()), remedy) from None
        if isinstance(error, HostCannot):
            raise
        remedy = 'choose another machine.nic or machine.accel, or provision = "boot"'
        raise HostCannot(f"a guest of this kind cannot be saved: {error.what}", guest.nic, remedy) from None
    initrd.unlink()
    shutil.rmtree(unfinished.folder / arguments.SOCKETS)


@asynccontextmanager
async def _start_qemu(
    command: list[str], guest: GuestSpec, unfinished: Snapshot, site: Site
) -> AsyncIterator[tuple[Monitor, Running]]:
    place = ("--chdir", str(unfinished.folder), *(("--tap", _TAP) if guest.port else ()))
    launched = files.build_launch(guest, _NAME, command, site, *place)
    running = await site.spawn([*_ALONE, *launched])
    ended = partial(find_last_words, running)
    try:
        async with monitor.open_monitor(site, str(unfinished.folder), LIMITS.command, ended) as qemu:
            yield qemu, running
    finally:
        await running.stop()


async def _save(unfinished: Snapshot, qemu: Monitor, running: Running, site: Site) -> None:
    (thread, *_) = await qemu.threads()
    unfinished.program.symlink_to(Path(f"/proc/{thread}/exe").readlink())
    await qemu.go()
    await _unless_full(qemu, identity.wait_ready(site, str(unfinished.folder), partial(find_last_words, running)))
    await qemu.halt()
    with unfinished.memory.open("wb") as memory:
        await qemu.save(memory, LIMITS.boot)


async def _unless_full(qemu: Monitor, booting: Coroutine[Any, Any, None]) -> None:
    """Until the guest has booted. MachineLost as soon as its host cannot write its disk: it would wait for ever."""
    work, trouble = (asyncio.ensure_future(booting), asyncio.ensure_future(qemu.trouble(_NAME, str(snapshot.folder()))))
    try:
        await asyncio.wait({work, trouble}, return_when=asyncio.FIRST_COMPLETED)
        if trouble.done():
            raise trouble.result()
        work.result()
    finally:
        for one in (work, trouble):
            one.cancel()
        await asyncio.gather(work, trouble, return_exceptions=True)


async def load(saved: Snapshot, qemu: Monitor, running: Running) -> None:
    """Have a QEMU that waits for it take a snapshot's memory. NotProvisioned with its reason."""
    try:
        with saved.memory.open("rb") as memory:
            await qemu.load(memory, LIMITS.command)
    except (MachineLost, ToolFailed) as error:
        said = await find_last_words(running, _PARTING) or error.what
        raise NotProvisioned(f"its snapshot {saved.folder} cannot be restored: {said}") from None


def make_seed(keys: LabKeys, name: str, logins: bool, start: str | None = None) -> dict[str, tuple[bytes, int]]:
    """What a guest is given at its boot, by name and with its permissions; `start` is what its shell runs at once.

    `logins`: it lets people in by SSH, for which it starts a server.
    """
    files = {agent.SECRET: (keys.agent_of(name), 0o600)}
    if logins:
        files["ssh_host_ed25519_key"] = (keys.host.private, 0o600)
        files["authorized_keys"] = (keys.client.public + b"\n", 0o600)
    if start is not None:
        # It takes the place of that which comes with a kernel of the study's own.
        files["start"] = (
            f"#!/bin/sh\n[ ! -x {kernel_override.LAY} ] || {kernel_override.LAY}\n{start}".encode(),
            0o755,
        )
    return files


async def find_last_words(running: Running, within: float = 0) -> str | None:
    """What QEMU said when it ended; None when it goes on for so many seconds."""
    try:
        ended = await running.wait(within)
    except TimedOut:
        return None
    return ended.complaint[-2000:] or f"status {ended.status}"
