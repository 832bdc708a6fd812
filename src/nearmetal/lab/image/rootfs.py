"""From what mmdebstrap left to the lab's root file system: our files in, every trace of this host out."""

import os
import shutil
from pathlib import Path

from . import build_tools, web_pages
from .apt import standard_sources
from .recipe import FILES, Recipe, tree

_TRACES = (
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/sources.list.d/*",
    "etc/*-",
    "etc/machine-id",
    "etc/ssh/ssh_host_*",
    "run/*",
    "tmp/*",
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/*",
    "var/lib/apt/lists/*",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/*-old",
    "var/log/*",
)


def finish_root(root: Path, recipe: Recipe) -> None:
    """Lay our files and the recipe's into `root` and make it independent of host and day."""
    for trace in [found for pattern in _TRACES for found in root.glob(pattern)]:
        if trace.is_dir() and not trace.is_symlink():
            shutil.rmtree(trace)
        else:
            trace.unlink()
    _write(root / "etc/hostname", b"nearmetal\n")
    _write(root / "etc/hosts", b"127.0.0.1 localhost nearmetal\n")
    _write(root / "etc/resolv.conf", b"")
    _write(root / "etc/apt/sources.list", standard_sources(recipe.suite).encode())
    for path, file in tree(FILES / "root"):
        _write(root / path, file.read_bytes(), 0o755 if "sbin/" in path else 0o644)
    for name in web_pages.SIZES:
        _write(root / "srv/nearmetal" / name, web_pages.make_page(name))
    for source, destination in recipe.files:
        _write(root / destination.lstrip("/"), Path(source).read_bytes(), Path(source).stat().st_mode & 0o777)


def set_ages(root: Path) -> None:
    """Set back the time of whatever is younger than tools.EPOCH."""
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            path = Path(folder, name)
            if path.lstat().st_mtime > build_tools.EPOCH:
                os.utime(path, (build_tools.EPOCH, build_tools.EPOCH), follow_symlinks=False)


def _write(path: Path, content: bytes, permissions: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(permissions)
