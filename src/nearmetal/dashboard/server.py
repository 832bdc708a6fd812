"""What is served at which address, and until when. On 127.0.0.1 alone."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from nearmetal.dashboard import page
from nearmetal.dashboard.access import Access
from nearmetal.dashboard.host import HostState, LookAtHost
from nearmetal.dashboard.list_view import ListView
from nearmetal.dashboard.live_updates import Live, Parts
from nearmetal.dashboard.run_view import Expect, RunView, expect_nothing, number_of
from nearmetal.errors import BadInput, HostCannot
from nearmetal.report.page import make_policy
from nearmetal.store.run_control import Wish
from nearmetal.system.files import open_regular

HOST = "127.0.0.1"
_RETRY = "retry: 2000\n\n"
"""Milliseconds after which a browser that lost its connection tries again."""
_BEAT = "event: beat\ndata: nothing new\n\n"
"""An event and no comment: a page is told of those alone, and takes a long silence for a connection that is dead."""
_SANDBOX = "sandbox allow-same-origin allow-scripts"
"""A report is made to be read from a file, with its style in it. Of scripts it gets to run the one that this version's
reports have, and no other: whoever wrote the run's folder may have written the page. As a page of this place, which it
is by "same origin", its way back to the run takes the cookie along."""
_KEPT = 8
"""Runs that are kept in memory when nobody looks at them: a large one takes tens of megabytes."""
_WISHES: Mapping[str, Wish | None] = {"pause": "pause", "stop": "stop", "resume": None}
_LINGER = 3
"""Seconds in which answers that have begun may end."""


def open_listener(port: int | None) -> socket.socket:
    """A port of this host's own, or any that is free. HostCannot when it is taken or may not be had."""
    try:
        return socket.create_server((HOST, port or 0))
    except OSError as error:
        where = f"{HOST}:{port}"
        remedy = "name another by --port, or none to take one that is free"
        raise HostCannot(f"this port cannot be had: {os.strerror(error.errno or 0)}", where, remedy) from None


class Dashboard:
    """One run, or all that are known: `places` says which there are now. `expect` says how long their trials take.

    `look_at_host` says what is known of the host; the list of runs asks it twice a second while somebody looks.
    """

    def __init__(
        self,
        places: Callable[[], Sequence[Path]],
        only: Path | None,
        expect: Expect = expect_nothing,
        look_at_host: LookAtHost = HostState,
    ) -> None:
        self._places = places
        self._expect = expect
        self._only = only
        self._closing = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, "looking")
        self._list = self._make_live(ListView(places).render_runs, lambda: page.render_host(look_at_host()))
        self._views: dict[str, tuple[RunView, Live]] = {}

    def make_app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._serve_home),
                Route("/events", self._home_events),
                Route("/runs/{number}", self._run),
                Route("/runs/{number}/events", self._run_events),
                Route("/runs/{number}/report", self._report),
                Route("/runs/{number}/ask/{wish}", self._ask, methods=["POST"]),
                Route("/style.css", _serve_style),
                Route("/live.js", _serve_script),
            ],
            exception_handlers={404: _answer_missing, 405: _answer_missing},
        )

    async def close(self) -> None:
        """Whoever is being told something is told no more."""
        self._closing.set()
        for live in (self._list, *(live for _, live in self._views.values())):
            await live.close()
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _serve_home(self, request: Request) -> Response:
        if self._only is not None:
            return RedirectResponse(f"/runs/{number_of(self._only)}", 303)
        return HTMLResponse(page.render_runs(*await self._list.read_current()))

    async def _home_events(self, request: Request) -> Response:
        return _serve_events(request, self._list)

    async def _run(self, request: Request) -> Response:
        view, live = self._find_run(request)
        version, parts = await live.read_current()
        is_one_of_many = self._only is None
        return HTMLResponse(page.run(view.manifest, view.folder.path, version, parts, is_one_of_many=is_one_of_many))

    async def _run_events(self, request: Request) -> Response:
        return _serve_events(request, self._find_run(request)[1])

    async def _report(self, request: Request) -> Response:
        content = _read_regular(self._find_run(request)[0].folder.page)
        if content is None:
            raise HTTPException(404)
        back = page.report(content, request.path_params["number"])
        return HTMLResponse(back, headers={"Content-Security-Policy": f"{make_policy()}; {_SANDBOX}"})

    async def _ask(self, request: Request) -> Response:
        """204 once the run was asked; 409, with the reason, if it does not take that."""
        view, live = self._find_run(request)
        wish = request.path_params["wish"]
        if wish not in _WISHES:
            raise HTTPException(404)
        try:
            view.ask(_WISHES[wish])
            live.end_rests()
        except (BadInput, OSError) as error:
            return PlainTextResponse(_explain_refusal(error), 409)
        return Response(status_code=204)

    def _find_run(self, request: Request) -> tuple[RunView, Live]:
        """By its number, which is looked for among the runs that are known: no address names a path. HTTPException."""
        number = request.path_params["number"]
        if number not in self._views:
            places = [self._only] if self._only is not None else self._places()
            path = next((path for path in places if number_of(path) == number), None)
            if path is None:
                raise HTTPException(404)
            self._forget_oldest()
            view = RunView(path, self._expect)
            live = self._make_live(view.render_state, view.render_live, view.render_verdicts)
            live.may_disturb = lambda: view.may_be_disturbed
            self._views[number] = (view, live)
        return self._views[number]

    def _forget_oldest(self) -> None:
        """Make room for one more: a run that nobody looks at any more is read again when somebody does."""
        unwatched = [number for number, (_, live) in self._views.items() if not live.is_watched]
        for number in unwatched[: max(0, len(self._views) - _KEPT + 1)]:
            del self._views[number]

    def _make_live(self, *looks: Callable[[], Parts]) -> Live:
        return Live(looks, self._worker, self._closing)


