"""What `ethtool -k` says of a network card's features. Pure.

A feature that ethtool itself made up, such as TCP segmentation, stands for several of the kernel's; these are listed
below it, indented.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

FEATURES: Mapping[str, str] = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "lro": "large-receive-offload",
    "gro": "generic-receive-offload",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "sg": "scatter-gather",
}
"""The short names that `ethtool -K` takes, and what `ethtool -k` calls them."""


@dataclass(frozen=True)
class Feature:
    is_on: bool
    note: str = ""
    """ "fixed": nobody can change it. "requested on": it was asked for, and the driver does not do it."""
    parts: tuple[str, ...] = ()
    """The kernel's own features that are on below this one; none where it has no others below it."""

    @property
    def is_fixed(self) -> bool:
        return self.note == "fixed"

    @property
    def is_refused(self) -> bool:
        return not self.is_on and self.note == "requested on"

    @property
    def told(self) -> str:
        """As ethtool tells it: "on", "off [fixed]"."""
        return ("on" if self.is_on else "off") + (f" [{self.note}]" if self.note else "")


def parse(text: str) -> dict[str, Feature]:
    """Feature to state, by long names, and by short ones where there are any. Empty for what is no such list."""
    found: dict[str, Feature] = {}
    above = ""
    for line in text.splitlines():
        name, _, state = line.strip().partition(": ")
        word, _, note = state.partition(" ")
        if not name or word not in ("on", "off"):
            continue
        feature = Feature(word == "on", note.strip("[]"))
        found[name] = feature
        if not line[0].isspace():
            above = name
        elif above:
            found[above] = _with_part(found[above], name, feature)
    return found | {short: found[long] for short, long in FEATURES.items() if long in found}


def _with_part(whole: Feature, name: str, part: Feature) -> Feature:
    """ethtool does not say of the whole that it was asked for in vain, only of its parts."""
    if part.is_on:
        return replace(whole, parts=(*whole.parts, name))
    return replace(whole, note=part.note) if part.is_refused and not whole.is_on and not whole.note else whole
