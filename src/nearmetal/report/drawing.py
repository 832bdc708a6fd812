"""Specifications to pictures: SVG and PNG, the same bytes for the same specification. No network, no browser.

Starting the engine takes most of a second and a page has many pictures, so `Drawers` are processes of their own that
get ready while this one reads the run: `python -m nearmetal.report.drawing` takes one JSON list of specifications on
stdin, each with whether a PNG is wanted, and prints one JSON list of pictures.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from nearmetal.errors import ToolFailed

Spec = Mapping[str, Any]

_SHARP = 2
"""Pixels of a PNG for one of the page's: sharp on screens of today."""

_LARGE = 400_000
"""Square pixels of the page from which one for one will do: nobody puts fifty rows on a slide."""

_PATIENCE = 300.0
"""Seconds for all pictures of a report."""

_IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')
_SIZE = re.compile(r'<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"')


@dataclass(frozen=True)
class Picture:
    """One drawn picture, as SVG, and as PNG where that was asked for (else empty)."""

    svg: str
    png: bytes = b""


@dataclass(frozen=True)
class Undrawn:
    """What the engine says of a specification that is none."""

    why: str


def draw(spec: Spec) -> Picture:
    """Draw a Vega-Lite specification. Nothing is loaded: a specification that names an address is an error."""
    picture = svg(spec)
    return Picture(picture, _png(picture))


def svg(spec: Spec) -> str:
    """The same without a PNG."""
    import vl_convert

    return _unique(vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[]))


def _png(svg: str) -> bytes:
    import vl_convert

    size = _SIZE.match(svg)
    large = size is not None and float(size[1]) * float(size[2]) > _LARGE
    return bytes(vl_convert.svg_to_png(svg, scale=1 if large else _SHARP))


def _unique(svg: str) -> str:
    """Identifiers that stay apart when several drawings stand in one page."""
    mark = hashlib.sha256(svg.encode()).hexdigest()[:8]
    return _IDENTIFIER.sub(rf"\g<1>{mark}-\g<2>", svg)


class Drawers:
    """Processes that draw. They end with this one: their input is closed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "nearmetal.report.drawing"]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(min(2, os.cpu_count() or 1))
        ]

    def __enter__(self) -> Drawers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def draw(self, specs: Sequence[Spec], also_png: Sequence[bool]) -> list[Picture | Undrawn]:
        """All of them, in their order; once. `also_png`: of which a PNG is wanted. ToolFailed when an engine fails."""
        orders = [(dict(spec), png) for spec, png in zip(specs, also_png, strict=True)]
        shares = [orders[index :: len(self._processes)] for index in range(len(self._processes))]
        with ThreadPoolExecutor(len(self._processes)) as waiting:
            drawn = list(waiting.map(_drawn_by, self._processes, shares))
        return [drawn[index % len(drawn)][index // len(drawn)] for index in range(len(specs))]


def _drawn_by(process: subprocess.Popen[bytes], orders: Sequence[tuple[Spec, bool]]) -> list[Picture | Undrawn]:
    try:
        out, err = process.communicate(json.dumps(orders, default=str).encode(), timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise ToolFailed(
            f"the charts were not drawn within {_PATIENCE:.0f} s", "report", "try again on a machine with less load"
        ) from None
    if process.returncode != 0:
        said = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
        raise ToolFailed(f"the charts could not be drawn: {said[0]}", "report", "is vl-convert-python installed?")
    return [Undrawn(one["why"]) if "why" in one else _unpacked(**one) for one in json.loads(out)]


def _packed(spec: Spec, png: bool) -> Mapping[str, str]:
    """For the way back, as JSON."""
    try:
        picture = draw(spec) if png else Picture(svg(spec))
    except ValueError as error:  # which is what the engine raises, whatever a specification lacks
        return {"why": " ".join(str(error).splitlines()[:2])}  # a trace follows
    return {"svg": picture.svg, "png": base64.b64encode(picture.png).decode()}


def _unpacked(svg: str, png: str) -> Picture:
    return Picture(svg, base64.b64decode(png))


def _main() -> None:
    draw({"mark": "point", "data": {"values": []}})  # the engine starts while the specifications are on their way
    orders = json.load(sys.stdin.buffer)
    sys.stdout.write(json.dumps([_packed(spec, png) for spec, png in orders]))


if __name__ == "__main__":
    _main()
