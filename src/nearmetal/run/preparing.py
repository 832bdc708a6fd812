"""What machines are made of, ready before the clock of a run starts: the lab's image, and what environments do once."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.image.image import Image
from nearmetal.lab.lab import OpenSite
from nearmetal.model import SAME, Resolved, Study
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
            found[name] = lab_machine.find_image(name)
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
                plugin = plugins.load("environments", environment.kind)
                await plugin.prepare(environment.spec, machine, await open_site(machine.host))
