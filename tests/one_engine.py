"""Reports whose pictures are drawn by this process: the engine, which takes a second of a CPU to start, starts once.

Elsewhere each report has two processes to draw, which start it anew. The pictures are the same, byte for byte.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pytest

from nearmetal.report import write
from nearmetal.report.drawing import Picture, Spec, draw, svg


class Here:
    """As `Drawers`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def draw(self, specs: Sequence[Spec], also_png: Sequence[bool]) -> list[Picture]:
        travelled = (json.loads(json.dumps(dict(spec))) for spec in specs)
        return [draw(spec) if png else Picture(svg(spec)) for spec, png in zip(travelled, also_png, strict=True)]


@contextmanager
def one_engine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(write, "Drawers", Here)
        yield
