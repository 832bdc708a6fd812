"""What somebody may have meant by a word that is not known. Pure."""

import difflib
from collections.abc import Iterable

_COMPARED = 100
"""Characters of a misspelt word that are looked at."""


def did_you_mean(word: str, choices: Iterable[str], what: str) -> str:
    """A remedy: "did you mean `latency_p99`?", of which `p99` is the end; where nothing is near, `what` and all there
    is: "choose one of: host, qemu"."""
    choices = list(choices)
    near = difflib.get_close_matches(word[:_COMPARED], choices, n=1)
    near = near or [choice for choice in choices if word and choice.endswith(f"_{word}")]
    return f"did you mean `{near[0]}`?" if near else f"{what}: {', '.join(choices) or 'none'}"
