"""The table of processors, and what a host of the other one makes of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import build_probe
import pytest

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.architecture import AARCH64, TABLE, X86_64, pc_alone, require_known
from nearmetal.lab.image import Image, kernel
from nearmetal.lab.machine_image import refuse_foreign

SOURCES = Path(__file__).parents[2] / "src/nearmetal"
# What the table says is taken up as modules are imported, so another processor takes another process.
PRETEND = "import json, platform\nplatform.machine = lambda: {machine!r}\n{code}"


def run_on(machine: str, code: str) -> Any:
    """What the code prints as JSON on a host with that processor."""
    argv = [sys.executable, "-c", PRETEND.format(machine=machine, code=code)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True, env=environment).stdout)


def test_no_other_module_names_a_processor_by_itself() -> None:
    # packages.py has other distributions' names of Debian's packages.
    others = [file for file in SOURCES.rglob("*.py") if file.name not in ("architecture.py", "packages.py")]
    assert [file.name for file in others if re.search("x86_64|amd64|aarch64", file.read_text("utf-8"))] == []


def test_wheels_are_made_for_the_processors_in_the_table() -> None:
    assert {one.elf: one.machine for one in TABLE.values()} == build_probe._MACHINES


def test_a_guest_on_aarch64_has_its_machine_and_its_console() -> None:
    words = run_on(
        "aarch64",
        """
from dataclasses import replace
from nearmetal.lab.qemu import arguments
from tests.guests import GUEST
print(json.dumps(arguments.build_command(replace(GUEST, machine=arguments.MACHINE, vmm=arguments.PROGRAM))))
""",
    )
    assert words[0] == "qemu-system-aarch64"
    assert {"-machine", "virt,gic-version=max", "max"} <= set(words)
    told = words[words.index("-append") + 1].split()
    assert {"console=ttyAMA0", "norandmaps"} <= set(told)
    assert not [word for word in told if word.startswith(("tsc", "no_timer_check", "clearcpuid", "console=ttyS"))]


def test_the_lab_image_of_aarch64_is_another_one_with_the_modules_that_its_kernel_has() -> None:
    code = """
from nearmetal.lab.image import Recipe
from nearmetal.lab.image.recipe import Modules
print(json.dumps([Recipe().key, Modules.of_recipe().guest, Modules.of_recipe().early]))
"""
    (pc_key, pc_guest, pc_early), (key, guest, early) = (run_on(one, code) for one in TABLE)
    assert key != pc_key
    assert {*pc_guest, *pc_early} - {*guest, *early} == AARCH64.absent_modules
    assert "sd_mod" in early


def test_a_host_whose_processor_is_not_in_the_table_builds_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    require_known()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(HostCannot, match="no lab image for the processor riscv64") as refused:
        require_known()
    assert "x86-64 or aarch64" in refused.value.remedy


def test_the_kernel_of_aarch64_is_booted_as_it_is() -> None:
    image = bytes(0x38) + b"ARM\x64" + bytes(64)
    assert kernel.unpack_kernel(image, "vmlinuz", AARCH64) == image
    for other in (b"", b"MZ" + bytes(4096)):
        with pytest.raises(ToolFailed, match="not a kernel image for aarch64"):
            kernel.unpack_kernel(other, "vmlinuz", AARCH64)
    with pytest.raises(ToolFailed, match="not a kernel image for x86-64"):
        kernel.unpack_kernel(image, "vmlinuz", X86_64)


def test_what_only_pcs_have_is_refused_where_guests_are_none() -> None:
    assert pc_alone("a restored guest", True, "boot it", X86_64).ok
    assert pc_alone("a restored guest", False, "boot it", AARCH64).ok
    refused = pc_alone("a restored guest", True, "boot it", AARCH64)
    assert (refused.ok, refused.remedy) == (False, "boot it")
    assert refused.detail == "it was made for x86-64 alone, and this host is aarch64"


def test_an_image_for_another_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"architecture": "amd64"}')
    image = Image("lab", "key", "digest", tmp_path)
    refuse_foreign(image, X86_64)
    with pytest.raises(HostCannot, match="it is for amd64, and this host is arm64") as refused:
        refuse_foreign(image, AARCH64)
    assert "nearmetal image rm lab" in refused.value.remedy
