"""A lab's switch: made under a name that is free, and known to the ledger before it is made."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.networks import network
from nearmetal.model import Completed, Handle, Site


class Host:
    """With these network namespaces. It notes what is done, and what the ledger hears of."""

    name = "local"

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = list(namespaces)
        self.done: list[str] = []

    async def exec(self, argv: Sequence[str], **_: Any) -> Completed:
        match list(argv):
            case ["ip", "netns", "list"]:
                return Completed(status=0, stdout="".join(f"{one} (id: 1)\n" for one in self.namespaces).encode())
            case ["ip", "netns", "add" | "delete" as what, name]:
                self.done.append(f"{what} {name}")
        return Completed(status=0)

    def creating(self, handle: Handle) -> None:
        self.done.append(f"ledger {handle.name}")


async def test_a_namespace_of_somebody_elses_is_refused_and_stays() -> None:
    host = Host("nm-1", "theirs")
    with pytest.raises(HostCannot, match="namespace nm-1 already"):
        await network.create_switch("nm-1", cast(Site, host), host)
    assert host.done == [], "what the ledger has is deleted at the end"


async def test_the_ledger_hears_of_a_switch_before_it_is_made() -> None:
    host = Host("nm-10")
    handle = await network.create_switch("nm-1", cast(Site, host), host)
    assert host.done == ["ledger nm-1", "add nm-1"]
    await network.destroy_switch(handle, cast(Site, host))
    assert host.done == ["ledger nm-1", "add nm-1"], "it is gone already"
