"""Colours: one per environment wherever it appears, told apart by colour-blind readers, legible on light and dark.

The series are darkened relatives of Okabe and Ito's (2008): each has a contrast of at least 3 to white and to the
dark page. Ink and lines have roles; the page gives each role another value in the dark.
"""

from collections.abc import Iterable, Mapping

INK = "#1f2430"
MUTED = "#5b6472"
LINE = "#d9dde3"
BAND = "#d3e0f3"
TRACK = "#f1f4f9"
PAPER = "#ffffff"

ROLES: Mapping[str, str] = {"ink": INK, "muted": MUTED, "line": LINE, "band": BAND, "track": TRACK, "paper": PAPER}

REFERENCE = "#6f7785"
_SERIES = ("#1f7fc1", "#d1611c", "#12936c", "#b0649b", "#a67c00", "#3c9fb5", "#8a6fd1", "#9c5a3c")

_OF_NAMES: Mapping[str, str] = {
    "host": REFERENCE,
    **dict(zip(("docker", "qemu", "podman", "libvirt", "vagrant", "vmware", "ssh", "mock"), _SERIES, strict=True)),
}


def colour_environments(levels: Iterable[str]) -> dict[str, str]:
    """Environment to colour, by its name: the same in every study and in whatever order it is named.

    Names that no built-in environment has are given a colour by their letters, or the next that is free.
    """
    names = list(dict.fromkeys(levels))
    found = {name: _OF_NAMES[name] for name in names if name in _OF_NAMES}
    for name in sorted(set(names) - set(found)):
        first = sum(name.encode()) % len(_SERIES)
        turned = _SERIES[first:] + _SERIES[:first]
        found[name] = next((colour for colour in turned if colour not in found.values()), turned[0])
    return {name: found[name] for name in names}


def mix_colour(colour: str, share: float) -> str:
    """A share of a colour, #rrggbb, on paper."""
    parts = zip((colour[1:3], colour[3:5], colour[5:7]), (PAPER[1:3], PAPER[3:5], PAPER[5:7]), strict=True)
    return "#" + "".join(f"{round(share * int(ink, 16) + (1 - share) * int(bare, 16)):02x}" for ink, bare in parts)
