"""A disk of the user's own that boots, but lets nobody in."""

import hashlib
import subprocess
import time
from pathlib import Path

import pytest

from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.errors import NotProvisioned
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu.cloud_image_guest import CloudImageGuest
from nearmetal.model import EnvironmentSpec, MachineSpec

from .conftest import Make
from .laboratory import spec

pytestmark = pytest.mark.live

LIMIT = 5.0
SAID = b"no operating system to speak of\r\n"
TO_SERIAL_LINE = bytes.fromhex("fa 31c0 8ed8 be1b7c ba f803 ac 84c0 7403 ee ebf8 f4 ebfd")
"""cli; ds = 0; si = text; dx = COM1; while (al = *si++) out dx, al; for ever hlt. The BIOS puts it at 0x7c00."""
TEXT = 0x1B


def boots_to_nothing(path: Path) -> MachineSpec:
    """A disk whose boot loader says so on the serial line, and halts."""
    code = TO_SERIAL_LINE.ljust(TEXT, b"\x90") + SAID + b"\0"
    raw = path.with_suffix(".raw")
    raw.write_bytes(code.ljust(510, b"\0") + b"\x55\xaa" + bytes(2**20 - 512))
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(path)], check=True)
    return spec(image=str(path))


@pytest.fixture
def environment() -> QemuEnvironment:
    return QemuEnvironment()


async def test_a_guest_without_ssh_is_told_within_its_limit_and_its_disk_is_left_alone(
    environment: QemuEnvironment,
    make: Make,
    lab_image: Image,
    site: LocalSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CloudImageGuest, "boot_limit", LIMIT)
    disk = tmp_path / "own.qcow2"
    machine = boots_to_nothing(disk)
    before = hashlib.sha256(disk.read_bytes()).digest(), disk.stat().st_mtime_ns
    asked = EnvironmentSpec(kind="qemu", provision="boot")
    assert [one for one in await environment.check(asked, machine, site) if not one.ok] == [], (
        "nothing tells beforehand"
    )
    began = time.monotonic()
    with pytest.raises(NotProvisioned) as caught:
        await make(machine)
    assert time.monotonic() - began < LIMIT + 20
    assert f"nothing answered by SSH within {LIMIT:g} s" in caught.value.what
    assert SAID.decode().strip() in caught.value.what, "what it wrote to the serial line"
    assert "cloud-init and an SSH server" in caught.value.remedy
    assert (hashlib.sha256(disk.read_bytes()).digest(), disk.stat().st_mtime_ns) == before
