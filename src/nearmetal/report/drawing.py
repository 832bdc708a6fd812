"""Specifications to pictures: SVG and PNG, the same bytes for the same specification. No network, no browser.

Starting the engine takes most of a second and a page has many pictures, so `Drawers` have a process of its own that
gets ready while this one reads the run, and draws what is begun while it writes the next chapters. There is one engine:
a second takes more to start, and to draw its first pictures slowly, than it saves.

The process is `python -m nearmetal.report.drawing`. Both sides append to a file of memory, and tell the other by a pipe
how much they have appended. So neither waits until the other reads, and this process needs no thread: it may fork.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Never, Protocol

from nearmetal.control_characters import strip_controls
from nearmetal.errors import HostCannot, ToolFailed

Spec = Mapping[str, Any]

_SHARP = 2
"""Pixels of a PNG for one of the page's: sharp on screens of today."""

_LARGE = 400_000
"""Square pixels of the page from which one for one will do."""

_TOO_LARGE = 900_000
"""Square pixels of the page beyond which a report has no PNG of a picture: nobody puts fifty rows on a slide, and the
SVG has them sharp."""

_PATIENCE = 300.0
"""Seconds for all pictures of a report."""

_IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')
_SIZE = re.compile(r'<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"')


@dataclass(frozen=True)
class Picture:
    """One drawn picture, as SVG, and as PNG where that was asked for and the picture is not too large (else empty)."""

    svg: str
    png: bytes = b""


@dataclass(frozen=True)
class Undrawn:
    """What the engine says of a specification that is none."""

    why: str


class Begun(Protocol):
    """A picture that is being drawn."""

    def result(self, timeout: float | None = None) -> Picture | Undrawn:
        """The picture, once it is there. TimeoutError after so many seconds."""
        ...


INSTALL_ENGINE = "pip install vl-convert-python"
"""The engine has 85 MB, more than half of everything else, and a verdict needs no picture."""


def has_engine() -> bool:
    """Whether pictures can be drawn here."""
    return find_spec("vl_convert") is not None


def require_engine() -> None:
    """HostCannot if pictures cannot be drawn here."""
    if not has_engine():
        raise HostCannot("vl-convert-python, which draws pictures, is not installed", remedy=INSTALL_ENGINE)


def draw_picture(spec: Spec) -> Picture:
    """Draw a Vega-Lite specification: one that names an address is an error. HostCannot if there is no engine."""
    picture = draw_svg(spec)
    return Picture(picture, _convert_to_png(picture))


def draw_svg(spec: Spec) -> str:
    """A Vega-Lite specification as SVG. HostCannot if the engine is not installed."""
    require_engine()
    import vl_convert

    return _make_unique(vl_convert.vegalite_to_svg(_strip_characters(spec), allowed_base_urls=[]))


def _strip_characters(part: Any) -> Any:
    """A specification without characters that XML has not: the engine ends its process where it meets one in a text."""
    if isinstance(part, str):
        return strip_controls(part)
    if isinstance(part, Mapping):
        return {_strip_characters(name): _strip_characters(value) for name, value in part.items()}
    return [_strip_characters(value) for value in part] if isinstance(part, list | tuple) else part


def _convert_to_png(svg: str) -> bytes:
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg, scale=1 if _measure_area(svg) > _LARGE else _SHARP))


def _measure_area(svg: str) -> float:
    size = _SIZE.match(svg)
    return float(size[1]) * float(size[2]) if size else 0.0


def _make_unique(svg: str) -> str:
    """Identifiers that stay apart when several drawings stand in one page."""
    mark = hashlib.sha256(svg.encode()).hexdigest()[:8]
    return _IDENTIFIER.sub(rf"\g<1>{mark}-\g<2>", svg)


