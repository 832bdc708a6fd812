"""A pattern of the user's, looked for in a process of its own: one that backtracks without end is ended by a limit."""

import asyncio
import json
import sys

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.commands import process

LIMIT = 10.0
"""Seconds. A pattern that does not backtrack without end goes through 16 MiB in less than one."""

_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
found = re.search(pattern, text, re.MULTILINE)
json.dump(found and [found[1]], sys.stdout)
"""


async def search_pattern(pattern: str, text: str, where: str, limit: float = LIMIT) -> str | None:
    """What the pattern's group matched. ToolFailed if nothing does, or it is not known in time."""
    told = await asyncio.to_thread(lambda: json.dumps([pattern, text]).encode())
    try:
        ended = await process.run([sys.executable, "-I", "-S", "-c", _SEARCH], stdin=told, timeout=limit)
    except TimedOut:
        what = f"{pattern!r} was still being looked for after {limit:g} s in what the command printed"
        raise ToolFailed(what, where, "write it without repetitions of repetitions, like (a*)*") from None
    if ended.status != 0:
        raise ToolFailed(f"{pattern!r} cannot be looked for: {ended.complaint[-300:]}", where)
    found: list[str | None] | None = json.loads(ended.stdout)
    if found is None:
        raise ToolFailed(f"{pattern!r} matches nothing of what the command printed: {text.strip()[-300:]!r}", where)
    return found[0]
