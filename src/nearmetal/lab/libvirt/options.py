"""What stands in [environments.NAME] of kind `libvirt`."""

import os
import re
from typing import Annotated, Self
from urllib.parse import unquote

from pydantic import Field, IPvAnyAddress, field_validator, model_validator

from nearmetal.lab.libvirt.virsh import Connection
from nearmetal.lab.qemu import arguments
from nearmetal.model import Frozen, HostSpec, Site
from nearmetal.model.base import LoginName

_OF_OURS = ("machine",)
_OF_YOURS = ("login", "data", "key", "host_key")

_URI = re.compile(
    r"(?=[!-~]*\Z)(?P<driver>[a-z]+)(\+(?P<transport>[a-z0-9]+))?:"
    r"(//((?P<user>[^@/?#]*)@)?(\[[0-9a-f:.]+(%25[a-z0-9._~-]+)?\]|[a-z0-9_][a-z0-9_.-]*)?(:[0-9]*)?|(?=/(?!/)))"
    r"(?P<path>/[^?#]*)?(\?(?P<query>[^#]*))?",
    re.IGNORECASE | re.ASCII,
)
"""`qemu:/system` has no part for a host, where that of `qemu:///system` is empty."""
_ALIAS = re.compile("[A-Za-z0-9_][A-Za-z0-9_-]*")
"""What a name of libvirt.conf's `uri_aliases` looks like: whoever runs nearmetal wrote there what it stands for."""
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*")
_DRIVERS = re.compile(
    "bhyve|ch|esx|gsx|hyperv|lxc|openvz|qemu|remote|test|vbox|vmwarefusion|vmwareplayer|vmwarews|vpx|vz|xen"
)
_TRANSPORTS = re.compile("libssh|libssh2|ssh|tcp|tls|unix")
"""All but `ext`, which starts a program that the URI names."""
_PATHS = frozenset(["", "/", "/system", "/session"])
"""Not `/embed`: the driver then runs in virsh itself, by files of a folder that the URI names."""
_PATHS_OF = {"test": frozenset(["", "/", "/default"])}
"""Of `test`, any other is a file that its driver reads, as root."""
_PARAMETERS = re.compile(
    "auto_answer|authfile|keyfile|known_hosts|known_hosts_verify|mode|name|no_tty|no_verify|pkipath|"
    "proxy|socket|sshauth|tls_priority|transport|vcenter"
)
"""Not `command` and `netcat`, which name a program: one that reaches libvirt, and one for that on the host of libvirt;
and none that a daemon would hand on to its driver."""
_STARTS = "it might start a program by that"


class Options(Frozen):
    uri: str | None = None
    machine: str = arguments.MACHINE
    domain: Annotated[str, Field(min_length=1)] | None = None
    login: LoginName = "root"
    data: IPvAnyAddress | None = None
    key: str | None = None
    host_key: str | None = None

    @field_validator("uri")
    @classmethod
    def _uri(cls, uri: str | None) -> str | None:
        if problem := find_problem(uri or ""):
            raise ValueError(f"{uri!r}: {problem}, or set LIBVIRT_DEFAULT_URI")
        return uri

    @model_validator(mode="after")
    def _fits(self) -> Self:
        idle = [name for name in (_OF_YOURS if self.domain is None else _OF_OURS) if name in self.model_fields_set]
        if idle:
            what = "a domain that is there already" if self.domain is None else "domains that nearmetal makes"
            raise ValueError(f"`{idle[0]}` is for {what}, and `domain` names {self.domain or 'none'}")
        return self

    def connect(self, site: Site) -> Connection:
        """A connection to the URI that the study names, else on this host LIBVIRT_DEFAULT_URI, else the usual one."""
        variable = os.environ.get("LIBVIRT_DEFAULT_URI") if site.spec is None else None
        return Connection(self.uri or variable or "qemu:///system", site)

    def way(self, host: str) -> HostSpec:
        """How one logs in to the domain at this address."""
        at = f"[{host}]" if ":" in host else host
        return HostSpec(ssh=f"{self.login}@{at}", key=self.key, host_key=self.host_key, trunk=self.data)


def find_problem(uri: str, is_named: bool = False) -> str | None:
    """What in a URI might have libvirt start a program of the URI's choice: all that is not known to start none. Or, of
    `test`, read a file. Pure.

    `name` is the URI that the daemon, as root, opens in its turn. `is_named`: it is such a one, and names none itself.
    """
    if not uri or _ALIAS.fullmatch(uri):
        return None
    parts = _URI.fullmatch(uri)
    if parts is None:
        return f"nearmetal does not read {uri!r} as a URI of libvirt; write it like qemu+ssh://root@host/system"
    driver, transport, path = parts["driver"].lower(), (parts["transport"] or "ssh").lower(), parts["path"] or ""
    if not (_DRIVERS.fullmatch(driver) and _TRANSPORTS.fullmatch(transport)):
        return _refused(uri.partition(":")[0])
    if parts["user"] and not _USER.fullmatch(unquote(parts["user"])):
        return _refused(parts["user"])
    if driver != "vpx" and path not in _PATHS_OF.get(driver, _PATHS):  # a vCenter's are its own folders
        return _refused(path, "libvirt would read that file" if driver == "test" else _STARTS)
    for word in filter(None, re.split("[&;]", parts["query"] or "")):
        key, _, value = word.partition("=")
        name = unquote(key).lower()
        if not _PARAMETERS.fullmatch(name) or (name == "name" and is_named):
            return _refused(name)
        problem = find_problem(unquote(value), is_named=True) if name == "name" else None
        if problem is not None:
            return problem
    return None


def _refused(part: str, why: str = _STARTS) -> str:
    return f"a study may not choose {part!r}, since {why}; leave it out"
