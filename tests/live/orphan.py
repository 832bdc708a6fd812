"""A controller in a process of its own that makes a machine, and is killed."""

import asyncio
import json
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearmetal.model import Handle, Order

ORPHAN = textwrap.dedent("""
    import asyncio, json, sys
    from nearmetal import plugins
    from nearmetal.lab.local_site import LocalSite
    from nearmetal.model import Order

    class Notes:
        def creating(self, handle):
            self.last = handle

    async def orphan():
        notes, plugin = Notes(), plugins.load("environments", sys.argv[-1])
        order = Order.from_json(json.loads(sys.argv[1]))
        machine = await plugin.attach(await plugin.create(order, LocalSite(), notes), LocalSite())
        await machine.spawn(["sleep", "600"])
        print(notes.last.model_dump_json(), flush=True)
""")
"""What a controller does that makes a machine and tells its handle."""
_UNTIL_KILLED = textwrap.dedent("""
    async def main():
        await orphan()
        await asyncio.sleep(600)

    asyncio.run(main())
""")
_LIMIT = 240
"""Seconds until the machine is there; its image may have to be imported first."""


@asynccontextmanager
async def controller(order: Order, kind: str) -> AsyncIterator[Handle]:
    """What it made. On leaving, the controller is killed."""
    argv = (sys.executable, "-c", ORPHAN + _UNTIL_KILLED, order.model_dump_json(), kind)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        yield Handle.from_json(json.loads(await asyncio.wait_for(process.stdout.readline(), _LIMIT)))
    finally:
        process.kill()
        await process.wait()
