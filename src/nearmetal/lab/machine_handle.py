"""The handle of a machine, which the ledger has before the machine exists, and where its files lie."""

from typing import Any

from nearmetal.lab.machine_image import describe_image
from nearmetal.model import Handle, MachineImage, Order, Site


def name_folder(name: str, site: Site) -> str:
    """Where a machine of that name has its files on its site. Its environment removes them with the machine. Pure."""
    return f"{site.state}/machines/{name}"


def make_handle(kind: str, order: Order, site: Site, image: MachineImage | None = None, **data: Any) -> Handle:
    """A handle for the ledger, written before the machine exists.

    It has what is known of every machine of ours; `data` are JSON values for the plugin of this `kind` alone.
    """
    return Handle(
        kind=kind,
        name=order.name,
        site=site.name,
        role=order.role,
        port=order.port,
        shared=order.shared,
        image=image or MachineImage(name=describe_image(order.spec.image)),
        data=data,
    )
