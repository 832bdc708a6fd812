"""What a command costs on a machine that is reached by SSH, beyond the round trip and what SSH itself takes.

    .venv/bin/python bench/ssh.py [USER@HOST] [--rounds 100]

`true` is run on a machine of kind `ssh`, on one connection that stays open: with the machine's own programs, and in a
chroot of the image; and by a bare SSH session, for comparison. The round trip is one byte there and back over the same
connection, to a program that answers it. Rounds alternate; the table shows medians in milliseconds. Without USER@HOST a
real sshd from the lab image answers on loopback. As root, on an otherwise idle host; printed, never judged.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import NearmetalError
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.image import Recipe, build
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone

Step = Callable[[], Awaitable[object]]

TRUE = ("true",)


async def main(address: str | None, rounds: int) -> None:
    image = await build(Recipe(), Paths.default().cache, print)
    with contextlib.ExitStack() as standing:
        if address is None:
            from tests.live.far_host import far_host, user
            from tests.live.two_hosts import FAR_CACHE
            from tests.ports import free_port

            folder = Path(standing.enter_context(tempfile.TemporaryDirectory(prefix="nearmetal-")))
            someone, key = user(folder / "user")
            host = standing.enter_context(far_host(image, folder, key, port=free_port(), cache=FAR_CACHE))
            someone.know(host)
            os.environ["HOME"] = str(someone.home)
            os.environ.pop("SSH_AUTH_SOCK", None)
            address = host.ssh
        async with measured(address) as steps:
            times: dict[str, list[float]] = {name: [] for name in steps}
            for _ in range(rounds):
                for name, step in steps.items():
                    began = time.perf_counter()
                    await step()
                    times[name].append(1e3 * (time.perf_counter() - began))
    report(times)


@contextlib.asynccontextmanager
async def measured(address: str) -> AsyncIterator[dict[str, Step]]:
    plugin = plugins.load("environments", "ssh")
    token = new_token()
    host = plugin.describe({"address": address}, MachineSpec()).host
    assert host is not None
    sites = Sites({"metal": host}, print)
    with held(ledgers_folder() / f"{token}.jsonl") as ledger:
        lab = Lab(token, ledger, sites)
        try:
            own, chroot = [await machine(lab, address, image) for image in ("own", "chroot")]
            site = own.site
            assert isinstance(site, SshSite)
            echo = await site.connection.create_process("exec cat", encoding=None)

            async def round_trip() -> None:
                echo.stdin.write(b"x")
                await echo.stdout.readexactly(1)

            yield {
                "round trip": round_trip,
                "a bare session": lambda: site.connection.run("true"),
                "its own programs": lambda: own.exec(TRUE),
                "a chroot": lambda: chroot.exec(TRUE),
            }
        finally:
            await lab.close()
            await sites.aclose()


async def machine(lab: Lab, address: str, image: str) -> Machine:
    spec = EnvironmentSpec.model_validate({"kind": "ssh", "address": address, "image": image})
    return await lab.attach(
        await lab.create(
            resolve_alone(spec.model_copy(update={"provision": "reuse"}), MachineSpec()),
            MachineSpec(),
            "server",
            "",
            await lab.site("metal"),
        )
    )


def report(times: dict[str, list[float]]) -> None:
    trip = statistics.median(times["round trip"])
    print(f"{'':18} {'median':>9} {'beyond the round trip':>22}")
    for name, one in times.items():
        print(f"{name:18} {statistics.median(one):6.2f} ms {statistics.median(one) - trip:19.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="?", metavar="USER@HOST")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    try:
        asyncio.run(main(given.address, given.rounds))
    except NearmetalError as error:
        sys.exit(f"bench/ssh.py: {error}")
