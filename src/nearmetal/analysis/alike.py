"""Warnings that say the same of many trials, told once: "the host took 1.2 to 3.1 % of the guest's CPU time away"."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nearmetal.model import Warned

About = TypeVar("About")
"""What a warning is about: a trial, a contrast, a treatment."""

_VARYING = re.compile(r"\bnm-[0-9a-f]+-\d+\b|(?<![\w.,:/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:/-]|[.,]\d)")
"""A name that the lab makes up for a machine, or a number that stands for itself: no part of a name or an address."""


@dataclass(frozen=True)
class Alike(Generic[About]):
    """Warnings of one code whose texts differ in nothing but numbers and machines' made-up names."""

    code: str
    text: str
    about: tuple[About, ...]
    """In the order in which they were warned of; each as often as it was."""


def grouped(warned: Iterable[tuple[About, Warned]]) -> list[Alike[About]]:
    """One group for each code and wording, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[tuple[About, str]]] = {}
    for about, warning in warned:
        groups.setdefault((warning.code, _VARYING.sub("\0", warning.text)), []).append((about, warning.text))
    return [
        Alike(code, merged([text for _, text in members]), tuple(about for about, _ in members))
        for (code, _), members in groups.items()
    ]


def merged(texts: Sequence[str]) -> str:
    """Texts of one wording as one: numbers that differ become a range, machines that differ "the machine"."""
    if len(set(texts)) == 1:
        return texts[0]
    varying = zip(*([match[0] for match in _VARYING.finditer(text)] for text in texts), strict=True)
    told = map(_range, varying)
    return _VARYING.sub(lambda _: next(told), texts[0])


def _range(found: Sequence[str]) -> str:
    if len(set(found)) == 1:
        return found[0]
    if not found[0][0].isdigit():
        return "the machine"
    ascending = sorted(found, key=lambda number: float(number.replace(",", "")))
    return f"{ascending[0]} to {ascending[-1]}"
