"""Warnings that say the same of many trials, told once: "the host took 1.2 to 3.1 % of the guest's CPU time away"."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nearmetal.model import Warned

About = TypeVar("About")
"""What a warning is about: a trial, a contrast, a treatment."""

_NUMBER = r"(?<![\w.,:/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:/-]|[.,]\d)"
_SIDE = r"\btrials(?: \(the (?:treatment|reference)'s\))?(?=: )"
_VARYING = re.compile(rf"\bnm-[0-9a-f]+-\d+\b|{_SIDE}|{_NUMBER}(?: to {_NUMBER})?")
"""A name that the lab makes up for a machine; whose trials a comparison's warning counts; or a number that stands for
itself, no part of a name or an address; or a range of such."""

_OF_ALL = re.compile(r"\bin (?!1 of 1 )([\d,]+) of \1 (?=trials\b)")
"""Each of several trials has it."""


@dataclass(frozen=True)
class WarningGroup(Generic[About]):
    """Warnings of one code whose texts differ in nothing but numbers and machines' made-up names."""

    code: str
    wording: str
    """What their texts have in common; see `find_wording`."""
    text: str
    about: tuple[About, ...]
    """In the order in which they were warned of; each as often as it was."""


def group_warnings(warned: Iterable[tuple[About, Warned]]) -> list[WarningGroup[About]]:
    """One group for each code and wording, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[tuple[About, str]]] = {}
    for about, warning in warned:
        groups.setdefault((warning.code, find_wording(warning.text)), []).append((about, warning.text))
    return [
        WarningGroup(code, common, merge_texts([text for _, text in members]), tuple(about for about, _ in members))
        for (code, common), members in groups.items()
    ]


def find_common_warnings(warned: Sequence[Sequence[Warned]]) -> list[WarningGroup[int]]:
    """Of several things' warnings those that each of them has; `about` are their places."""
    every = set(range(len(warned)))
    groups = group_warnings((place, warning) for place, warnings in enumerate(warned) for warning in warnings)
    return [group for group in groups if len(every) > 1 and set(group.about) == every]


def find_wording(text: str) -> str:
    """A text without the numbers and made-up names that tell it from others of its kind."""
    return _VARYING.sub("\0", text)


def merge_texts(texts: Sequence[str]) -> str:
    """Texts of one wording as one: numbers that differ become a range, machines that differ "the machine".

    Where not all tell of trials of the same side, none is named; where all tell of all trials, how many is said once.
    """
    if all(_OF_ALL.search(text) for text in texts):
        texts = [_OF_ALL.sub(r"in all \1 ", text) for text in texts]
    merging = TextMerger(texts[0])
    for text in texts[1:]:
        merging.take(text)
    return merging.text


class TextMerger:
    """Texts of one wording that come one by one, of which is kept what `merge_texts` makes of them and no more."""

    def __init__(self, text: str) -> None:
        self._first = text
        self._found = [[one] for one in _varying(text)]

    def take(self, text: str) -> None:
        for found, one in zip(self._found, _varying(text), strict=True):
            if one in found:
                continue
            if one[0].isdigit():
                found[:] = [_range([*found, one])]
            else:
                found[1:] = [one]

    @property
    def text(self) -> str:
        told = map(_range, self._found)
        return _VARYING.sub(lambda _: next(told), self._first)


def _varying(text: str) -> list[str]:
    return [match[0] for match in _VARYING.finditer(text)]


def _range(found: Sequence[str]) -> str:
    if len(set(found)) == 1:
        return found[0]
    if not found[0][0].isdigit():
        return "trials" if found[0].startswith("trials") else "the machine"
    ends = sorted((end for text in found for end in text.split(" to ")), key=lambda end: float(end.replace(",", "")))
    return f"{ends[0]} to {ends[-1]}"
