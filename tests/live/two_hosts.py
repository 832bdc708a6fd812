"""A second host on loopback, and hosts on one network: what tests of hosts by SSH stand on."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from nearmetal.config import read_patience
from nearmetal.lab import cgroup, probe
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.image import Image
from tests import one_picture
from tests.conftest import SHARED_CACHE, WORKER

from .far_host import FarHost, User, far_host
from .leftovers import after_a_moment, groups, remains

Login = tuple[User, asyncssh.SSHKey]

FAR_CACHE = SHARED_CACHE / f"far-host-of-tests-{WORKER}"
"""Kept, so that the image is sent once and not in each test."""


@dataclass(frozen=True)
class Pair:
    """Two hosts or more on one network: the controller runs in the network namespace `near`."""

    near: str
    fars: tuple[FarHost, ...]
    tokens: set[str]
    """Of all labs that there have been, by their ledgers: others may be at work on this host too."""

    @property
    def far(self) -> FarHost:
        return self.fars[0]

    async def nearmetal(
        self,
        *arguments: str,
        kill_after: float | None = None,
        kill_when: Callable[[], object] | None = None,
        limit: float = 240,
    ) -> tuple[int, str, str]:
        """Status and output of the command, run on the near host; killed so many seconds after its lab began (-9).
        If `kill_when` sees something, with all that it started: nobody puts right what a block's process would. A
        report has one picture for all charts.
        """
        begun = asyncio.ensure_future(self._new_token())
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net=/run/netns/{self.near}", "--", *one_picture.COMMAND, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "200"},
        )
        reading = asyncio.ensure_future(process.communicate())
        try:
            async with asyncio.timeout(limit * read_patience(os.environ)) as until:
                if kill_after is not None:
                    await asyncio.wait([reading, begun], return_when=asyncio.FIRST_COMPLETED)
                    until.reschedule(asyncio.get_running_loop().time() + kill_after)
                while kill_when is not None and not reading.done():
                    if await asyncio.to_thread(kill_when):
                        kill_tree(process.pid)
                    await asyncio.sleep(0.1)
                await asyncio.shield(reading)
        except TimeoutError:
            process.kill()
        stdout, stderr = await reading
        begun.cancel()
        return process.returncode or 0, stdout.decode(), stderr.decode()

    async def _new_token(self) -> None:
        """Return when a lab begins that is not known yet."""
        while True:
            new = {ledger.stem for ledger in ledgers_folder().glob("*.jsonl")} - self.tokens
            self.tokens.update(new)
            if new:
                return
            await asyncio.sleep(0.05)

    def files(self) -> list[str]:
        """Of ours on the far hosts, where anybody may have some."""
        where = ("/run", "/tmp", "/var/tmp")
        return [
            name for far in self.fars for name in far.run("find", *where, "-mindepth", "1", "-name", "nm-*").split()
        ]

    def left(self) -> list[str]:
        """What is still on any host, after a moment, that a lab made."""
        assert self.tokens
        return after_a_moment(self._left_now)

    def _left_now(self) -> list[str]:
        found = [what for token in self.tokens for what in remains(token)]
        for links in (
            ip("-netns", self.near, "-brief", "link"),
            *(far.run("ip", "-brief", "link") for far in self.fars),
        ):
            found += [line for line in links.splitlines() if not line.startswith(("lo ", "cable", *_OF_KERNELS))]
        for far in self.fars:
            found += [line for line in far.run("ps", "-eo", "args").splitlines() if "nm-" in line]
            found += far.run("ip", "netns", "list").split()
            found += map(str, (far.folder / "state").glob("machines/*"))
        return [*found, *self.files()]


_OF_KERNELS = ("gre0@", "gretap0@", "erspan0@")
"""Links that a kernel makes in every namespace once it has loaded its module of GRE."""


def kill_tree(process: int) -> None:
    """A process and all that it started, which cannot start more in between. What ends by itself meanwhile is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in children.read_text().split():
                kill_tree(int(child))
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def left_there(pair: Pair) -> list[str]:
    """Besides what `Pair.left` sees: groups of ours, whoever's lab made them, and who still holds the machine."""
    holders = [line for line in pair.far.run("ps", "-eo", "args").splitlines() if "2147483647" in line]
    return [*pair.left(), *map(str, _groups(pair)), *holders]


def _groups(pair: Pair) -> list[Path]:
    return [path for token in pair.tokens for path in groups(f"nearmetal-nm-{token}")]


def take_groups_along(pair: Pair) -> None:
    """As a machine does that is stopped: the kernel that they are in is no more. Here it is this host's, and stays."""
    subprocess.run(["sh", "-c", cgroup.REMOVE, "remove", *map(str, _groups(pair))], check=True)


@contextlib.contextmanager
def joined(
    image: Image, folder: Path, login: Login, programs_of_this_host: bool = False, number: int = 1
) -> Iterator[Pair]:
    """The near host and so many others, each by a cable at a bridge of the near one's."""
    near = f"nmt{os.getpid()}-near"
    someone, key = login
    with contextlib.ExitStack() as made:
        _make_namespace(near, made)
        ip("-netns", near, "link", "add", "cable", "type", "bridge", "forward_delay", "0")
        _connect(near, "cable", "10.112.0.1/24")
        fars = []
        for index in range(number):
            far, address = f"nmt{os.getpid()}-far{index}", f"10.112.0.{index + 2}"
            _make_namespace(far, made)
            ip("-netns", near, "link", "add", f"cable{index}", "type", "veth", "peer", "name", "cable", "netns", far)
            ip("-netns", near, "link", "set", f"cable{index}", "master", "cable", "up")
            _connect(far, "cable", f"{address}/24")
            host = far_host(
                image,
                folder / str(index),
                key,
                address=address,
                port=22,
                netns=far,
                cache=FAR_CACHE,
                programs_of_this_host=programs_of_this_host,
            )
            fars.append(made.enter_context(host))
        someone.know(*fars)
        # They share a cache, and would send the probe to it at the same time. Other test processes may run it already.
        kept = FAR_CACHE / "probe" / probe.sha256()
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(shutil.copy2(probe.path(), kept.with_name(f"{kept.name}-{os.getpid()}")))
            unfinished.chmod(0o755)
            unfinished.replace(kept)
        yield Pair(near, tuple(fars), set())


def _make_namespace(name: str, made: contextlib.ExitStack) -> None:
    ip("netns", "add", name)
    made.callback(ip, "netns", "delete", name)
    ip("-netns", name, "link", "set", "lo", "up")


def _connect(namespace: str, link: str, address: str) -> None:
    ip("-netns", namespace, "address", "add", address, "dev", link)
    ip("-netns", namespace, "link", "set", link, "up")


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
