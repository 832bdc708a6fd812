"""A Podman container: made as a Docker one is, by the API that Podman's service has in common with Docker's engine.

Options in [environments.NAME]: `engine`, the URL of its socket (else CONTAINER_HOST, else the usual one), and
`runtime`, which must be the one that the service was started with: it takes no other for a container.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from nearmetal.environments.docker import DockerEnvironment
from nearmetal.lab.containers.api import PODMAN, Brand, ContainerEngine
from nearmetal.model import Handle, Site


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

    async def destroy(self, handle: Handle, site: Site) -> None:
        await super().destroy(handle, site)
        await asyncio.to_thread(_end_monitors, handle.name)


def _inspect_container(client: Any, container: str) -> Any:
    answer = client.get(f"{client.base_url}/v4.0.0/libpod/containers/{container}/json")
    answer.raise_for_status()
    return answer.json()


def _end_monitors(container: str) -> None:
    """Podman has a process for each command, which it lets wait for five minutes when the command has ended, although
    its container is gone by then."""
    for pid in _list_monitors(container):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _list_monitors(container: str) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if Path(os.fsdecode(words[0])).name == "conmon" and (b"-n", container.encode()) in pairwise(words):
                yield int(process.name)


plugin = PodmanEnvironment()
