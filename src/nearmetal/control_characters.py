"""What others wrote, fit for a terminal: machines, files and users say what they like."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def strip_controls(text: str) -> str:
    """Text without characters that steer a terminal, reorder a line or break a file; new lines and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
