"""One Docker engine for all test processes on this host: the first that asks starts it, the last that goes ends it.

It belongs to a process of its own, the keeper, which is `python -m tests.shared_engine FOLDER`.
"""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.environments.docker import DockerEnvironment
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.image import Recipe, build
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec

_ENVIRONMENT = dict(os.environ)
"""As it was before any test had a home of its own: the engine outlives the test that asks for it first."""

BOUNDED = "bounded"
"""A runtime of the engine beside its usual one: that with the capabilities which this host has to give."""

_USERS, _STARTING, _URL, _LOG = "users", "starting", "url", "keeper.log"


@contextmanager
def shared_engine(folder: Path) -> Iterator[str]:
    """The URL of an engine that runs at least as long as this context, and has the lab image.

    Every user shares a lock; the keeper takes it for itself when nobody has it any more, and lets go when the engine is
    gone. So whoever has the lock, and finds the keeper's word, has an engine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _USERS).open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / _STARTING).open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            url = find_engine(folder) or _started(folder)
        yield url


def find_engine(folder: Path) -> str | None:
    """The URL that the keeper said, who holds a lock on its word as long as it lives."""
    with contextlib.suppress(FileNotFoundError), (folder / _URL).open() as word:
        try:
            fcntl.flock(word, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return word.read()
    return None


def _started(folder: Path) -> str:
    with (folder / _LOG).open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.shared_engine", str(folder)],
            cwd=Path(__file__).parents[1],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert keeper.stdout
    with keeper.stdout:
        url = keeper.stdout.readline().strip()
    if not url:
        raise RuntimeError(f"the tests' engine did not come up: {(folder / _LOG).read_text()[-2000:]}")
    return url


async def keep(folder: Path) -> None:
    """Run the engine until nobody holds the users' lock."""
    with (folder / _USERS).open("w") as users:
        async with run_private_engine(folder, {BOUNDED: Path(__file__).with_name("bounded_runc.py")}) as url:
            await build(Recipe(), Paths.default().cache, lambda line: None)
            # By one process, because an engine that is asked by two at once takes an image over twice.
            options = EnvironmentSpec.model_validate({"kind": "docker", "engine": url})
            await DockerEnvironment().prepare(options, MachineSpec(), LocalSite())
            with (folder / _URL).open("w") as word:
                fcntl.flock(word, fcntl.LOCK_EX)
                word.write(url)
                word.flush()
                print(url, flush=True)
                await asyncio.to_thread(fcntl.flock, users, fcntl.LOCK_EX)


if __name__ == "__main__":
    asyncio.run(keep(Path(sys.argv[1])))
