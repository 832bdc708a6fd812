"""Snapshots of guests, without guests: what they depend on, what passes for one, and which are removed."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from nearmetal.commands import image as image_commands
from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import probe
from nearmetal.lab.image import Image, Recipe
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.qemu import arguments, identity, snapshot, template
from nearmetal.lab.qemu.arguments import GuestSpec
from nearmetal.lab.qemu.snapshot import Snapshot
from tests.command_line import call
from tests.guests import GUEST, PORT
from tests.unit.test_image_store import finished

KEY = "0123456789abcdef" * 4
SAVED = Snapshot(KEY, Path("/cache/snapshots/0123456789abcdef"))


@pytest.fixture(autouse=True)
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cache that is not shared with other tests."""
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))


@pytest.fixture
def image(tmp_path: Path) -> Image:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"sha256": {"vmlinux": "a"}}')
    (folder / "root.qcow2").write_bytes(b"disk")
    return Image("lab", "key", "digest", folder)


# ── What it depends on ───────────────────────────────────────────────────────────────────────────────────────────────


def test_guests_that_differ_only_in_who_they_are_share_a_snapshot(image: Image, tmp_path: Path) -> None:
    keys = lab_keys(tmp_path)
    elsewhere = PORT.model_copy(update={"mac": "02:00:00:00:00:08", "address": "10.111.0.8", "outside": "port8"})
    other = replace(GUEST, name="nm-b-2", port=elsewhere)
    assert template.find_key(other, image, keys) == template.find_key(GUEST, image, keys)


@pytest.mark.parametrize(
    "differing",
    [
        replace(GUEST, vcpus=4),
        replace(GUEST, memory=2**30),
        replace(GUEST, nic="e1000"),
        replace(GUEST, disk="ide"),
        replace(GUEST, machine="pc"),
        replace(GUEST, accel="kvm"),
        replace(GUEST, kernel_arguments=("isolcpus=1",)),
        replace(GUEST, port=None),
        replace(GUEST, kernel="/images/other"),
    ],
)
def test_every_other_difference_takes_another(differing: GuestSpec, image: Image, tmp_path: Path) -> None:
    keys = lab_keys(tmp_path)
    assert template.find_key(differing, image, keys) != template.find_key(GUEST, image, keys)


def test_another_image_probe_or_key_takes_another(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {template.find_key(GUEST, image, lab_keys(tmp_path / name)) for name in ("one", "another")}
    os.utime(image.disk, (1, 1))
    found.add(template.find_key(GUEST, image, lab_keys(tmp_path / "one")))
    monkeypatch.setattr(probe, "sha256", lambda: "another")
    found.add(template.find_key(GUEST, image, lab_keys(tmp_path / "one")))
    assert len(found) == 4


def test_nothing_of_who_is_ordered_is_saved() -> None:
    words = " ".join(arguments.build_saved(template.describe_template(GUEST)))
    assert not any(word in words for word in (GUEST.name, PORT.mac, PORT.address, PORT.outside))


@pytest.mark.parametrize("nic", ["virtio-net", "e1000", "vmxnet3"])
def test_a_restored_guest_has_the_devices_of_the_saved_one_and_its_own_name(nic: str) -> None:
    guest = replace(GUEST, nic=nic)
    saved, restored = (
        arguments.build_saved(template.describe_template(guest)),
        arguments.build_restored(template.describe_restored(guest, SAVED)),
    )

    def devices(words: list[str]) -> list[str]:
        return [word for option, word in pairwise(words) if option == "-device"]

    assert devices(saved) == devices(restored)
    assert f"nearmetal.hostname={GUEST.name}" in " ".join(restored)
    assert restored[-2:] == ["-incoming", "defer"]


def test_a_nic_that_keeps_its_mac_is_looked_for_by_it_after_a_restart() -> None:
    by_nic = {nic: template.describe_restored(replace(GUEST, nic=nic), SAVED).port for nic in ("e1000", "vmxnet3")}
    assert {nic: port.mac for nic, port in by_nic.items() if port} == {
        "e1000": identity.NOBODY.mac,
        "vmxnet3": PORT.mac,
    }


# ── What passes for one ──────────────────────────────────────────────────────────────────────────────────────────────


def _qemu(image: Image) -> Path:
    program = image.folder / "qemu"
    if not program.exists():
        program.write_bytes(b"program")
    return program


async def make(key: str, image: Image) -> Snapshot:
    async with snapshot.lock_making(), snapshot.make_snapshot(key, image.disk) as unfinished:
        for part in unfinished.parts:
            part.write_bytes(b"content")
        unfinished.program.symlink_to(_qemu(image))
        assert snapshot.find(key) is None
    found = snapshot.find(key)
    assert found is not None
    return found


async def test_what_was_made_is_found_and_nobody_else_may_read_it(image: Image) -> None:
    made = await make(KEY, image)
    assert made.folder.stat().st_mode & 0o777 == 0o700
    assert snapshot.find("f" * 64) is None
    assert snapshot.find(KEY[:16] + "f" * 48) is None, "another whose key begins alike"


async def test_the_qemu_behind_a_script_counts_as_well_as_the_script(image: Image, tmp_path: Path) -> None:
    """A script that stays as it is, while what it starts is built anew."""
    script, program = tmp_path / "vmm", tmp_path / "qemu"
    script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    script.chmod(0o755)
    program.write_bytes(b"one")
    wanted = template.find_key(replace(GUEST, vmm=str(script)), image, lab_keys(tmp_path))
    async with snapshot.lock_making(), snapshot.make_snapshot(wanted, image.disk) as unfinished:
        for part in unfinished.parts:
            part.write_bytes(b"content")
        unfinished.program.symlink_to(program)
    assert snapshot.find(wanted) is not None
    program.write_bytes(b"another")
    assert template.find_key(replace(GUEST, vmm=str(script)), image, lab_keys(tmp_path)) == wanted
    assert snapshot.find(wanted) is None


async def test_what_failed_in_the_making_is_not_there(image: Image) -> None:
    with pytest.raises(ZeroDivisionError):
        async with snapshot.lock_making(), snapshot.make_snapshot(KEY, image.disk) as unfinished:
            unfinished.memory.write_bytes(b"half")
            raise ZeroDivisionError
    assert snapshot.find(KEY) is None
    assert [one.name for one in snapshot.folder().iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made.memory.write_bytes(b"cut"),
        lambda made: made.disk.unlink(),
        lambda made: os.utime(made.program.resolve(), (1, 1)),
        lambda made: made.program.unlink(),
        lambda made: made.manifest.write_text("{"),
        lambda made: made.manifest.write_text('{"schema": "snapshot.v0"}'),
    ],
)
async def test_what_is_spoilt_is_not_found_and_made_anew(image: Image, spoil: Callable[[Snapshot], None]) -> None:
    spoil(await make(KEY, image))
    assert snapshot.find(KEY) is None
    await make(KEY, image)


