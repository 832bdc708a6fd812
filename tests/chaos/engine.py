"""A Docker engine of a campaign's own, which is killed, and started again as an administrator would."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.shared_engine import find_engine, shared_engine
from tests.waiting import wait_until


class KilledEngine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._keeping = shared_engine(folder)

    def __enter__(self) -> Self:
        self.url = self._keeping.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeping.__exit__(kind, error, trace)

    def restart(self) -> None:
        """Kill its keeper too; the next sweeps what is left, and starts another."""
        for pid in self._keepers():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_engine(self.folder) is None)
        self._keeping.__exit__(None, None, None)
        self._keeping = shared_engine(self.folder)
        self.url = self._keeping.__enter__()

    def _keepers(self) -> Iterator[int]:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"tests.shared_engine" in words and os.fsencode(self.folder) in words:
                    yield int(process.name)
