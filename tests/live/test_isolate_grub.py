"""`nearmetal isolate on --boot` with a real update-grub: what it writes, and whether a machine started so isolates."""

import os
import shutil
from pathlib import Path

import pytest

from nearmetal.lab.cpus.noise import Heard, build_listen_command, parse_heard
from nearmetal.lab.image import Image
from tests.conftest import SHARED_CACHE

from . import grub
from .laboratory import laboratory, machine, spec

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="of one CPU none can be kept free"),
    pytest.mark.skipif(
        shutil.which("update-grub") is None,
        reason="this host has no GRUB to try it with (apt-get install grub2-common): --boot is NOT tested",
    ),
]

QUIETER = 20
"""Times fewer ticks on the isolated CPU at least, both kept busy."""


def test_the_boot_loader_is_told_otherwise_by_clean(tmp_path: Path) -> None:
    check_the_boot_loader_is_told_and_told_otherwise(tmp_path, "killed")


def check_the_boot_loader_is_told_and_told_otherwise(tmp_path: Path, ends: str) -> str:
    """GRUB's configuration while the isolation stood."""
    own = {file: file.read_text() for file in Path("/etc/default").glob("grub*") if file.is_file()}
    drop_ins = sorted(Path("/etc/default/grub.d").glob("*"))
    configuration = grub.told(tmp_path, ends)
    lines = [line for line in configuration.splitlines() if "isolcpus=" in line]
    assert lines and all("quiet splash isolcpus=" in line and "nohz_full=" in line for line in lines)
    assert (tmp_path / "drop-in").read_text().startswith('GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ')
    assert (tmp_path / "changed" / "default" / "grub").read_text() == grub.OWN
    assert (tmp_path / "after.cfg").read_text() == (tmp_path / "before.cfg").read_text()
    # This host's own have not been touched.
    assert {file: file.read_text() for file in own} == own
    assert sorted(Path("/etc/default/grub.d").glob("*")) == drop_ins
    return configuration


def isolates(cpus: dict[int, Heard]) -> bool:
    isolated, other = cpus[grub.CPU].ticks, cpus[0].ticks
    assert isolated is not None and other is not None
    return isolated * QUIETER <= other


async def test_a_guest_with_the_words_that_were_written_isolates(tmp_path: Path, lab_image: Image) -> None:
    """A guest of the lab, which brings its own disk and reads no boot loader's file."""
    configuration = check_the_boot_loader_is_told_and_told_otherwise(tmp_path, "off")
    words = [word for word in grub.kernel_line(configuration)[1] if not word.startswith("root=") and word != "ro"]
    async with laboratory() as lab:
        guest = await machine(lab, "qemu", spec(vcpus=2, kernel_arguments=words), cpus="0-1")
        assert (await guest.get("/proc/cmdline")).decode().split()[-len(words) :] == words
        for name in ("isolated", "nohz_full"):
            assert (await guest.get(f"/sys/devices/system/cpu/{name}")).strip() == str(grub.CPU).encode()
        ended = await guest.exec(build_listen_command(guest.probe, [0, grub.CPU], 2.0), timeout=60)
        assert ended.status == 0, ended.stderr
        assert isolates(parse_heard(ended.stdout, guest.name))


@pytest.mark.long
@pytest.mark.skipif(bool(grub.lacking()), reason=f"no machine is started by GRUB: {grub.lacking()}")
def test_a_machine_that_grub_starts_isolates(tmp_path: Path) -> None:
    """By the entry that was written, and nobody's help."""
    configuration = grub.told(tmp_path)
    started = grub.start(configuration, tmp_path, SHARED_CACHE)
    assert started.arguments[1:] == grub.kernel_line(configuration)[1]
    assert (started.isolated, started.nohz_full) == (str(grub.CPU), str(grub.CPU))
    assert isolates(started.heard)
