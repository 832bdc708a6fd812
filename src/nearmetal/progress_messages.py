"""Telling whoever waits how it goes, a sentence at a time: a terminal, a log, or nobody."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Say = Callable[[str], None]

_AT_FIRST, _THEN = 3.0, 30.0
"""Seconds in which nothing is said of what takes its time: before the first word, and before each of the next."""


def ignore_text(text: str) -> None:
    """Nobody waits."""


@asynccontextmanager
async def meanwhile(say: Say, what: Callable[[], str]) -> AsyncIterator[None]:
    """While the block runs, tell `say` what is still being done: after 3 s, then every 30 s; `what` makes the text."""
    import asyncio  # with all of its modules, for those alone who wait in it

    async def repeat_text() -> None:
        await asyncio.sleep(_AT_FIRST)
        while True:
            say(what())
            await asyncio.sleep(_THEN)

    telling = asyncio.create_task(repeat_text())
    try:
        yield
    finally:
        telling.cancel()