class _Messages:
    """What one side sends, in a file of memory, since a disk may take none. The other is told the length of each."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._read = 0

    def append(self, message: bytes) -> bytes:
        """Its length, as the other side is told it."""
        rest = memoryview(message)
        while rest:
            rest = rest[os.write(self.file, rest) :]
        return b"%d\n" % len(message)

    def read(self, length: int) -> bytes:
        """The next one."""
        message = os.pread(self.file, length, self._read)
        self._read += length
        return message


class Drawers:
    """A process that draws. It ends with this one: its input is closed."""

    def __init__(self) -> None:
        self._specs, self._pictures = (_Messages(os.memfd_create(name)) for name in ("specs", "pictures"))
        # A file, since a pipe that nobody reads fills up.
        self._said = os.fdopen(os.memfd_create("said"), "r+b")
        self._begun: list[_BegunPicture] = []
        self._received = 0
        files = (self._specs.file, self._pictures.file)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nearmetal.report.drawing", *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            pass_fds=files,
        )

    def __enter__(self) -> Drawers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()
        os.close(self._specs.file)
        os.close(self._pictures.file)

    def begin_drawing(self, spec: Spec, png: bool) -> Begun:
        """Have a picture drawn meanwhile; `png` says whether a PNG is wanted too."""
        assert self._process.stdin is not None
        begun = _BegunPicture(self)
        self._begun.append(begun)
        length = self._specs.append(json.dumps({"spec": dict(spec), "png": png}, default=str).encode())
        try:
            self._process.stdin.write(length)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `receive_next` tells why it ended
        return begun

    def receive_next(self, timeout: float) -> None:
        """Wait for the next picture, in the order of beginning. TimeoutError; ToolFailed if the process has ended."""
        assert self._process.stdout is not None
        told = b""
        end = time.monotonic() + timeout
        while not told.endswith(b"\n"):
            if not select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError
            sign = os.read(self._process.stdout.fileno(), 1)
            if not sign:
                self._raise_ended()
            told += sign
        kind, values = pickle.loads(self._pictures.read(int(told)))
        self._begun[self._received].drawn = Undrawn(*values) if kind == "why" else Picture(*values)
        self._received += 1

    def _raise_ended(self) -> Never:
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()[-1:] or [f"it ended with {code}"]
        raise ToolFailed(f"the charts could not be drawn: {said[0]}", "report", "is vl-convert-python installed?")


class _BegunPicture:
    def __init__(self, drawers: Drawers) -> None:
        self._drawers = drawers
        self.drawn: Picture | Undrawn | None = None

    def result(self, timeout: float | None = None) -> Picture | Undrawn:
        end = time.monotonic() + (_PATIENCE if timeout is None else timeout)
        while self.drawn is None:
            self._drawers.receive_next(end - time.monotonic())
        return self.drawn


def collect_drawn(begun: Iterable[Begun]) -> list[Picture | Undrawn]:
    """What was begun, once all of it is there, in its order. ToolFailed when an engine fails."""
    end = time.monotonic() + _PATIENCE
    try:
        return [one.result(max(0.0, end - time.monotonic())) for one in begun]
    except TimeoutError:
        raise ToolFailed(
            f"the charts were not drawn within {_PATIENCE:.0f} s", "report", "try again on a machine with less load"
        ) from None


def _answer(spec: Spec, png: bool) -> tuple[str, tuple[object, ...]]:
    try:
        svg = draw_svg(spec)
    except ValueError as error:  # which is what the engine raises, whatever a specification lacks
        return "why", (" ".join(str(error).splitlines()[:2]),)  # a trace follows
    return "picture", (svg, _convert_to_png(svg) if png and _measure_area(svg) <= _TOO_LARGE else b"")


def _main() -> None:
    specs, pictures = (_Messages(int(file)) for file in sys.argv[1:])
    draw_svg({"mark": "point", "data": {"values": []}, "encoding": {}})  # the engine starts with the first picture
    for line in sys.stdin.buffer:
        asked = json.loads(specs.read(int(line)))
        sys.stdout.buffer.write(pictures.append(pickle.dumps(_answer(asked["spec"], asked["png"]))))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
