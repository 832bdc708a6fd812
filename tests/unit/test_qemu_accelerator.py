"""What is remembered of accelerators, and for how long."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu import accelerator
from nearmetal.lab.qemu.accelerator import BootProof
from nearmetal.lab.qemu.arguments import PROGRAM
from nearmetal.model import Site


def make_image(folder: Path, name: str = "lab", kernel: str = "1") -> Image:
    """The manifest alone: nothing is booted."""
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"sha256": {"vmlinux": kernel, "initrd": "2"}}))
    return Image(name, f"key of {name}", "digest", folder)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of other tests, which share a cache."""
    monkeypatch.setattr(accelerator, "_file", lambda site: tmp_path / "cache" / "accelerators.json")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return make_image(tmp_path / "image")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the accelerators on which a guest was booted; those in `broken` do not work."""
    tried: list[str] = []

    async def prove(accel: str, image: Image, limit: float, site: Site, machine: str, program: str) -> BootProof:
        by = "" if program == PROGRAM else f" by {program}, {await version(site, program)}"
        tried.append(accel + ("" if machine == "q35" else f" on {machine}") + by)
        return BootProof(accel=tried[-1], works="tcg" in accel, detail="as told")

    async def version(site: Site, program: str = PROGRAM) -> str:
        return "QEMU 1"

    monkeypatch.setattr(accelerator, "boot_guest", prove)
    monkeypatch.setattr(accelerator, "read_version", version)
    return tried


async def test_what_holds_on_one_machine_type_says_nothing_of_another(image: Image, tried: list[str]) -> None:
    assert (await accelerator.find_proof("tcg", image, LocalSite())).works
    for _ in range(2):
        assert (await accelerator.find_proof("tcg", image, LocalSite(), "pc")).works
    assert tried == ["tcg", "tcg on pc"]


async def test_what_holds_for_one_qemu_says_nothing_of_another(image: Image, tried: list[str]) -> None:
    for _ in range(2):
        assert (await accelerator.find_proof("tcg", image, LocalSite(), program="/opt/qemu")).works
    assert (await accelerator.find_proof("tcg", image, LocalSite())).works
    assert tried == ["tcg by /opt/qemu, QEMU 1", "tcg"]


async def test_the_best_is_the_first_that_was_seen_to_boot(image: Image, tried: list[str]) -> None:
    assert (await accelerator.choose_best(image, LocalSite())).accel == "tcg"
    assert tried == ["kvm", "tcg"]


async def test_a_proof_is_made_once(image: Image, tried: list[str]) -> None:
    first = await accelerator.find_proof("kvm", image, LocalSite())
    assert await accelerator.find_proof("kvm", image, LocalSite()) == first
    assert tried == ["kvm"]


async def test_a_guest_that_was_late_is_tried_again(
    image: Image, monkeypatch: pytest.MonkeyPatch, tried: list[str]
) -> None:
    """The host may have been busy: it does not emulate until it is booted again."""
    now = 1e9
    monkeypatch.setattr(time, "time", lambda: now)

    async def prove(accel: str, *_: object) -> BootProof:
        tried.append(accel)
        return BootProof(accel=accel, works=False, detail="late", until=now + 3600)

    monkeypatch.setattr(accelerator, "boot_guest", prove)
    for _ in range(2):
        await accelerator.find_proof("kvm", image, LocalSite())
    assert tried == ["kvm"]
    now += 3601
    await accelerator.find_proof("kvm", image, LocalSite())
    assert tried == ["kvm", "kvm"]


async def test_an_image_with_the_same_kernel_needs_no_other_proof(
    image: Image, tmp_path: Path, tried: list[str]
) -> None:
    await accelerator.find_proof("tcg", image, LocalSite())
    await accelerator.find_proof("tcg", make_image(tmp_path / "own", "own"), LocalSite())
    assert tried == ["tcg"]


async def test_another_qemu_or_kernel_needs_another_proof(
    image: Image, tmp_path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await accelerator.find_proof("tcg", image, LocalSite())
    await accelerator.find_proof("tcg", make_image(tmp_path / "other", kernel="other"), LocalSite())

    async def newer(site: Site, program: str = PROGRAM) -> str:
        return "QEMU 2"

    monkeypatch.setattr(accelerator, "read_version", newer)
    await accelerator.find_proof("tcg", image, LocalSite())
    assert tried == ["tcg", "tcg", "tcg"]


@pytest.mark.parametrize("rubbish", ["", "{", "[]", '{"circumstances": 1}', '"x"'])
async def test_a_spoilt_memory_is_as_good_as_none(image: Image, tmp_path: Path, tried: list[str], rubbish: str) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/accelerators.json").write_text(rubbish)
    assert (await accelerator.find_proof("tcg", image, LocalSite())).works
    assert tried == ["tcg"]


def test_what_the_dead_left_is_removed_and_what_the_living_use_is_not(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = [f"proof-{dead.pid}-00", f"proof-{os.getpid()}-00", "runs.json"]
    state = tmp_path / "state"
    state.mkdir()
    for name in names:
        (state / name).touch()
    accelerator.sweep(state)
    assert sorted(left.name for left in state.iterdir()) == sorted(names[1:])


async def test_when_nothing_boots_it_says_what_was_tried(
    image: Image, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "CANDIDATES", ("kvm",))
    with pytest.raises(HostCannot, match="kvm: as told"):
        await accelerator.choose_best(image, LocalSite())


@pytest.mark.parametrize(
    ("listed", "models"),
    [
        (
            "Available CPUs:\nx86 486  (alias)\nx86 max  Enables all\n\nRecognized CPUID flags:\n  fpu vme\n",
            ["486", "max"],
        ),
        ("Available CPUs:\n  486   (alias)\n  max   Enables all\n\nRecognized CPUID flags:\n  fpu\n", ["486", "max"]),
        ("Available CPUs:\n  cortex-a72\n  max\n", ["cortex-a72", "max"]),
        ("", []),
    ],
)
def test_cpu_models_are_read_as_each_qemu_lists_them(listed: str, models: list[str]) -> None:
    assert accelerator.parse_cpu_models(listed) == models
