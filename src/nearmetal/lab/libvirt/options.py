"""What stands in [environments.NAME] of kind `libvirt`."""

import os
from typing import Annotated, Self

from pydantic import Field, IPvAnyAddress, model_validator

from nearmetal.model import Frozen, HostSpec
from nearmetal.model.study import LoginName

_OF_OURS = ("machine",)
_OF_YOURS = ("login", "data", "key", "host_key")


class Options(Frozen):
    uri: str | None = None
    machine: str = "q35"
    domain: Annotated[str, Field(min_length=1)] | None = None
    login: LoginName = "root"
    data: IPvAnyAddress | None = None
    key: str | None = None
    host_key: str | None = None

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
