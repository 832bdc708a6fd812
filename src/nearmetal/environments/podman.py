"""A Podman container: made as a Docker one is, by the API that Podman's service has in common with Docker's engine.

Options in [environments.NAME]: docs/environments.md.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

from nearmetal.environments.docker import DockerEnvironment
from nearmetal.lab.containers.api import PODMAN, Brand, ContainerEngine
from nearmetal.lab.site import must
from nearmetal.model import Handle, Site

_DELETE = 'for runtime in runc crun; do [ ! -e "/run/$runtime/$0" ] || "$runtime" delete --force "$0" || exit; done'


class PodmanEnvironment(DockerEnvironment):
    kind: ClassVar[str] = "podman"
    brand: ClassVar[Brand] = PODMAN
    keepers_runtime: ClassVar[str | None] = None

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
        await must(site, "sh", "-c", _DELETE, container)

    async def destroy(self, handle: Handle, site: Site) -> None:
        await super().destroy(handle, site)
        await _end_monitors(handle.name, site)


def _inspect_container(client: Any, container: str) -> Any:
    answer = client.get(f"{client.base_url}/v4.0.0/libpod/containers/{container}/json")
    answer.raise_for_status()
    return answer.json()


async def _end_monitors(container: str, site: Site) -> None:
    """Podman has a process for each command, which it lets wait for five minutes when the command has ended, although
    its container is gone by then."""
    running = (await must(site, "ps", "-ww", "-e", "-o", "pid=,comm=,args=")).decode("utf-8", "replace")
    if found := list_monitors(running, container):
        await site.exec(["kill", "-KILL", *found])  # those that have ended meanwhile are no loss


def list_monitors(running: str, container: str) -> list[str]:
    """The process ids of a container's monitors, from `ps -o pid=,comm=,args=`. Pure."""
    lines = [line.split() for line in running.splitlines()]
    return [words[0] for words in lines if words[1] == "conmon" and ("-n", container) in pairwise(words)]


plugin = PodmanEnvironment()
