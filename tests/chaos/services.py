"""Services of a campaign's own, which are killed, and started again as an administrator would."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest import mock

from tests.shared_engine import find_engine, shared_engine
from tests.waiting import wait_until


class KilledService:
    """`serve` runs one as long as its context lasts, with its data in a folder, and returns its URL."""

    def __init__(self, folder: Path, serve: Callable[[Path], AbstractContextManager[str]]) -> None:
        self.folder = folder
        self._serve = serve
        self._serving = serve(folder)
        self._environment = dict(os.environ)
        self.url = ""

    def __enter__(self) -> Self:
        self.url = self._serving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__(kind, error, trace)

    def restart(self) -> None:
        self._serving.__exit__(None, None, None)
        self._serving = self._serve(self.folder)
        with mock.patch.dict(os.environ, self._environment, clear=True):
            self.url = self._serving.__enter__()


class KilledEngine(KilledService):
    """A Docker engine. A process of its own keeps it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, shared_engine)

    def restart(self) -> None:
        """Kill its keeper too; the next sweeps what is left, and starts another."""
        for pid in self._keepers():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_engine(self.folder) is None)
        super().restart()

    def _keepers(self) -> Iterator[int]:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"tests.shared_engine" in words and os.fsencode(self.folder) in words:
                    yield int(process.name)
