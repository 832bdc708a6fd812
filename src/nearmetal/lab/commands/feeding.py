"""What a program reads on standard input, where that is a stream of asyncio's."""

import asyncio
import contextlib


async def feed(writer: asyncio.StreamWriter, content: bytes) -> None:
    """All of it, and its end. A program need not read it."""
    with contextlib.suppress(OSError):
        writer.write(content)
        await writer.drain()
        writer.write_eof()
