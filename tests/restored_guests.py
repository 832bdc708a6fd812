"""What tests that restore guests have in common."""

from pathlib import Path

from nearmetal.config import Paths
from nearmetal.lab.qemu import snapshot


def share_cache(folder: Path) -> None:
    """Make a cache that has all of this one but the snapshots: they are made with a home's own keys, and go with it."""
    shared = Paths.default().cache
    (shared / "images").mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    for entry in shared.iterdir():
        if entry.name != snapshot.folder().name:
            (folder / entry.name).symlink_to(entry)
