"""Running the tools that build an image so that nothing of theirs outlives this process."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.packages import describe_install, find_manager

# A process namespace falls with its first process, which dies with us even on SIGKILL; mounts made
# inside its mount namespace fall with it. So an interrupted build leaves files only.
CONTAINED = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--",
)  # fmt: skip

EPOCH = 1686355200
"""10 June 2023. No file in the image is younger, so that the day of a build does not show."""
_PASSED_ON = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "APT_CONFIG")
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "SOURCE_DATE_EPOCH": str(EPOCH),
}
"""Of each tool: alike on every host but for how the network is reached."""

LIMIT = 3600.0
"""Seconds for one tool. The slowest fetches 200 MB of packages."""
_LONGEST_LINE = 1 << 24
"""Bytes that a tool may print before it ends a line."""

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "mkfs.ext4": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "tar": "tar",
    "chroot": "coreutils",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
"""The tools a build needs, and the Debian package that has each."""


def require() -> None:
    """Raises HostCannot that names every missing tool, with the command that installs them."""
    missing = [tool for tool in PACKAGES if shutil.which(tool) is None]
    if missing:
        remedy = describe_install(find_manager(), *sorted({PACKAGES[tool] for tool in missing}))
        raise HostCannot(f"building an image needs {', '.join(missing)}, which this host lacks", remedy=remedy)


async def run_checked(argv: tuple[str, ...], folder: Path, where: str, remedy: str = "") -> None:
    """Run one tool that has to succeed. ToolFailed with all that it printed otherwise."""
    status, text = await run(argv, folder=folder)
    if status != 0:
        raise ToolFailed(f"{argv[0]} failed: {text.strip()}", where, remedy)


async def run(
    argv: tuple[str, ...],
    *,
    folder: Path,
    temporary: str | None = None,
    heard: Callable[[str], None] = lambda line: None,
) -> tuple[int, str]:
    """Run one tool contained, in `folder`; each line it prints goes to `heard`. `temporary` is its TMPDIR.

    Returns its status and everything it printed on stdout and stderr, as one text.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment = passed_on | _ENVIRONMENT | ({"TMPDIR": temporary} if temporary else {})
    process = await asyncio.create_subprocess_exec(
        *CONTAINED,
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_LONGEST_LINE,
        env=environment,
        cwd=folder,
    )
    assert process.stdout is not None
    lines = []
    try:
        async with asyncio.timeout(LIMIT):
            async for raw in process.stdout:
                line = raw.decode(errors="replace").rstrip("\n")
                lines.append(line)
                heard(line)
            status = await process.wait()
    except BaseException as error:
        if process.returncode is None:
            process.kill()
        # The end of its output is the end of everything it started: only then may its files be removed.
        await process.stdout.read()
        await process.wait()
        if isinstance(error, TimeoutError):
            said = f"; it said last: {lines[-1][:300]}" if lines else ""
            raise ToolFailed(f"{argv[0]} did not end within {LIMIT:g} s{said}", remedy="begin again") from None
        raise
    return status, "\n".join(lines)
