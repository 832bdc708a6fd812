"""What stands in [environments.NAME] of kind `libvirt`."""

import os
import re
from typing import Annotated, Self
from urllib.parse import unquote

from pydantic import Field, IPvAnyAddress, field_validator, model_validator

from nearmetal.model import Frozen, HostSpec
from nearmetal.model.study import LoginName

_OF_OURS = ("machine",)
_OF_YOURS = ("login", "data", "key", "host_key")
_PROGRAMS = ("command", "netcat")
"""Parameters of a URI that name a program: one that reaches libvirt, and one for that on the host where libvirt is."""


class Options(Frozen):
    uri: str | None = None
    machine: str = "q35"
    domain: Annotated[str, Field(min_length=1)] | None = None
    login: LoginName = "root"
    data: IPvAnyAddress | None = None
    key: str | None = None
    host_key: str | None = None

    @field_validator("uri")
    @classmethod
    def _uri(cls, uri: str | None) -> str | None:
        started = started_by(uri or "")
        if started:
            raise ValueError(
                f"{uri!r} starts a program by `{started}`, which a study may not choose; leave it out, or set "
                "LIBVIRT_DEFAULT_URI"
            )
        return uri

    @model_validator(mode="after")
    def _fits(self) -> Self:
        idle = [name for name in (_OF_YOURS if self.domain is None else _OF_OURS) if name in self.model_fields_set]
        if idle:
            what = "a domain that is there already" if self.domain is None else "domains that nearmetal makes"
            raise ValueError(f"`{idle[0]}` is for {what}, and `domain` names {self.domain or 'none'}")
        return self

    @property
    def connection(self) -> str:
        """The URI that the study or the environment names, else the usual one."""
        return self.uri or os.environ.get("LIBVIRT_DEFAULT_URI") or "qemu:///system"

    def way(self, host: str) -> HostSpec:
        """How one logs in to the domain at this address."""
        at = f"[{host}]" if ":" in host else host
        return HostSpec(ssh=f"{self.login}@{at}", key=self.key, host_key=self.host_key, trunk=self.data)


def started_by(uri: str) -> str | None:
    """What in a URI has libvirt start a program that the URI names. Pure.

    Read more widely than libvirt does, which takes names in any case, escaped, and after "&" or ";". `name` is the URI
    that the daemon, as root, opens in its turn.
    """
    if uri.partition(":")[0].lower().endswith("+ext"):
        return "ext"
    for word in re.split("[?&;#]", uri)[1:]:
        key, _, value = word.partition("=")
        name = unquote(key).lower()
        found = name if name in _PROGRAMS else started_by(unquote(value)) if name == "name" else None
        if found:
            return found
    return None
