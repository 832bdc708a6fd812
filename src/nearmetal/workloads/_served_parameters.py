"""What a study file may say of the service that requests go to, whichever generator sends them. Pure."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from nearmetal.model import Frozen, Name
from nearmetal.model.services import OURS
from nearmetal.units import Bytes, Seconds
from nearmetal.workloads._parameters import LONGEST, Time
from nearmetal.workloads._stage import SERVER

PORTS = {"lighttpd": 80, "probe": 9001}
"""Where each server of nearmetal's own listens."""

_PATH = re.compile(r"/[!-~]*")
_WRITES = re.compile(r"[1-9][0-9]{0,3}x[1-9][0-9]{0,5}")


def check_path(path: str) -> str:
    """The path, when it is one that fits into a request line. ValueError."""
    if not _PATH.fullmatch(path) or "#" in path:
        raise ValueError(f'{path!r} is not a path; write it like "/100k", without spaces and without "#"')
    return path


RequestPath = Annotated[str, AfterValidator(check_path)]


class ServedParameters(Frozen):
    schemes: ClassVar[tuple[str, ...]] = ("http",)
    """Of a URL."""

    server: Name | None = None
    """One of `OURS`, or a service of the study's."""
    url: str | None = None
    body: Annotated[Bytes, Field(le=2**30)] = 402
    writes: str | None = None
    """"10x1000": the content in ten writes of a thousand bytes each."""
    delay: Annotated[Seconds, Field(le=LONGEST)] = 0.0
    """What the probe waits before each reply."""
    path: RequestPath | None = None
    warmup: Annotated[Seconds, Field(le=LONGEST)] = 1.0
    timeout: Time = 5.0

    @field_validator("writes")
    @classmethod
    def _are_writes(cls, value: str | None) -> str | None:
        if value is not None and not _WRITES.fullmatch(value):
            raise ValueError(f'{value!r} is no number of writes; write it like "10x1000": ten of a thousand bytes')
        return value

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        wrong = ValueError(f'{value!r} is not a URL that can be loaded; write it like "http://{SERVER}:8080/page"')
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError:
            raise wrong from None
        is_printable = all("!" <= character <= "~" for character in value)
        leads_somewhere = parts.scheme in cls.schemes and parts.hostname and port != 0
        if not leads_somewhere or "@" in parts.netloc or parts.fragment or not is_printable:
            raise wrong
        return value

    @model_validator(mode="before")
    @classmethod
    def _choose_server(cls, given: object) -> object:
        """A workload that names no URL is served by lighttpd."""
        if isinstance(given, dict) and given.get("url") is None and given.get("server") is None:
            return {**given, "server": "lighttpd"}
        return given

    @model_validator(mode="after")
    def _one_service(self) -> "ServedParameters":
        if self.url is not None and self.server is not None:
            raise ValueError("`server` and `url` exclude each other: nearmetal starts a server, or the user has one")
        if self.url is not None and self.path is not None:
            raise ValueError("with `url`, the path stands in the URL: remove `path`")
        if "body" in self.model_fields_set and self.server != "probe":
            raise ValueError('`body` needs server = "probe"; lighttpd has "/1k", "/100k" and "/1m": choose by `path`')
        if self.writes is not None and (self.server != "probe" or "body" in self.model_fields_set):
            raise ValueError('`writes` needs server = "probe", and says itself how long a reply is: leave out `body`')
        if self.delay and self.server != "probe":
            raise ValueError('`delay` needs server = "probe"; what a link adds is `link.delay`')
        return self

    @property
    def scheme(self) -> str:
        """Of the URL, where there is none that says it."""
        return "http"

    @property
    def asked_services(self) -> tuple[str, ...]:
        return () if self.server is None or self.server in OURS else (self.server,)

    @property
    def own_ports(self) -> tuple[int, ...]:
        """Where a server of nearmetal's own listens in each machine under test."""
        server = self.server or "lighttpd"
        return (PORTS[server],) if self.url is None and server in PORTS else ()

    def lengthen(self, written: Mapping[str, Any], seconds: int) -> Mapping[str, Any] | None:
        """The parameters, as the study writes them, of the same load for so long."""
        others = {name: value for name, value in written.items() if name not in ("requests", "connections")}
        return {**others, "duration": f"{seconds}s"}

    @property
    def one_path(self) -> tuple[str, ...]:
        """The path that is asked for; none where a URL says it."""
        return () if self.url is not None else (self.path or "/",)
