"""What a run was made with, by name and version: nearmetal itself, its image, and what makes the machines."""

import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import machine_image, probe
from nearmetal.lab.image.image import Image
from nearmetal.lab.lab import OpenSite
from nearmetal.model import SAME, Plan, Resolved, ResolvedEnvironment, Study
from nearmetal.store.manifest import Manifest
from nearmetal.study.resolve import resolve_environment
from nearmetal.study.treatment_request import image_beside


def makes_machines(study: Study) -> bool:
    """Whether any of its machines are made by us, of the image. Pure."""
    levels = {str(level) for level in study.factors["environment"].levels} | ({study.clients.environment} - {SAME})
    return any(resolve_environment(study, level).description.is_on_switch for level in levels)


def lacks_image(study: Study) -> bool:
    """Whether the lab image is still to be built."""
    if not makes_machines(study):
        return False
    from nearmetal.lab.image import Recipe
    from nearmetal.lab.image.store import folder_of

    recipe = Recipe()
    return not folder_of(recipe.name, recipe.key, Paths.default().cache).is_dir()


async def build_image(study: Study, say: Callable[[str], None]) -> None:
    """The lab's, once, where a machine of ours needs it. HostCannot."""
    if makes_machines(study):
        from nearmetal.lab.image import Recipe, build

        await build(Recipe(), Paths.default().cache, say)


def find_images(resolved: Iterable[Resolved]) -> dict[str, Image]:
    """All images of ours that machines are made of, by name."""
    names: set[str] = set()
    for one in resolved:
        names |= {one.server.image, image_beside(one.server)}
        names |= {one.clients.machine.image} if one.clients.machine else set()
    found = {}
    for name in sorted(names):
        with suppress(HostCannot):  # the user's own, or of no machine of ours
            found[name] = machine_image.find_image(name)
    return found


async def prepare_environments(manifest: Manifest, open_site: OpenSite) -> None:
    """What each environment does once for all its machines of a shape."""
    prepared: set[tuple[str, str]] = set()
    for one in manifest.plan.resolved:
        clients = one.clients
        of_clients = clients.machine or one.server.model_copy(update={"image": image_beside(one.server)})
        for environment, machine in (
            (one.environment, one.server),
            *((clients.environment, of_clients.model_copy(update={"host": host})) for host in clients.places),
        ):
            key = (environment.model_dump_json(), machine.model_dump_json())
            if key not in prepared:
                prepared.add(key)
                plugin, site = plugins.load("environments", environment.kind), await open_site(machine.host)
                with plugins.blame_package("environments", environment.kind):
                    await plugin.prepare(environment.spec, machine, site)


_PACKAGES = ("numpy", "docker", "asyncssh", "qemu.qmp")
_MEASURED_WITH = ("lighttpd", "php-cgi", "sysbench", "iperf3", "httperf")
"""Debian packages of the image that serve, or measure."""


async def collect_versions(study: Study, plan: Plan, open_site: OpenSite) -> Mapping[str, str]:
    return {**_read_own_versions(), **_read_image_versions(study), **await _read_maker_versions(plan, open_site)}


def other_versions(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is another version now, or is no more: as it was, and as it is ("none"). Pure."""
    return {name: (one, now.get(name, "none")) for name, one in before.items() if now.get(name) != one}


def _read_own_versions() -> Mapping[str, str]:
    commit = commit_of(Path(__file__))
    return {
        "nearmetal": version("nearmetal"),
        **({"its commit": commit} if commit else {}),
        "its probe, SHA-256": probe.sha256(),
        "Python": platform.python_version(),
        **{f"Python package {package}": version(package) for package in _PACKAGES},
    }


def commit_of(file: Path) -> str | None:
    """The commit of the checkout that tracks this file, with `-dirty` where files differ from it; None without one."""

    def run_git(*words: str) -> str:
        asked = ("git", "-C", str(file.parent), *words)
        return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=30).stdout.strip()

    try:
        # A package installed somewhere below another project's checkout is none of its files.
        run_git("ls-files", "--error-unmatch", file.name)
        return run_git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _read_image_versions(study: Study) -> Mapping[str, str]:
    """What runs in the machines; nothing where no machine of ours needs an image."""
    try:
        image = machine_image.find_image(study.machine.image)
    except HostCannot:
        return {}
    packages = image.manifest["packages"]
    return {
        f"image {image.name}": image.digest[:12],
        "its kernel, for guests": image.manifest["kernel"],
        **{f"its {name}": packages[name] for name in _MEASURED_WITH if name in packages},
    }


async def _read_maker_versions(plan: Plan, open_site: OpenSite) -> Mapping[str, str]:
    """Of what makes the machines, on each of their hosts."""
    placed: dict[tuple[str, str], ResolvedEnvironment] = {}
    for one in plan.resolved:
        placed[one.environment.level, one.server.host] = one.environment
    for one in plan.resolved:
        for host in one.clients.places:
            placed.setdefault((one.clients.environment.level, host), one.clients.environment)
    found: dict[str, str] = {}
    for (_, host), environment in placed.items():
        site = await open_site(host)
        plugin = plugins.load("environments", environment.kind)
        with plugins.blame_package("environments", environment.kind):
            programs = await plugin.versions(environment.options, site)
            found |= {name if site.spec is None else f"{name} on {site.name}": one for name, one in programs.items()}
    return found
