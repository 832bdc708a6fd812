"""The dashboard, served for a browser."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearmetal.dashboard import server
from nearmetal.dashboard.run_view import number_of
from nearmetal.store.run_folder import RunFolder
from tests.browser.page import Page

TOKEN = "t0ken"


@contextmanager
def served(path: Path, port: int | None = None, token: str = TOKEN) -> Iterator[int]:
    """In a thread of this process, until left: the port."""
    ready = threading.Event()
    listening = server.open_listener(port)
    stop: list[Any] = []

    async def serve() -> None:
        task = asyncio.ensure_future(server.serve_dashboard(server.Dashboard(lambda: [path], path), token, listening))
        stop.append((asyncio.get_running_loop(), task))
        ready.set()
        await asyncio.wait({task})

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield listening.getsockname()[1]
    finally:
        loop, task = stop[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        listening.close()


def opened(tab: Page, folder: RunFolder, port: int) -> None:
    """By the address that the dashboard prints, and followed."""
    tab.open(f"http://127.0.0.1:{port}/runs/{number_of(folder.path)}?token={TOKEN}")
    tab.until("document.getElementById('link').textContent.match(/updates itself|has ended/)")
