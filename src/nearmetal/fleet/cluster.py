"""The sites of a fleet, as the controller reaches them: by a scheduler that stands somewhere, or by one of its own."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import nearmetal
from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot
from nearmetal.fleet import dask, site
from nearmetal.fleet.dask import LOOPBACK, SITE, configure_dask, describe_trouble, refuse_unknown_name
from nearmetal.fleet.messages import BlockOrder, Outcome
from nearmetal.lab import probe
from nearmetal.model.base import NAME

if TYPE_CHECKING:
    from distributed import Client, Future, Security

_OFTEN = 0.1
"""Seconds between two looks whether the first sites are there."""
WORKER_GONE = 1.0
"""Seconds between two looks at which workers there are."""
STALL = LIMITS.boot / 2
"""Seconds that a scheduler may take for an answer. A site may take longer: it is asked through the scheduler."""
ASKED_AT_ONCE = 256
"""Questions to sites on their way. Dask's client has 512 connections, and what else it asks must not wait for one."""
_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s:]+(:[0-9]{1,5})|(tcp|tls)://\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")


_T = TypeVar("_T")


class SiteLost(Exception):
    """A site is gone, with whatever it was doing."""


class _ConnectionLost(SiteLost):
    """A connection on the way to it broke."""


def parse_scheduler(text: str) -> int | None:
    """Of how many sites here it is; None for an address. BadInput."""
    if found := _LOCAL.fullmatch(text):
        return int(found[1])
    if is_address(text):
        return None
    raise BadInput(f"{text!r} is no scheduler", "--scheduler", "write local:4 for four sites here, or tcp://HOST:8786")


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


