"""What a mark says to a reader who points at it: Vega writes it into the SVG as the mark's `aria-label`.

The first part names the treatment, and "block 3" is the block: by both the page's script finds the marks of the same
treatment and of the same block in the other charts.
"""

from typing import Final

SEPARATOR: Final = " · "


def join_tip(*parts: str) -> str:
    """ "docker · block 3 · 29,100/s": the parts that are not empty."""
    return SEPARATOR.join(part for part in parts if part)


def name_block(index: int) -> str:
    """A block as readers count them, from 1, and as the page's script looks for it."""
    return f"block {index + 1}"
