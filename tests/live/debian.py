"""Packages of Debian's archive, fetched and unpacked, none of them installed."""

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nearmetal.lab.image import apt

_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_LIMIT = 300.0


class CannotBeHad(Exception):
    """Why there is no such package here."""


async def unpack(package: str, source: str, work: Path, *, needed: str = "") -> str:
    """Unpack a package into work/unpacked; its name. `source` is as "bookworm main" and `work` an empty folder.

    `needed`: not the package itself, but the one that it depends on, whose name begins so. CannotBeHad.
    """
    _, options = await apt.find_sources("bookworm", work)
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text(f"deb [signed-by={apt.KEYRING}] {apt.DEBIAN} {source}\n")
    (work / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{work}/sources.list";\nDir::Etc::SourceParts "-";\nAPT::Sandbox::User "root";\n'
        f'Dir::State::Lists "{work}/lists";\nDir::Cache "{work}";\n' + "\n".join(options)
    )
    with_apt = {"APT_CONFIG": str(work / "apt.conf")}
    await run("apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any", at=work, environment=with_apt)
    if needed:
        depends = await run("apt-cache", "depends", "--important", package, at=work, environment=with_apt)
        package = next(line.split()[-1] for line in depends.splitlines() if f"Depends: {needed}" in line)
    await run("apt-get", "download", "-qq", package, at=work, environment=with_apt)
    (archive,) = work.glob("*.deb")
    await run("dpkg-deb", "--extract", str(archive), str(work / "unpacked"), at=work)
    return package


async def run(*argv: str, at: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints. CannotBeHad if it fails."""
    ended = await asyncio.to_thread(
        subprocess.run,
        argv,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        cwd=at,
        env={**_PATH, **(environment or {})},
    )
    if ended.returncode != 0:
        raise CannotBeHad(f"{' '.join(argv[:2])}: {ended.stderr.strip()[-300:]}")
    return str(ended.stdout)
