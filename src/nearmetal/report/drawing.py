"""Specifications to pictures: SVG and PNG, the same bytes for the same specification. No network, no browser."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SCALE = 2
"""Pixels of a PNG for one of the page's: sharp on screens of today."""

_IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')


@dataclass(frozen=True)
class Picture:
    """One drawn picture, and the same for a narrow screen where the section gave one."""

    svg: str
    narrow: str | None


def svg(spec: Mapping[str, Any]) -> str:
    """Draw a Vega-Lite specification. Nothing is loaded: a specification that names an address is an error."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[])
    return _unique(drawn)


def png(drawing: str) -> bytes:
    """An SVG of ours as pixels."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(drawing, scale=_SCALE)
    return pixels


def _unique(drawing: str) -> str:
    """Identifiers that stay apart when several drawings stand in one page."""
    mark = hashlib.sha256(drawing.encode()).hexdigest()[:8]
    return _IDENTIFIER.sub(rf"\g<1>{mark}-\g<2>", drawing)
