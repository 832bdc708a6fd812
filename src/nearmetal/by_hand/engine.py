"""The engine of a container that is up: nothing else leads into it, and it may be away while the container goes on."""

from nearmetal.errors import HostCannot, MachineLost
from nearmetal.lab.containers.api import Brand, brand_of, ping
from nearmetal.lab.machines.kept import Kept


def brand(kept: Kept) -> Brand | None:
    """None for a machine that is no container, or none yet."""
    return brand_of(kept.handle.kind) if kept.handle else None


async def require(kept: Kept) -> None:
    """MachineLost when it has an engine that does not answer."""
    its = brand(kept)
    if its is None or kept.handle is None:
        return
    try:
        await ping(kept.handle.data["engine"], its)
    except HostCannot as error:
        raise MachineLost(
            f"it cannot be reached: {error.what}",
            kept.name,
            f"start its engine ({its.start}), or remove it: nearmetal down {kept.name}",
        ) from None