async def test_where_nothing_can_be_written_it_says_so(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "folder", lambda: Path("/proc/nowhere"))
    with pytest.raises(HostCannot, match="cache cannot be written"):
        await make(KEY, image)


# ── Which are removed ────────────────────────────────────────────────────────────────────────────────────────────────


def key(number: int) -> str:
    return f"{number:016x}" * 4


async def test_those_that_were_used_last_are_kept(image: Image) -> None:
    for number in range(snapshot.KEPT):
        made = await make(key(number), image)
        os.utime(made.manifest, (number + 1, number + 1))
    first = snapshot.find(key(0))
    assert first is not None
    snapshot.note_use(first)
    await make(key(snapshot.KEPT), image)
    assert [number for number in range(snapshot.KEPT + 1) if snapshot.find(key(number)) is None] == [1]


async def test_those_of_an_image_that_is_gone_and_what_was_cut_short_are_removed(image: Image, tmp_path: Path) -> None:
    await make(key(1), image)
    (snapshot.folder() / f"{snapshot.UNFINISHED}{key(2)[:16]}").mkdir()
    image.disk.unlink()
    async with snapshot.lock_making():
        assert [one.name for one in snapshot.folder().iterdir()] == [".lock"]


def test_the_list_of_images_tells_of_them_and_they_go_with_their_image(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = finished(Paths.default().cache, Recipe())
    image = Image("lab", Recipe().key, "ab" * 32, listed)
    asyncio.run(make(key(1), image))
    call(image_commands.image_ls, as_json=False)
    assert "1 snapshot of guests, " in capsys.readouterr().out
    call(image_commands.image_rm, name="lab")
    assert [one.name for one in snapshot.folder().iterdir()] == [".lock"]


async def test_what_was_cut_short_is_swept_unless_somebody_is_at_work(image: Image) -> None:
    snapshot.sweep()  # where there are none
    await make(key(1), image)
    half = snapshot.folder() / f"{snapshot.UNFINISHED}{key(2)[:16]}"
    half.mkdir()
    async with snapshot.use_snapshots():
        snapshot.sweep()
        assert half.exists()
    snapshot.sweep()
    assert not half.exists()
    assert snapshot.find(key(1)) is not None


async def test_none_is_removed_while_one_is_used(image: Image) -> None:
    await make(KEY, image)
    image.disk.unlink()

    async def tidy() -> None:
        async with snapshot.lock_making():
            pass

    async with snapshot.use_snapshots(), snapshot.use_snapshots():
        waiting = asyncio.create_task(tidy())
        await asyncio.sleep(0.1)
        assert snapshot.find(KEY) is not None
    await waiting
    assert snapshot.find(KEY) is None
