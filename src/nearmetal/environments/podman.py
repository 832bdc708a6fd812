"""A Podman container: made as a Docker one is, by the API that Podman's service has in common with Docker's engine.

Options in [environments.NAME]: docs/environments.md. An ordinary user has a service of nearmetal's own, and no other
(lab/containers/rootless_podman.py).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

from nearmetal.environments.docker import DockerEnvironment
from nearmetal.lab import rootless
from nearmetal.lab.containers import rootless_podman
from nearmetal.lab.containers.api import PODMAN, Brand, ContainerEngine
from nearmetal.lab.containers.image import is_archive
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import run_checked
from nearmetal.model import EnvironmentSpec, Finding, Handle, MachineSpec, Site
from nearmetal.system import user_namespace

_DELETE = """
for runtime in runc crun; do
    [ ! -e "$1/$runtime/$0" ] || "$runtime" --root "$1/$runtime" delete --force "$0" || exit
done
"""


class PodmanEnvironment(DockerEnvironment):
    kind: ClassVar[str] = "podman"
    brand: ClassVar[Brand] = PODMAN
    keepers_runtime: ClassVar[str | None] = None

    def is_rootless(self, site: Site) -> bool:
        return rootless.lacks_groups(site)

    def locate_engine(self, options: Mapping[str, Any], site: Site) -> str:
        return rootless_podman.ADDRESS if self.is_rootless(site) else super().locate_engine(options, site)

    async def _find_engine(self, address: str, site: Site) -> ContainerEngine:
        if address == rootless_podman.ADDRESS:
            await rootless_podman.ensure_running()
        return await super()._find_engine(address, site)

    async def _check_engine(self, options: Mapping[str, Any], machine: MachineSpec, site: Site) -> list[Finding]:
        found = await super()._check_engine(options, machine, site)
        if self.is_rootless(site):
            detail = "without root containers are made by a service of nearmetal's own alone"
            is_named, remedy = options.get("engine") is not None, "leave it out, or run nearmetal as root"
            found.append(finding("engine", not is_named, detail, remedy))
        return found

    async def _check_image(self, options: Mapping[str, Any], machine: MachineSpec, site: Site) -> list[Finding]:
        if self.is_rootless(site) and machine.brings_image and not is_archive(machine.image):
            remedy = f"podman save -o FILE {machine.image}; then name the path of that file as machine.image"
            return [finding(f"image {machine.image}", False, "a Podman of nearmetal's own has none of yours", remedy)]
        return await super()._check_image(options, machine, site)

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        await super().prepare(spec, machine, site)
        if self.is_rootless(site):
            rootless_podman.remove_temporary()

    async def _require_answer(self, address: str) -> None:
        # `ls` does not enter the namespace, and nobody outside sees the socket.
        if address != rootless_podman.ADDRESS or user_namespace.is_entered():
            await super()._require_answer(address)

    def runtimes(self, info: Mapping[str, Any]) -> list[str]:
        """A service has one: what a container asks for is not heard."""
        return [info["DefaultRuntime"]]

    def remedy(self, what: str) -> str:
        """A service asks for limits of its own, which it may not raise where its starter's are lower."""
        if "rlimit" not in what:
            return ""
        return "start the service with `default_ulimits = []` in its containers.conf: see docs/environments.md (podman)"

    async def runtime_of(self, engine: ContainerEngine, details: Mapping[str, Any]) -> str:
        """Podman's own API tells; the one that is Docker's says "oci" of all of them."""
        return str((await engine.call(_inspect_container, engine.client, details["Id"]))["OCIRuntime"])

    async def clear_runtime(self, container: str, site: Site) -> None:
        """If Podman is killed when its runtime has made a container, it knows of none, and the runtime keeps it."""
        await run_checked(
            site, "sh", "-c", _DELETE, container, str(rootless_podman.RUN) if self.is_rootless(site) else "/run"
        )

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Podman has a process for each command, which it lets wait for five minutes when the command has ended,
        although its container is gone by then. What Podman was to start next when it was killed waits below one for
        ever."""
        await super().destroy(handle, site)
        running = (await run_checked(site, "ps", "-ww", "-e", "-o", "pid=,ppid=,comm=,args=")).decode(
            "utf-8", "replace"
        )
        if found := list_monitors(running, handle.name):
            await site.exec(["kill", "-KILL", *found])  # those that have ended meanwhile are no loss


def _inspect_container(client: Any, container: str) -> Any:
    answer = client.get(f"{client.base_url}/v4.0.0/libpod/containers/{container}/json")
    answer.raise_for_status()
    return answer.json()


def list_monitors(running: str, container: str) -> list[str]:
    """The process ids of a container's monitors, and of their children, from `ps -o pid=,ppid=,comm=,args=`. Pure."""
    lines = [line.split() for line in running.splitlines()]
    monitors = {words[0] for words in lines if words[2] == "conmon" and ("-n", container) in pairwise(words)}
    return [words[0] for words in lines if monitors.intersection(words[:2])]


plugin = PodmanEnvironment()
