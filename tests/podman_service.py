"""A Podman service of the tests' own: its storage is kept, so that the image is imported only once."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.lab import probe

# Without the right to raise limits Podman's own cannot be set, and without systemd it has to make groups itself.
_CONF = """
[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_READY = 30.0


@contextmanager
def podman_service(folder: Path, runtime: str = "runc") -> Iterator[str]:
    """The URL of its socket; a service has one runtime, by name or path.

    It ends with this process, and what it ran for is removed by who made it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "containers.conf").write_text(_CONF)
    # A service that is killed leaves what it had begun to load; the next start removes it.
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    (folder / "tmp").mkdir()
    socket = folder / "socket"
    socket.unlink(missing_ok=True)
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(
            [
                *(str(probe.path()), "launch", f"--die-with-parent={os.getpid()}", "--"),
                # It mounts its storage upon itself, and leaves that behind: here it goes with its last process.
                *("unshare", "--mount", "--propagation", "slave", "--"),
                *("podman", "--root", str(folder / "storage"), "--runroot", str(folder / "run")),
                *("--runtime", runtime, "--storage-driver", "overlay"),
                *("system", "service", "--time", "0", f"unix://{socket}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf"), "TMPDIR": str(folder / "tmp")},
            # Its monitors leave a file where they are started when a container had too little memory.
            cwd=folder,
        )
    try:
        until = time.monotonic() + _READY
        while not socket.exists():
            assert service.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        service.terminate()
        service.wait(_READY)
