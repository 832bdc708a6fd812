"""The dashboard in a real browser: what is pushed appears, nothing is wider than the screen, names run no script."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from nearmetal.dashboard import server
from nearmetal.dashboard.access import Access
from nearmetal.dashboard.run_view import number_of
from nearmetal.store.claim import hold_journal
from nearmetal.store.folder import RunFolder
from tests import journals
from tests.browser.chromium import NEEDED, chromium
from tests.golden.make_run import FOLDER
from tests.unit.test_dashboard_page import HOSTILE

pytestmark = NEEDED

TOKEN = "t0ken"

MEASURE = """
const until = (there) => new Promise((go) => {
  const look = () => there() ? go() : setTimeout(look, 20);
  look();
});
const squares = (fate) => document.querySelectorAll(`.rows li.${fate}`).length;
const first = { state: document.querySelector(".state").textContent, ok: squares("ok") };
const heading = () => document.querySelector("#verdicts h2").textContent;
until(() => document.querySelector(".state.ended") && squares("to-come") === 0 && heading() === "Verdicts").then(() => {
  const body = document.documentElement;
  const shown = [...document.querySelectorAll(".picture")].filter((picture) => picture.offsetWidth > 0);
  fetch("/seen?" + encodeURIComponent(JSON.stringify({
    first,
    ok: squares("ok"),
    title: document.title,
    foot: document.getElementById("link").textContent,
    width: body.clientWidth,
    scroll: body.scrollWidth,
    pictures: shown.filter((picture) => picture.offsetWidth > 250 && picture.offsetHeight > 60).length,
    badges: [...document.querySelectorAll(".badge")].map((badge) => badge.textContent),
    scripts: document.querySelectorAll("script:not([src])").length,
    alerted: window.alerted ?? 0,
  })));
});
"""
"""Looks before anything is pushed and when the run has ended, and tells the server what it saw."""


@dataclass
class Looked:
    """The dashboard as a browser with the token gets it, and a script in its pages that tells what it sees.

    The page's last picture comes when that was told: until then the browser waits.
    """

    inside: Access
    follows: threading.Event = field(default_factory=threading.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    seen: dict[str, Any] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._own(scope)
        if answer is not None:
            await answer(scope, receive, send)
            return
        if scope["path"].endswith("/events"):
            self.follows.set()
        cookie = (b"cookie", f"nearmetal-1={TOKEN}".encode())
        scope = {**scope, "headers": [*scope["headers"], cookie]}
        await self.inside(scope, receive, _with_script(send))

    async def _own(self, scope: Scope) -> Response | None:
        match scope["path"]:
            case "/measure.js":
                return Response(MEASURE, media_type="text/javascript")
            case "/held.png":
                await self.told.wait()
                return PlainTextResponse("")
            case "/seen":
                self.seen = json.loads(unquote(scope["query_string"].decode()))
                self.told.set()
                return PlainTextResponse("")
        return None


def _with_script(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [one for one in message["headers"] if one[0] != b"content-length"]
            message = {**message, "headers": headers}
        elif b"</body>" in message.get("body", b""):
            more = b'<script src="/measure.js"></script><img src="/held.png" alt=""></body>'
            message = {**message, "body": message["body"].replace(b"</body>", more)}
        await send(message)

    return sending


@contextmanager
def serving(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Looked, int]]:
    """In a thread of this process, until left."""
    ready, looks = threading.Event(), []
    listening = server.open_listener(None)
    stop: list[Any] = []

    async def serve() -> None:
        shown = server.Dashboard(lambda: [path], path)
        looks.append(Looked(Access(shown.make_app(), TOKEN, 1)))
        monkeypatch.setattr(server, "Access", lambda *_: looks[0])
        task = asyncio.ensure_future(server.serve_dashboard(shown, TOKEN, listening))
        stop.append((asyncio.get_running_loop(), task))
        ready.set()
        await asyncio.wait({task})

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield looks[0], listening.getsockname()[1]
    finally:
        loop, task = stop[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        listening.close()


@pytest.mark.parametrize(("width", "name"), [(1400, "slow"), (500, "slow"), (500, HOSTILE), (1400, "x" * 100)])
def test_what_is_pushed_appears(width: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    called = json.dumps(name.replace("alert", "window.alerted=1;alert"))
    journals.rewrite_run(folder.path, lambda text: text.replace('"slow"', called))
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:40]))
    with serving(folder.path, monkeypatch) as (looked, port):
        address = f"http://127.0.0.1:{port}/runs/{number_of(folder.path)}"
        words = ("--dump-dom", f"--window-size={width},1200", address)
        browser = threading.Thread(target=chromium, args=(tmp_path / "profile", *words))
        with hold_journal(folder.journal):
            browser.start()
            assert looked.follows.wait(120)
            with folder.journal.open("ab") as out:
                out.write(b"".join(lines[40:]))
        browser.join(240)
    seen = looked.seen
    assert seen["first"]["state"] == "running"
    assert seen["first"]["ok"] < seen["ok"] == 16
    assert seen["title"] == "ended, 16 trials, 8 blocks: golden"
    assert seen["foot"] == "This run has ended."
    assert seen["scroll"] == seen["width"] == width
    assert seen["pictures"] >= 1
    assert "different, worse" in seen["badges"]
    assert (seen["scripts"], seen["alerted"]) == (0, 0)
