"""How wide texts are, and where their lines break: nothing is cut.

A picture is laid out before anybody knows the reader's font, so a text is measured as in DejaVu Sans, the widest of
those that a browser falls back to.
"""

from functools import lru_cache

SIZE = 13.0
"""Pixels of a text's height where a mark does not say otherwise."""
LINE = 15.0
"""Pixels from one line of a text to the next."""
BREAK = "\n"
"""Between the lines of a text in the data: marks of several lines are told so."""

_WIDTHS = {
    " ',-./:;IJ\\fijl|": 0.36,
    '!"()[]rt': 0.46,
    "*_`–cLsz?": 0.56,
    "ABCDGHKNOQRSUVXZw&": 0.8,
    "M#+<=>^~×−": 0.86,
    "mW%@…": 1.0,
}
_OF = {letter: width for letters, width in _WIDTHS.items() for letter in letters}
_OTHERS = 0.64
"""Digits and most small letters."""
_IDEOGRAPHS = 0x2E80
_BOLD = 1.13


@lru_cache(maxsize=4096)  # the same few words stand in every picture of a page
def measure_text(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Pixels that a text of one line needs, with any font."""
    em = sum(_OF.get(letter, 1.0 if ord(letter) >= _IDEOGRAPHS else _OTHERS) for letter in text)
    return em * size * (_BOLD if bold else 1.0)


def wrap_text(text: str, room: float, size: float = SIZE, *, bold: bool = False) -> list[str]:
    """A text as lines that fit: broken between words, and within a word that does not fit alone."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if measure_text(longer, size, bold=bold) <= room:
            lines[-1] = longer
            continue
        lines += [word] if lines[-1] else []
        lines[-1:] = _split_word(word, room, size, bold=bold)
    return lines


def _split_word(word: str, room: float, size: float, *, bold: bool) -> list[str]:
    """A word that is too long: after a mark such as a hyphen where there is one, else between any two letters."""
    pieces = [""]
    for letter in word:
        last = pieces[-1]
        if last and measure_text(last + letter, size, bold=bold) > room:
            cut = max(map(last.rfind, "-_/")) + 1 or len(last)
            pieces[-1:] = [last[:cut], last[cut:]]
        pieces[-1] += letter
    return pieces