async def _serve_style(request: Request) -> Response:
    return Response(page.read_style(), media_type="text/css")


async def _serve_script(request: Request) -> Response:
    return Response(page.read_script(), media_type="text/javascript")


def _serve_events(request: Request, live: Live) -> Response:
    told = request.headers.get("last-event-id") or request.query_params.get("seen") or ""
    seen = int(told) if told.isdecimal() and len(told) < 16 else -1
    return StreamingResponse(_as_events(live, seen), media_type="text/event-stream")


async def _as_events(live: Live, seen: int) -> AsyncIterator[str]:
    yield _RETRY
    async with contextlib.aclosing(live.watch_changes(seen)) as changes:
        async for change in changes:
            if change is None:
                yield _BEAT
            else:
                version, parts = change
                yield f"id: {version}\ndata: {json.dumps(parts)}\n\n"


def _explain_refusal(error: BadInput | OSError) -> str:
    if isinstance(error, OSError):
        return f"The run's folder cannot be written: {os.strerror(error.errno or 0)}."
    return f"{error.what[:1].upper()}{error.what[1:]}: {error.remedy}."


async def _answer_missing(request: Request, error: Exception) -> Response:
    return HTMLResponse(page.render_missing(), 404)


def _read_regular(path: Path) -> bytes | None:
    """What a file holds; None where there is none, or where a run's folder has something else in its place."""
    try:
        with os.fdopen(open_regular(path, "", os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read()
    except (BadInput, OSError):
        return None


class _DashboardServer(uvicorn.Server):
    """Told to end by an event: the library's own looks ten times a second, beside what is measured, whether to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        await self.ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of its own: who serves says when to end."""
        yield


async def serve_dashboard(dashboard: Dashboard, token: str, listening: socket.socket) -> None:
    """Until cancelled. Connections are closed then, and the port is free again."""
    port = listening.getsockname()[1]
    server = _DashboardServer(
        uvicorn.Config(
            Access(dashboard.make_app(), token, port),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_LINGER,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    finally:
        await dashboard.close()
        server.ending.set()
        await serving
