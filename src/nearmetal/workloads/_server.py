"""The web servers of a trial: started in the machines under test, waited for through the data network, and stopped."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from nearmetal.errors import ToolFailed
from nearmetal.lab.image import web_pages
from nearmetal.lab.machines import kernel
from nearmetal.model import Cause, Machine, Service, Stage, find_own_address
from nearmetal.workloads._load.document import LoadDocument, parse, require_document
from nearmetal.workloads._parameters import as_time
from nearmetal.workloads._served_parameters import PORTS, ServedParameters
from nearmetal.workloads._stage import SERVER, ended_within, hint_at_loss, last_words, must_connect, stop_all

READY = 60.0
"""Seconds within which a server has to answer, also from an emulated guest whose host is busy."""
POLL = 0.1
"""Seconds between two attempts, so that waiting costs a starting guest little."""
SLACK = 20.0
"""Seconds beyond the requests themselves, to start the program that makes them."""

_PLAIN = "/etc/nearmetal/lighttpd.conf"
_WITH_PHP = "/etc/nearmetal/lighttpd-php.conf"
"""The image's configurations of lighttpd."""

REFUSED = 2
"""Status of a generator that did not begin: over TLS, since the server's certificate was refused."""

PORTS_OF = {"http": 80, "https": 443}
"""What a URL leaves out."""

_SERVE = 'nearmetal starts nothing for a `url`: add [services.NAME] to the study and server = "NAME" to this workload'
_OTHER_PATHS = ", ".join(f"/{name}" for name in web_pages.SIZES)
_REMEDIES = {
    "lighttpd": f"look at `path` or `paths`: lighttpd of the image has /, {_OTHER_PATHS} and /heavy.php",
    "probe": "look at `path` or `paths` of this workload",
    None: "look at `url` of this workload",
}
"""By the server, when an answer says that the request is wrong."""
_OF_A_SERVICE = "look at `path` or `paths` of this workload, and at what the service answers there"


class Servers:
    """What answers the requests of a trial: servers that are started for it, or a service of the user's own."""

    def __init__(
        self,
        parameters: ServedParameters,
        paths: tuple[str, ...],
        words: Callable[[Machine], Sequence[str]] = lambda client: (),
        first: str | None = None,
    ) -> None:
        """`paths` are all that will be asked for; none where the parameters name a URL.

        `words` tell a client's generator of all but the `first`, which is the first of the paths unless it is given.
        """
        self._words = words
        self._first = first or (paths[0] if paths else "/")
        self._parameters = parameters
        self._paths = paths
        self._services: list[Service] = []
        self._ports: Mapping[str, int] = PORTS

    async def start(self, stage: Stage) -> None:
        """Start them and return once they answer. ToolFailed when they do not."""
        if self._parameters.url is None or SERVER in self._parameters.url:
            must_connect(stage, "HTTP")
        self._ports = {**stage.ports, **PORTS}
        if self._parameters.server in PORTS:
            for server in stage.servers:
                self._services.append(await stage.serve(server, self._make_command(server)))
        for index, client in enumerate(stage.clients):
            if index == 0 or stage.connect == "pairs":
                await self._wait_answered(client, stage, index)

    async def stop(self) -> None:
        await stop_all(self._services)

    def make_url(self, server: Machine) -> str:
        if self._parameters.url is not None:
            return self._parameters.url.replace(SERVER, server.address)
        port = self._ports[self._parameters.server or "lighttpd"]
        scheme = self._parameters.scheme
        return f"{scheme}://{server.address}{f':{port}' if port != PORTS_OF[scheme] else ''}{self._first}"

    def _make_command(self, server: Machine) -> list[str]:
        if self._parameters.server == "lighttpd":
            has_php = any(path.partition("?")[0].endswith(".php") for path in self._paths)
            return ["lighttpd", "-D", "-f", _WITH_PHP if has_php else _PLAIN]
        listen = f"{find_own_address(server)}:{PORTS['probe']}"
        writes = self._parameters.writes
        content = ("--body", str(self._parameters.body)) if writes is None else ("--writes", writes)
        delay = ("--delay", as_time(self._parameters.delay)) if self._parameters.delay else ()
        return [server.probe, "serve", "--listen", listen, *content, *delay]

    async def _wait_answered(self, client: Machine, stage: Stage, index: int) -> None:
        """Return once a client got a 200 for every path, through the data network. ToolFailed when it does not come.

        An answer that says the request is wrong (4xx), or is a redirection, will not change by waiting.
        """
        server, blamed = stage.facing(index), hint_at_loss(stage)
        url = self.make_url(server)
        paths = max(1, len(self._paths))
        asking = ["--requests", str(paths), "--workers", "1", "--timeout", as_time(self._parameters.timeout), "--json"]
        argv = [client.probe, "load", url, *self._words(client), *asking]
        until = time.monotonic() + READY
        while True:
            ended = await client.exec(argv, timeout=self._parameters.timeout * paths + SLACK)
            if ended.status == REFUSED and url.startswith("https:"):
                why = ended.complaint.removeprefix("nearmetal-probe: load: ").partition("; ")[0]
                remedy = 'set `tls` of this workload: { ca = "FILE" }, or { insecure = true }'
                raise ToolFailed(why, client.name, remedy)
            document = parse(require_document(ended, "the first request", client), client.name)
            if document.status.get("2xx", 0) == paths:
                return
            if any(document.status.get(name, 0) for name in ("1xx", "3xx", "4xx")):
                asked = url if paths == 1 else f"one of {url} and {', '.join(self._paths[1:])}"
                what = f"{asked} answers {_describe_answer(document)} instead of 200"
                raise ToolFailed(what, client.name, _REMEDIES.get(self._parameters.server, _OF_A_SERVICE))
            if document.errors.refused and self._parameters.url and not self._may_still_boot(stage, server):
                what = f"nothing listens at {url}: the connection was refused"
                raise ToolFailed(what, server.name, _SERVE, cause=Cause.SERVICE_NOT_READY)
            await self._still_starting(index)
            if time.monotonic() > until:
                what = f"{url} did not answer with 200 within {READY:g} s, but with {_describe_answer(document)}"
                remedy = _SERVE if self._parameters.url is not None else ""
                what = f"{what}{blamed}{await self._last_words(index)}"
                raise ToolFailed(what, client.name, remedy, cause=Cause.SERVICE_NOT_READY)

    def _may_still_boot(self, stage: Stage, server: Machine) -> bool:
        """Whether a first process of the user's own may still be starting what serves."""
        if SERVER not in (self._parameters.url or ""):
            return False
        return not server.owned or (stage.spec.brings_image and not kernel.is_its_hosts(server))

    async def _still_starting(self, index: int) -> None:
        """Wait a little. ToolFailed when the server that this client faces has ended meanwhile."""
        if not self._services:
            await asyncio.sleep(POLL)
            return
        ended = await ended_within(self._services[index], POLL)
        if ended is not None:
            how = f"ended with status {ended.status} instead of serving: {last_words(ended)}"
            raise ToolFailed(f"{self._parameters.server} {how}", self._services[index].machine.name)

    async def _last_words(self, index: int) -> str:
        if not self._services:
            return ""
        return f"; {self._parameters.server} said: {last_words(await self._services[index].stop())}"


def _describe_answer(document: LoadDocument) -> str:
    """What came instead of a 200."""
    others = [(code, count) for code, count in document.status_codes.items() if code != "200"]
    replies = [code if count == 1 else f"{count} times {code}" for code, count in others]
    errors = [f"{count} {name}" for name, count in document.errors.by_class.items() if count]
    return ", ".join(replies + errors) or "nothing"