class Fleet:
    """Sites by their names. Each has one block at a time."""

    def __init__(self, client: "Client", scheduler: str) -> None:
        self.scheduler = scheduler
        self.patience = LIMITS.boot if parse_scheduler(scheduler) is None else LIMITS.stop
        """Seconds to wait for a site when none is there: of those here none comes back."""
        self._client = client
        self._hangs = False
        """The scheduler did not answer for so long that it is not asked any more."""
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)
        self._addresses: dict[str, str] = {}
        self.facts: dict[str, Mapping[str, str]] = {}
        """Of each site that was ever there and may take part."""
        self.kept_to: frozenset[str] | None = None
        """Names of sites, once no others are asked: who joins a run that goes on neither ends nor delays it."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Those that are there now, by their names."""
        return tuple(sorted(self._addresses))

    async def find_sites(self) -> None:
        """Look which workers there are. HostCannot when the scheduler is gone, or a new site may not take part.

        A busy scheduler answers late. That it is gone is told by its connection.
        """
        try:
            workers = (await self._await_answer(self._client.scheduler.identity(n_workers=-1), STALL))["workers"]
        except TimeoutError:
            self._hangs = True
            raise self._make_lost_error(f"it has not answered for {STALL:.0f} s") from None
        except Exception as error:
            raise self._make_lost_error(error) from None
        found = {str(one["name"]): address for address, one in workers.items() if SITE in one.get("resources", {})}
        there = {name: address for name, address in found.items() if self._may_be_asked(name)}
        new = {name: address for name, address in there.items() if self._addresses.get(name) != address}
        self._addresses = {name: address for name, address in there.items() if name not in new}
        # All at once: of a thousand sites one after the other, the last would be met after minutes.
        await asyncio.gather(*(self._meet_site(name, address) for name, address in new.items()))

    async def _meet_site(self, name: str, address: str) -> None:
        with contextlib.suppress(SiteLost):
            facts = await self._ask_address(address, name, site.describe_site)
            _refuse_other_version(name, facts)
            self.facts[name] = facts
            self._addresses[name] = address

    def _may_be_asked(self, name: str) -> bool:
        """Folders are called by sites' names; a worker that was not started by `nearmetal worker` may have any."""
        return re.fullmatch(NAME, name) is not None and (self.kept_to is None or name in self.kept_to)

    async def wait_for_sites(self, count: int, patience: float) -> None:
        """Until so many are there, or for so many seconds. HostCannot as of `find_sites`."""
        end = time.monotonic() + patience
        await self.find_sites()
        while len(self.sites) < count and time.monotonic() < end:
            await asyncio.sleep(_OFTEN)
            await self.find_sites()

    async def ask_site(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of `nearmetal.fleet.site` returns there. SiteLost; the function's own errors.

        It may be called twice.
        """
        try:
            return await self._ask_address(self._find_address(name), name, function, *arguments)
        except _ConnectionLost:
            # A scheduler that stalls lets its own connections to sites break. So a site that it still lists is there.
            return await self._ask_address(self._find_address(name), name, function, *arguments)

    def _find_address(self, name: str) -> str:
        address = self._addresses.get(name)
        if address is None or self._hangs or self._client.status != "running":
            raise SiteLost(f"the site {name} is gone")
        return address

    async def _ask_address(self, address: str, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        async with self._asking:
            try:
                asked = self._client.run(function, *arguments, workers=[address])
                return (await self._await_answer(asked, LIMITS.boot))[address]
            except (KeyError, TimeoutError, ValueError) as error:
                raise SiteLost(f"the site {name} does not answer: {error}") from None
            except OSError as error:
                raise _ConnectionLost(f"the site {name} does not answer: {error}") from None
            except (ImportError, AttributeError) as error:
                raise _other_version(name, str(error)) from None

    async def _await_answer(self, asked: Coroutine[Any, Any, _T], patience: float) -> _T:
        """TimeoutError; OSError when the scheduler's connection is gone: Dask would look for it again and again."""
        answer = asyncio.ensure_future(asked)
        end = time.monotonic() + patience
        try:
            while not (await asyncio.wait({answer}, timeout=min(WORKER_GONE, patience)))[0]:
                if self._client.status != "running":
                    raise ConnectionError("its connection is closed")
                if time.monotonic() > end:
                    raise TimeoutError
            return answer.result()
        finally:
            answer.cancel()

    async def run_order(self, name: str, key: str, order: BlockOrder) -> Outcome:
        """Have a site run a block, and wait for that. SiteLost; HostCannot when the scheduler is gone.

        When this is cancelled, the site is told to end it.
        """
        address = self._addresses.get(name)
        if address is None:
            raise SiteLost(f"the site {name} is gone")
        future = self._client.submit(
            site.run_order,
            order.model_dump_json(),
            key=key,
            pure=False,
            retries=0,
            workers=[address],
            allow_other_workers=False,
            resources={SITE: 1},
        )
        try:
            return await self._wait(name, address, future)
        finally:
            with contextlib.suppress(Exception):
                await self._client.cancel([future], asynchronous=True, force=True)

    async def _wait(self, name: str, address: str, future: "Future[str]") -> Outcome:
        result = asyncio.ensure_future(_take_result(future))
        try:
            while not (await asyncio.wait({result}, timeout=WORKER_GONE))[0]:
                if self._addresses.get(name) != address:
                    raise SiteLost(f"the site {name} is gone")
        finally:
            result.cancel()
        kind, content = result.result()
        if kind == "result":
            return Outcome.model_validate_json(content)
        if self._client.status != "running":
            raise self._make_lost_error(content)
        from distributed.scheduler import KilledWorker

        if kind == "cancelled" or isinstance(content, KilledWorker | OSError):
            self._addresses.pop(name, None)  # until it is seen again
            raise SiteLost(f"the site {name} is gone")
        raise RuntimeError(f"the site {name} broke: {content!r}")

    def _make_lost_error(self, error: object) -> HostCannot:
        what = f"the scheduler is gone: {error}" if str(error) else "the scheduler is gone"
        return HostCannot(what, self.scheduler, "start it and its workers again, then go on with the run")


async def _take_result(future: "Future[str]") -> tuple[str, Any]:
    """How a future ended. Of a lost one Dask says that it was cancelled, and this task was not."""
    try:
        return "result", await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return "cancelled", ""
    except Exception as error:
        return "error", error


def _refuse_other_version(name: str, facts: Mapping[str, str]) -> None:
    own = nearmetal.__version__
    if facts["nearmetal"] != own:
        raise _other_version(name, f"it is of {facts['nearmetal']}, and this is {own}")
    if facts["probe"] != probe.sha256():
        raise _other_version(name, "its probe is another one")


def _other_version(name: str, what: str) -> HostCannot:
    return HostCannot(
        f"the site {name} has another nearmetal: {what}", "--scheduler", "install the same version on each site"
    )


def refuse_other_dask(versions: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """HostCannot if the scheduler or a site has another Dask than this host. Pure.

    `versions` is as `Client.get_versions` tells it, `names` the site of each worker's address.
    """
    own = _list_packages(versions["client"])
    others = {"the scheduler": versions["scheduler"]}
    others |= {f"the site {name}": versions["workers"].get(address) for address, name in names.items()}
    for who, told in others.items():
        for package, version in _list_packages(told).items() if told else ():
            if version != own[package]:
                what = f"{who} has {package} {version}, and this host {own[package]}"
                raise HostCannot(what, "--scheduler", "install the same version of Dask everywhere")


def _list_packages(told: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(told["packages"].get(name)) for name in ("dask", "distributed")}


@asynccontextmanager
async def open_fleet(scheduler: str) -> AsyncIterator[Fleet]:
    """Reach a fleet's sites. BadInput, HostCannot: nothing answers, no site is there, or one may not take part."""
    count = parse_scheduler(scheduler)
    configure_dask()
    if count is None:
        async with reach_scheduler(scheduler, scheduler, None, 1, LIMITS.stop) as fleet:
            yield fleet
        return
    from distributed import Scheduler, Security

    security = Security.temporary()  # whoever reaches a scheduler runs code: on this host others may
    async with (
        Scheduler(
            host="127.0.0.1",
            port=0,
            protocol="tls",
            security=security,
            dashboard=False,
            dashboard_address=LOOPBACK,
            allowed_failures=0,
        ) as own,
        _start_workers(own.address, count, security),
        reach_scheduler(own.address, scheduler, security, count, LIMITS.boot) as fleet,
    ):
        yield fleet


@asynccontextmanager
async def reach_scheduler(
    address: str, scheduler: str, security: "Security | None", count: int, patience: float
) -> AsyncIterator[Fleet]:
    """Wait for so many sites, or so many seconds for any."""
    from distributed import Client

    await refuse_unknown_name(address)
    try:
        client = await Client(address, asynchronous=True, security=security, timeout=dask.CONNECT, set_as_default=False)
    except Exception as error:
        raise describe_trouble(error, scheduler) from None
    try:
        # Over TLS a connection takes an answer of the scheduler: one that is busy answers late.
        client.rpc.timeout = STALL
        fleet = Fleet(client, scheduler)
        try:
            async with asyncio.timeout(LIMITS.command):
                versions = await client.get_versions(check=False)
                workers = (await client.scheduler.identity(n_workers=-1))["workers"]
        except Exception as error:
            raise describe_trouble(error, scheduler) from None
        refuse_other_dask(versions, {where: str(one["name"]) for where, one in workers.items()})
        await fleet.wait_for_sites(count, patience)
        if not fleet.sites:
            remedy = f"start one on each site: nearmetal worker {scheduler}"
            raise HostCannot("no worker of nearmetal is there", scheduler, remedy)
        yield fleet
    finally:
        with contextlib.suppress(Exception):
            await client.close(timeout=LIMITS.stop)


@asynccontextmanager
async def _start_workers(address: str, count: int, security: "Security") -> AsyncIterator[None]:
    """Processes that end with the scheduler, which is in this one."""
    told = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": security.tls_ca_file,
        "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT": security.tls_worker_cert,
        "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY": security.tls_worker_key,
    }
    workers: list[asyncio.subprocess.Process] = []
    try:
        for number in range(count):
            command = (sys.executable, "-m", "nearmetal.fleet.worker", address, f"local-{number}")
            workers.append(
                await asyncio.create_subprocess_exec(
                    *command, stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **told}, start_new_session=True
                )
            )
        yield
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(signal.SIGTERM)
        for worker in workers:
            try:
                async with asyncio.timeout(2 * LIMITS.boot):
                    await worker.wait()
            except TimeoutError:
                worker.kill()
                await worker.wait()


__all__ = ["Fleet", "SiteLost", "is_address", "open_fleet", "parse_scheduler", "reach_scheduler", "refuse_other_dask"]
