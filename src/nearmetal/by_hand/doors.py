"""Ways into a machine that is up, for a person: an argument vector of this host whose stdin, stdout and stderr are
those of the program inside, as they come. What a study runs goes by `Machine.exec` instead.

For the host kind that is the probe's `launch --enter`, for a container the engine's own client, for a guest the probe's
`ask`. Where it is to have a terminal, or has no agent, it is OpenSSH's client, with the lab's key, the pinned host key,
and nothing of the user's own configuration.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from nearmetal.by_hand import marked, ssh_config
from nearmetal.config import Paths
from nearmetal.errors import NotProvisioned
from nearmetal.lab import machine, probe
from nearmetal.lab.commands.refused import refuse_zero_bytes
from nearmetal.lab.machines.identity import FirstProcess
from nearmetal.lab.machines.kept import Kept
from nearmetal.lab.site import LocalSite
from nearmetal.model import ControlGroup, Handle

SHELL = ("bash", "-l")


def _of_host(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    site, first = LocalSite(), FirstProcess.in_ledger(handle)
    place = [*site.bound, "--enter", str(first.pid), *ControlGroup(**handle.data["group"]).joined]
    # A terminal belongs to one session, and a machine's programs have their own: `script` gives them one inside.
    inside = ["script", "-qec", shlex.join(argv), "/dev/null"] if terminal else argv
    return machine.launch(site.probe, inside, env, *place)


def _of_docker(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    return ["docker", "--host", handle.data["engine"], *_exec(handle, argv, env, terminal)]


def _of_podman(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    return ["podman", "--remote", "--url", handle.data["engine"], *_exec(handle, argv, env, terminal)]


def _exec(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    options = ["--interactive", *(["--tty"] if terminal else [])]
    return ["exec", *options, handle.data["container"], *machine.launch(probe.INSIDE, argv, env)]


def _of_guest(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    """By the agent, without a login; by SSH where there is none, and for a terminal, whose window changes its size."""
    if terminal or handle.image.brings_kernel or "agent_port" not in handle.data:
        return _by_ssh(handle, argv, env, terminal)
    return _by_agent(handle, argv, env)


def _by_agent(handle: Handle, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    at, secret = f"127.0.0.1:{handle.data['agent_port']}", Paths.default().state / "keys/agent"
    return [LocalSite().probe, "ask", "--at", at, "--secret", str(secret), *machine.given(env), "--", *argv]


def _by_ssh(handle: Handle, argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
    # Ends with this connection's sshd, its parent: a program that says nothing would outlive the client otherwise.
    inside = shlex.join(machine.launch(probe.INSIDE, argv, env, "--die-with-parent"))
    return [
        *("ssh", "-F", "none", "-t" if terminal else "-T"),
        *(word for name, value in ssh_config.options().items() for word in ("-o", f"{name}={value}")),
        *("-p", str(handle.data["ssh_port"]), "root@127.0.0.1", "--", inside),
    ]


_Way = Callable[[Handle, Sequence[str], Mapping[str, str], bool], list[str]]
_DOORS: Mapping[str, _Way] = {
    "host": _of_host,
    "docker": _of_docker,
    "podman": _of_podman,
    "qemu": _of_guest,
    "libvirt": _of_guest,
}


def of(kept: Kept) -> marked.Door | None:
    """The door of a machine: called with a program's argument vector, `terminal` where it is to have one, and the mark
    by which its processes are found where a `guard` watches over them.

    None for a kind that has none: its machines are reached by `Machine.exec` alone. NotProvisioned while it is made.
    """
    handle = kept.handle
    if handle is None:
        raise NotProvisioned("it is not up yet", kept.name, "wait until `nearmetal up` returns")
    if handle.kind not in _DOORS:
        return None

    def door(argv: Sequence[str], *, terminal: bool = False, mark: str = "") -> list[str]:
        refuse_zero_bytes(argv)
        env = {"TERM": os.environ.get("TERM", "xterm")} if terminal else {}
        if mark:
            env[marked.VARIABLE] = mark
        return _DOORS[handle.kind](handle, argv, env, terminal)

    return door
