"""Files that a machine has while a trial lasts: where they lie, and that those of one machine alone are removed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import scratch

MINE, OTHER = f"nm-test{os.getpid()}-1", f"nm-test{os.getpid()}-12"


@pytest.fixture
def files() -> Iterator[dict[str, Path]]:
    """A folder with a file in it, for each of two machines."""
    places = {name: Path(scratch.name_scratch(name, "/tmp", "use")) for name in (MINE, OTHER)}
    for place in places.values():
        place.mkdir()
        (place / "file").write_text("packets")
    yield places
    for place in places.values():
        (place / "file").unlink(missing_ok=True)
        if place.exists():
            place.rmdir()


async def test_a_machines_files_are_known_by_its_name_alone(files: dict[str, Path]) -> None:
    disk = Path(scratch.name_scratch(MINE, "/var/tmp", "other"))
    disk.write_text("data")
    await scratch.remove_scratch(MINE, LocalSite())
    assert not files[MINE].exists() and not disk.exists()
    assert (files[OTHER] / "file").read_text() == "packets"
    await scratch.remove_scratch(MINE, LocalSite())


async def test_where_a_link_leads_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    link = Path(scratch.name_scratch(MINE, "/tmp", "link"))
    link.symlink_to(tmp_path)
    await scratch.remove_scratch(MINE, LocalSite())
    assert not link.is_symlink() and (tmp_path / "theirs").read_text() == "theirs"
