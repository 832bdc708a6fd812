"""A scheduler whose host nobody knows is refused at once."""

import socket
from typing import NoReturn

import pytest

from nearmetal.errors import HostCannot
from nearmetal.fleet.cluster import open_fleet
from nearmetal.fleet.worker import run_worker


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is known, and Dask is not asked."""

    def resolve(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for name in ("Client", "Worker"):
        monkeypatch.setattr(f"distributed.{name}", pytest.fail)


async def test_a_run_on_it() -> None:
    with pytest.raises(HostCannot, match="its host is not known here: Name or service not known") as refused:
        async with open_fleet("tcp://nowhere.invalid:8786"):
            pass
    assert (refused.value.where, refused.value.remedy[:8]) == ("tcp://nowhere.invalid:8786", "start it")


def test_a_worker_for_it() -> None:
    with pytest.raises(HostCannot, match="its host is not known here"):
        run_worker("tcp://nowhere.invalid:8786", "lab1", print)
