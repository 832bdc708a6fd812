"""Reports whose pictures are drawn by this process: the engine, which takes a second of a CPU to start, starts once.

Elsewhere each report has a process to draw, which starts it anew. The pictures are the same, byte for byte. One that
was drawn before is not drawn again: most tests write reports of the same few runs.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Self

import pytest

from nearmetal.report import write
from nearmetal.report.drawing import Begun, Picture, Spec, Undrawn, draw_picture, draw_svg
from tests.one_picture import OnePicture


class Here:
    """As `Drawers`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin_drawing(self, spec: Spec, png: bool) -> Begun:
        begun = Future[Picture | Undrawn]()
        begun.set_result(_draw(json.dumps(dict(spec)), png))
        return begun


@cache
def _draw(travelled: str, png: bool) -> Picture:
    spec = json.loads(travelled)
    return draw_picture(spec) if png else Picture(draw_svg(spec))


@contextmanager
def one_engine(drawers: type[Here] | type[OnePicture] = Here) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(write, "Drawers", drawers)
        yield
