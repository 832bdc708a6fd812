"""The way into a guest for a person: the probe's `ask`, to the agent in it, or OpenSSH's client."""

import shlex
from collections.abc import Mapping, Sequence

from nearmetal.config import Paths
from nearmetal.errors import NotProvisioned
from nearmetal.lab import machine_programs, probe
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import openssh
from nearmetal.model import Door, Handle

_OWN_FAILURES = (125, 255)
"""Of the probe's `ask`, and of OpenSSH's client."""


def make_guest_door(handle: Handle) -> Door:
    """By the agent, without a login; by SSH where there is none, and for a terminal, whose window changes its size."""

    def build_command(argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
        if terminal or handle.image.brings_kernel or "agent_port" not in handle.data:
            return _by_ssh(handle, argv, env, terminal)
        at, secret = f"127.0.0.1:{handle.data['agent_port']}", Paths.default().state / "keys/agent"
        by = ("--guest", handle.name)
        return [
            LocalSite().probe,
            "ask",
            "--at",
            at,
            "--secret",
            str(secret),
            *by,
            *machine_programs.build_variables(env),
            "--",
            *argv,
        ]

    return Door(build_command, own_failures=_OWN_FAILURES)


def _by_ssh(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    if handle.login is None:
        raise NotProvisioned("nobody can log in to it", handle.name)
    # Ends with this connection's sshd, its parent: a program that says nothing would outlive the client otherwise.
    inside = shlex.join(machine_programs.build_words(probe.INSIDE, argv, env, "--die-with-parent"))
    return [
        *("ssh", "-F", "none", "-t" if terminal else "-T"),
        *(word for name, value in openssh.options().items() for word in ("-o", f"{name}={value}")),
        *("-p", str(handle.login.ssh_port), "root@127.0.0.1", "--", inside),
    ]
