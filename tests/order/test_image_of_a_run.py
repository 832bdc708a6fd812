"""What the machines of a run are made of, from its first boot to its last."""

import asyncio
import itertools
import os
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.environments import mock
from nearmetal.errors import HostCannot
from nearmetal.lab import machine_image
from nearmetal.lab.image import Recipe
from nearmetal.lab.image.pinned_images import pinned
from nearmetal.model import Handle, MachineImage, Order, Recorder, Site, TrialStatus
from nearmetal.store.events import BlockEnded, Event, FactsSeen
from nearmetal.store.run_folder import RunFolder
from tests.order import mock_run
from tests.unit.test_image_store import finished

OLD, NEW = "ab" * 32, "cd" * 32


@pytest.fixture(autouse=True)
def no_images(home: Path) -> None:
    """A cache of its own: that of all tests has the real one."""
    (home / "cache").unlink()


def build(digest: str, *packages: str) -> None:
    """One that is newer than any before it."""
    folder = finished(Paths.default().cache, Recipe(packages=packages), digest)
    later = folder.stat().st_mtime + (60 if packages else 0)
    os.utime(folder / "manifest.json", (later, later))


async def test_a_name_means_the_newest_image_but_for_who_has_begun_with_another() -> None:
    build(OLD)
    build(NEW, "curl")
    assert machine_image.find_image("lab").digest == NEW
    with pinned({"lab": OLD}):
        assert (
            machine_image.find_image("lab").digest == OLD and machine_image.describe_image("lab") == f"lab {OLD[:12]}"
        )
        assert (await asyncio.to_thread(machine_image.find_image, "lab")).digest == OLD
        assert (await asyncio.create_task(asyncio.to_thread(machine_image.find_image, "lab"))).digest == OLD
    assert machine_image.find_image("lab").digest == NEW
    with pinned({"lab": "ef" * 32}), pytest.raises(HostCannot, match="the image lab efefefefefef that the run began"):
        machine_image.find_image("lab")


def making(monkeypatch: pytest.MonkeyPatch, *of: str) -> None:
    """Machines of the environment `slow` are made of these, one after the other; all others of the lab's image."""
    create, left = mock.plugin.create, itertools.chain(of, itertools.repeat(of[-1]))

    async def made(order: Order, site: Site, ledger: Recorder) -> Handle:
        handle = await create(order, site, ledger)
        is_slow = order.options.get("speed") == 0.5
        return handle.knowing(
            image=MachineImage(name=next(left) if is_slow else machine_image.describe_image(order.spec.image))
        )

    monkeypatch.setattr(mock.plugin, "create", made)


async def test_an_image_that_is_built_while_a_run_goes_on_is_not_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(OLD)
    making(monkeypatch, "its own")

    def builder(event: Event) -> None:
        if isinstance(event, BlockEnded) and event.block == 0:
            build(NEW, "curl")

    events, _ = await mock_run.run(tmp_path / "run", listener=builder)
    seen = [event.facts["image"] for event in events if isinstance(event, FactsSeen) and event.role == "server"]
    assert sorted(seen) == ["its own", f"lab {OLD[:12]}"], "of each treatment, what its first boot told"
    assert RunFolder(tmp_path / "run").read_manifest().images == {"lab": OLD}


async def test_a_boot_of_another_image_than_its_treatments_first_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making(monkeypatch, "my/image:1 0123", "my/image:1 4567")
    _, records = await mock_run.run(tmp_path / "run")
    slow = [record for record in records if record.trial.treatment["environment"] == "slow"]
    assert [record.status for record in slow] == [TrialStatus.OK] + [TrialStatus.INVALID] * (len(slow) - 1)
    assert len(slow) > 1 and slow[-1].reason == (
        "it is made of my/image:1 4567, and its treatment's earlier boots were of my/image:1 0123: another system"
    )
    assert {record.status for record in records if record not in slow} == {TrialStatus.OK}
