"""Colours: one per environment wherever it appears, told apart by colour-blind readers, legible on light and dark.

The series are darkened relatives of Okabe and Ito's (2008): each has a contrast of at least 3 to white and to the
dark page. Ink and lines have roles; the page gives each role another value in the dark.
"""

from collections.abc import Iterable, Mapping

INK = "#1f2430"
MUTED = "#5b6472"
LINE = "#d9dde3"
BAND = "#e9eef6"
TRACK = "#f1f4f9"
PAPER = "#ffffff"

ROLES: Mapping[str, str] = {"ink": INK, "muted": MUTED, "line": LINE, "band": BAND, "track": TRACK, "paper": PAPER}

REFERENCE = "#6f7785"
_SERIES = ("#1f7fc1", "#d1611c", "#12936c", "#b0649b", "#a67c00", "#3c9fb5", "#8a6fd1", "#9c5a3c")


def environments(levels: Iterable[str], reference: str | None) -> dict[str, str]:
    """Environment to colour: grey for the reference, then the series in the study's order, over again when used up."""
    others = [name for name in dict.fromkeys(levels) if name != reference]
    colours = {name: _SERIES[index % len(_SERIES)] for index, name in enumerate(others)}
    return colours if reference is None else {reference: REFERENCE, **colours}
