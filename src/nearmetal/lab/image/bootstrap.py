"""Debian by mmdebstrap: the packages of the root file system, and the kernel's, fetched beside it."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from nearmetal.errors import BadInput, HostCannot, NearmetalError, ToolFailed
from nearmetal.lab.architecture import HERE
from nearmetal.model import DebianPackage

from . import apt, build_tools
from .recipe import FILES, Recipe

_SCRATCH = "/run/lock"
"""Where mmdebstrap has folders of its own, one of which it forgets: covered, so that they go with its mount namespace.
The name has to be short, for sockets are made below it."""

_WITH_SCRATCH = 'mkdir -p "$0" && mount -t tmpfs -o mode=755 tmpfs "$0" && exec "$@"'

_UNREACHABLE = re.compile(
    "Could not resolve|Temporary failure resolving|Could not connect|Unable to connect|Connection failed|timed out"
)
_EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")


async def make_debian(recipe: Recipe, root: Path, kernel: Path, progress: Callable[[str], None]) -> None:
    """Make `root` from the recipe's packages; put the packages of the kernel and of busybox into `kernel`.

    `read_packages` reads there what both were made of.
    """
    sources, options = await apt.find_sources(recipe.suite, root.parent)
    listed = kernel / "sources.list"
    listed.write_text(sources, "utf-8")
    fetch = shlex.join(("sh", str(FILES / "fetch-kernel"), str(kernel), HERE.kernel, "busybox-static"))
    list_packages = shlex.join(("sh", str(FILES / "list-packages"), str(kernel)))
    argv = (
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=minbase",
        f"--architectures={HERE.debian}",
        f"--include={','.join(recipe.all_packages)}",
        # What is being made can be made again: the file system need not be flushed after each package.
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
        *(f"--aptopt={option}" for option in options),
        f"--customize-hook={fetch}",
        f'--customize-hook={list_packages} "$1"',
        recipe.suite,
        str(root),
        str(listed),
    )

    def heard(line: str) -> None:
        if line.startswith("I: ") and "done" not in line:
            progress(line[3:].rstrip("."))

    status, text = await build_tools.run(
        ("sh", "-c", _WITH_SCRATCH, _SCRATCH, *argv),
        folder=root.parent,
        temporary=_SCRATCH,
        heard=heard,
    )
    if status != 0:
        raise explain(text, recipe)


def explain(text: str, recipe: Recipe) -> NearmetalError:
    """The error that says what a failing mmdebstrap's output means."""
    suite = f"suite {recipe.suite}"
    unknown = re.findall(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate", text)
    if unknown:
        names = ", ".join(sorted({a or b for a, b in unknown}))
        return BadInput(f"Debian has no package {names}", suite, "apt-cache search finds packages' names")
    if "No space left on device" in text:
        return HostCannot("the disk is full", remedy="free about 2 GB in the cache folder, or set NEARMETAL_HOME")
    if _UNREACHABLE.search(text):
        remedy = "check the network and the sources and proxies of apt"
        return HostCannot("the package archive cannot be reached", suite, remedy)
    if re.search(r"does not have a Release file|404 +Not Found", text):
        what = "the package archive does not have this suite or package any more"
        return HostCannot(what, suite, "run: apt-get update; name a suite that exists")
    if re.search(r"NO_PUBKEY|is not signed|couldn't be verified", text):
        what = "the package archive's signature cannot be checked"
        return HostCannot(what, suite, "apt-get install debian-archive-keyring")
    if re.search(r"unshare.*(Operation not permitted|failed)", text):
        return HostCannot("namespaces cannot be made here", remedy="run as root outside an unprivileged container")
    lines = [line for line in text.splitlines() if line.startswith("E: ")] or text.splitlines()[-3:]
    return ToolFailed("mmdebstrap failed: " + "; ".join(lines), suite)


async def unpack_packages(packages: Path, out: Path) -> None:
    """Unpack every package file in a folder below `out`."""
    for package in sorted(packages.glob("*.deb")):
        await build_tools.run_checked(("dpkg-deb", "--extract", str(package), str(out)), packages, package.name)


def read_packages(kernel: Path) -> dict[str, DebianPackage]:
    """What `debian` made root and kernel of, by package name. ToolFailed if apt's lists have no hash of one."""
    found = {}
    for stanza in (kernel / "packages").read_text("utf-8").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines())
        if not fields:
            continue
        name = fields["Package"]
        if "SHA256" not in fields:
            raise ToolFailed(f"apt's lists have no SHA-256 of the package {name}", remedy="run: apt-get update")
        found[name] = DebianPackage(version=fields["Version"], sha256=fields["SHA256"])
    return dict(sorted(found.items()))
