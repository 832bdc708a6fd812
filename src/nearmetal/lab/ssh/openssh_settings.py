"""What OpenSSH's own client makes of the user's configuration, where it is installed: the output of `ssh -G HOST`.

Only OpenSSH reads its configuration as OpenSSH does: comments behind values, `Match`, times with units, URIs.
"""

import getpass
import hashlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearmetal.errors import ToolFailed

_LIMIT = 20.0
"""Seconds: `Match exec` of the configuration runs programs."""
_TOKEN = re.compile(r"%(.)")
_IPV4 = re.compile(r"\[([0-9.]+)\]")
_HOP = re.compile(r"^(?:.*@)?(\[.+\]|[^:]+)(?::[0-9]+)?$")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_OF_DEFAULT = frozenset({"userknownhostsfile", "globalknownhostsfile", "hostname", "port", "user"})
"""Options that count even if the configuration leaves them as they are."""


@dataclass(frozen=True)
class OpensshSettings:
    """The way to one host. `values` has each option's values, by its name in small letters; usual ones are left out."""

    name: str
    """As it was asked for."""
    values: Mapping[str, Sequence[str]]

    def first(self, option: str) -> str | None:
        """None also if it is "none"."""
        value = next(iter(self.values.get(option, ())), None)
        return None if value == "none" else value

    @property
    def host(self) -> str:
        return self.first("hostname") or self.name

    @property
    def port(self) -> int:
        return int(self.first("port") or 22)

    @property
    def user(self) -> str:
        return self.first("user") or getpass.getuser()

    def list_paths(self, option: str) -> list[Path]:
        return [Path(self._expand(one)).expanduser() for one in self.values.get(option, ())]

    @property
    def known_hosts_files(self) -> list[Path]:
        """The user's before the host's."""
        lines = [one for key in ("userknownhostsfile", "globalknownhostsfile") for one in self.values.get(key, ())]
        return [Path(self._expand(name)).expanduser() for line in lines for name in _split_names(line)]

    @property
    def jumps(self) -> str:
        """It prints an IPv4 address in brackets, too."""
        return _IPV4.sub(r"\1", self.first("proxyjump") or "")

    @property
    def proxy_command(self) -> list[str] | None:
        """OpenSSH hands it to the user's shell."""
        command = self.first("proxycommand")
        shell = os.environ.get("SHELL") or "/bin/sh"
        return [shell, "-c", f"exec {self._expand(command)}"] if command else None

    def _expand(self, text: str) -> str:
        """The tokens of ssh_config(5) that say where something lies or leads."""
        # The host of the last hop. Before OpenSSH 9.6 there is no %j, and %C is without it.
        jump = (self.first("proxyjump") or "").rpartition(",")[2]
        jump = _HOP.sub(r"\1", jump).strip("[]")
        whole = "".join((socket.gethostname(), self.host, str(self.port), self.user, jump))
        tokens = {
            "%": "%",
            "C": hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest(),
            "d": str(Path.home()),
            "h": self.host,
            "k": self.first("hostkeyalias") or self.name,
            "i": str(os.getuid()),
            "j": jump,
            "L": socket.gethostname().partition(".")[0],
            "l": socket.gethostname(),
            "n": self.name,
            "p": str(self.port),
            "r": self.user,
            "u": getpass.getuser(),
        }
        text = _TOKEN.sub(lambda found: tokens.get(found[1], found[0]), text)
        return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text)


def ask_openssh(name: str, user: str | None, port: int | None) -> OpensshSettings | None:
    """None if OpenSSH is not installed. ToolFailed with what it says of a configuration that it cannot use."""
    ssh = shutil.which("ssh")
    if ssh is None:
        return None
    given = (*(("-l", user) if user else ()), *(("-p", str(port)) if port else ()), "--", name)
    with _configuration() as configuration:
        found = _read_settings([ssh, *configuration, "-G", *given])
    usual = _read_settings([ssh, "-F", "none", "-G", *given])
    values = {
        option: _at_home(found_values) if option in _OF_DEFAULT else found_values
        for option, found_values in found.items()
        if option in _OF_DEFAULT or found_values != usual.get(option)
    }
    return OpensshSettings(name, values)


@contextmanager
def _configuration() -> Iterator[list[str]]:
    """Words that have OpenSSH read the configuration below $HOME, which it does not look at by itself."""
    if str(Path.home()) == _own_home():
        yield []
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_text(f'Include "{Path.home()}/.ssh/config"\nInclude /etc/ssh/ssh_config\n')
        yield ["-F", str(file)]


def _own_home() -> str:
    return pwd.getpwuid(os.getuid()).pw_dir


def _at_home(values: Sequence[str]) -> list[str]:
    return [" ".join(word.replace(f"{_own_home()}/.ssh/", "~/.ssh/", 1) for word in one.split(" ")) for one in values]


def _read_settings(command: Sequence[str]) -> dict[str, list[str]]:
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"ssh -G: {error}") from None
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["ssh -G failed"]
        # The last line only counts the bad ones.
        raise ToolFailed(said[0])
    return parse_settings(ended.stdout.decode("utf-8", "surrogateescape"))


def parse_settings(text: str) -> dict[str, list[str]]:
    """Values by option, of lines "option value". Pure."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        option, _, value = line.partition(" ")
        values.setdefault(option.lower(), []).append(value)
    return values


def _split_names(line: str) -> list[str]:
    """OpenSSH prints several names on a line, without quotes: a name with spaces is known by being there."""
    words, names = line.split(" "), []
    while words:
        ends = range(len(words), 1, -1)
        end = next((end for end in ends if Path(" ".join(words[:end])).expanduser().exists()), 1)
        names.append(" ".join(words[:end]))
        words = words[end:]
    return [name for name in names if name and name != "none"]
