"""What we ask of Dask before it is used: that it is there, quiet, and never repeats a block by itself."""

import asyncio
import logging
import socket
import ssl
from urllib.parse import urlsplit

from nearmetal.errors import HostCannot, message_of
from nearmetal.optional_dependencies import describe_install

LOOPBACK = "127.0.0.1:0"
"""Where Dask's pages about itself go, which nobody asked for."""
CONNECT = 10.0
"""Seconds for a scheduler to answer."""
_NAME_IT = "start it (`dask scheduler`), or name the address that it prints"
SITE = "site"
"""The resource that a worker has one of, and that each block takes."""


def configure_dask() -> None:
    """HostCannot if it is not installed."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError as error:
        what = f"a fleet takes Dask, which is not installed: {error}"
        raise HostCannot(what, "", describe_install("distributed")) from None
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 0,
            # It would look at the stack of each thread a hundred times a second, while something is measured.
            "distributed.worker.profile.enabled": False,
            # And wake fifty times a second to see whether its loop comes round.
            "distributed.admin.tick.interval": "1s",
            "distributed.admin.system-monitor.interval": "5s",
            "distributed.comm.timeouts.connect": f"{CONNECT:g}s",
        }
    )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


async def refuse_unknown_name(scheduler: str) -> None:
    """HostCannot if the host in a scheduler's address has none. Dask would look for it again and again meanwhile."""
    try:
        await asyncio.get_running_loop().getaddrinfo(urlsplit(scheduler).hostname, None)
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) else "it is no name of a host"
        raise HostCannot(f"its host is not known here: {why}", scheduler, _NAME_IT) from None


def describe_trouble(error: BaseException, scheduler: str) -> HostCannot:
    """Why a scheduler cannot be reached."""
    said = f"nothing came for {CONNECT:g} s" if isinstance(error, TimeoutError) else message_of(error)
    causes = [error, error.__cause__, error.__context__]
    if any(isinstance(one, ssl.SSLError) for one in causes) or "TLS" in said or "encryption" in said.lower():
        remedy = "write tls://HOST:PORT, and say in Dask's configuration which certificates it takes"
        return HostCannot(f"the scheduler speaks TLS, or was to speak it: {said}", scheduler, remedy)
    return HostCannot(f"no scheduler answers there: {said}", scheduler, _NAME_IT)
