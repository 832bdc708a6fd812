"""Files of known hosts, as OpenSSH reads them: it passes over missing files, and over lines that make no sense."""

import os
from collections.abc import Iterable
from pathlib import Path

from nearmetal.lab.ssh_library import asyncssh

_LARGEST = 64 * 2**20


def join_known_hosts(files: Iterable[Path]) -> "asyncssh.SSHKnownHosts":
    """The entries of these files that can be read."""
    lines = [line for file in files for line in _read_lines(file)]
    try:
        return asyncssh.import_known_hosts("\n".join(lines))
    except ValueError:
        return asyncssh.import_known_hosts("\n".join(filter(_is_entry, lines)))


def find_readable(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.is_file() and os.access(file, os.R_OK)]


def _read_lines(file: Path) -> list[str]:
    if not file.is_file() or file.stat().st_size > _LARGEST:
        return []
    try:
        return file.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _is_entry(line: str) -> bool:
    try:
        asyncssh.import_known_hosts(line)
    except ValueError:
        return False
    return True
