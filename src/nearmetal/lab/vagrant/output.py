"""What Vagrant says: its machine-readable output, and the SSH configuration it prints. Pure.

A line is `TIME,MACHINE,KIND,DATA,…`; within data, commas and newlines are written otherwise. Within a machine's name
they are not, so its end is found by the kinds that are known. What anything else prints in between is no such line.
https://developer.hashicorp.com/vagrant/docs/cli/machine-readable
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.errors import ToolFailed

_LINE = re.compile(
    r"[0-9]+,(?P<machine>.*?),"
    r"(?P<kind>provider-name|state|error-exit|ssh-config|ui|action|metadata|state-human-short|state-human-long)"
    r",(?P<data>.*)"
)
_COMMA = "%!(VAGRANT_COMMA)"
_ENOUGH = 700
"""Characters of an explanation that are passed on."""


@dataclass(frozen=True)
class OutputLine:
    machine: str
    """"" for one that is about none."""
    kind: str
    data: Sequence[str]


@dataclass(frozen=True)
class MachineStatus:
    """What Vagrant knows of a machine: in the words of its provider."""

    provider: str
    state: str


@dataclass(frozen=True)
class VagrantLogin:
    host: str
    port: int
    user: str
    keys: tuple[str, ...]
    """Files, of which one lets in."""
    by_command: bool
    """Whether the way there is a command of its own."""


def parse_lines(output: bytes) -> list[OutputLine]:
    found = []
    for text in output.decode("utf-8", "replace").split("\n"):
        if match := _LINE.fullmatch(text.rstrip("\r")):
            data = match["data"].replace(r"\n", "\n").replace(r"\r", "").split(",")
            plain = tuple(one.replace(_COMMA, ",") for one in data)
            found.append(OutputLine(match["machine"], match["kind"], plain))
    return found


def parse_machines(told: Sequence[OutputLine]) -> Mapping[str, MachineStatus]:
    """By name, in the order of the Vagrantfile: from what `vagrant status` says."""
    providers = {line.machine: line.data[0] for line in told if line.kind == "provider-name"}
    states = {line.machine: line.data[0] for line in told if line.kind == "state"}
    return {name: MachineStatus(providers.get(name, ""), state) for name, state in states.items() if name}


def find_refusal(told: Sequence[OutputLine]) -> tuple[str, str] | None:
    """The class of the error that a command ended with, and what Vagrant says about it; None where it says none."""
    for line in told:
        if line.kind == "error-exit":
            return line.data[0].rpartition("::")[2], shorten(",".join(line.data[1:]))
    return None


def shorten(text: str) -> str:
    """An explanation as one line."""
    return " ".join(text.split())[:_ENOUGH]


def parse_login(told: Sequence[OutputLine]) -> VagrantLogin:
    """From what `vagrant ssh-config` says. ToolFailed when that is no way to log in."""
    text = "\n".join(line.data[0] for line in told if line.kind == "ssh-config")
    words: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        value = value.strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        words.setdefault(key.lower(), []).append(value[1:-1] if is_quoted else value)
    host, user, port = (words.get(key, [usual])[0] for key, usual in (("hostname", ""), ("user", ""), ("port", "22")))
    if not host or not user or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ToolFailed(f"vagrant ssh-config said {text[:300]!r}")
    return VagrantLogin(host, int(port), user, tuple(words.get("identityfile", ())), "proxycommand" in words)
