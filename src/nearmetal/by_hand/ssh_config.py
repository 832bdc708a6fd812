"""Machines that have an SSH server, for OpenSSH's own programs: what `ssh`, `scp`, `rsync` and Ansible are to know.

One file for each machine that is up, and `ssh_config` that includes them all: keepers do not wait for each other.
"""

from pathlib import Path

from nearmetal.lab.machines import openssh
from nearmetal.lab.machines import registry as written
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.system.files import replace_file


def locate_file() -> Path:
    return written.folder() / "ssh_config"


def write(kept: KeptMachine) -> None:
    """For a machine that has an SSH server."""
    if kept.handle is None or kept.handle.login is None:
        return
    entry = {"HostName": "127.0.0.1", "Port": str(kept.handle.login.ssh_port), "User": "root", **openssh.options()}
    lines = [f"Host {kept.name}", *(f"    {name} {value}" for name, value in entry.items())]
    replace_file(written.ssh_config(kept.name), ("\n".join(lines) + "\n").encode())
    replace_file(locate_file(), f'Include "{written.ssh_config("*")}"\n'.encode())
