"""From a host's name in a study to a site."""

from collections.abc import Mapping

from nearmetal.errors import HostCannot
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.site import LocalSite
from nearmetal.model import HostSpec, Site


def opener(hosts: Mapping[str, HostSpec]) -> OpenSite:
    """A function that reaches the hosts of a study."""

    async def open_site(name: str) -> Site:
        if name == "local":
            return LocalSite()
        raise HostCannot(
            f"the host {name!r} ({hosts[name].ssh}) is remote, and machines can only be placed on this host so far",
            remedy='use host = "local"',
        )

    return open_site
