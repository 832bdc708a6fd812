"""What a study file may say of an HTTP workload, and which of it goes together. Pure."""

import re
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, StrictBool, StringConstraints, field_validator, model_validator

from nearmetal.model import Frozen, Whole
from nearmetal.units import parse_duration
from nearmetal.workloads._parameters import LONGEST, Rate, Time
from nearmetal.workloads._pinned_file import StudyFile, pin_files
from nearmetal.workloads._served_parameters import RequestPath, ServedParameters, check_path

TURN = 100_000
"""The most that the weights of a mix may add up to; the generator lays out that many requests beforehand."""

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
Token = Annotated[str, StringConstraints(pattern=f"^{_TOKEN}$", max_length=100)]
"""A word of HTTP: RFC 9110, section 5.6.2."""
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*$", max_length=8000)]
Text = Annotated[str, Field(max_length=65_536)]

_FRAMING = ("content-length", "transfer-encoding", "connection")


class MixEntry(Frozen):
    """One kind of request of several."""

    path: RequestPath
    weight: Annotated[int, Field(strict=True, ge=1, le=TURN)] = 1
    method: Token | None = None
    send: Text | None = None
    send_file: StudyFile | None = None

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        _check_one_body(self.send, self.send_file)
        return self


class TlsParameters(Frozen):
    """Whom the clients trust; without it, the CAs that each client's machine trusts."""

    ca: StudyFile | None = None
    insecure: StrictBool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.ca is not None and self.insecure:
            raise ValueError("`ca` and `insecure` exclude each other: remove one")
        return self


def check_headers(headers: Mapping[str, str]) -> None:
    """ValueError for a header that the generator sets itself, and for one that is there twice."""
    for name in headers:
        if name.lower() in _FRAMING:
            raise ValueError(f"the generator sets {name} itself, by what is sent and by `new_connections`: remove it")
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("a header is there twice, in other letters: remove one")


def check_body(method: str | None, send: str | None, send_file: StudyFile | None, mix: Sequence[MixEntry]) -> None:
    """ValueError where what is sent is said twice."""
    _check_one_body(send, send_file)
    if mix and (method is not None or send is not None or send_file is not None):
        raise ValueError("each entry of `mix` says its method and what it sends: remove `method`, `send`, `send_file`")
    if sum(entry.weight for entry in mix) > TURN:
        raise ValueError(f"the weights of `mix` add up to more than {TURN}: write smaller ones")


def _check_one_body(send: str | None, send_file: StudyFile | None) -> None:
    if send is not None and send_file is not None:
        raise ValueError("`send` and `send_file` exclude each other: remove one")


DURATION = 10.0
"""Seconds of measuring when a study says neither `duration` nor `requests`."""
GUESS = 1000.0
"""Requests per second that a closed loop with a number of requests is taken to make, where only time can tell."""

CONFIRMING = 12
"""Steps that a ramp may add: the rate that failed and each of three between it and the last good one, three times."""

LET_REST = 10.0
"""Seconds that a ramp waits for its server after a step that left requests unanswered, or as long as a longer step."""

_CONNECTIONS = re.compile(r"([0-9]+(?:\.[0-9]+)?)x")

_ONLY_IN = {
    "rate": ("open",),
    "arrivals": ("open", "ramp"),
    "spin": ("open", "ramp"),
    "from": ("ramp",),
    "step": ("ramp",),
    "to": ("ramp",),
    "per_step": ("ramp",),
    "duration": ("closed", "open"),
    "requests": ("closed", "open"),
}
_REQUIRED = {"closed": (), "open": ("rate",), "ramp": ("from", "step", "to")}


class HttpParameters(ServedParameters):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schemes: ClassVar[tuple[str, ...]] = ("http", "https")

    paths: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    method: Token | None = None
    headers: Annotated[Mapping[Token, HeaderValue], Field(max_length=100)] = {}
    send: Text | None = None
    send_file: StudyFile | None = None
    mix: Annotated[tuple[MixEntry, ...], Field(max_length=1000)] = ()
    tls: TlsParameters | None = None
    mode: Literal["closed", "open", "ramp"] = "closed"
    workers: Annotated[Whole, Field(le=100_000)] = 16
    threads: Annotated[Whole, Field(le=1024)] = 1
    new_connections: StrictBool = False
    duration: Time | None = None
    requests: Whole | None = None
    rate: Rate | None = None
    arrivals: Literal["constant", "poisson"] = "constant"
    spin: StrictBool = False
    from_: Annotated[Rate | None, Field(alias="from")] = None
    step: Rate | None = None
    to: Rate | None = None
    per_step: str = "20x"

    @field_validator("paths")
    @classmethod
    def _are_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_path(path) for path in value)

    @field_validator("per_step")
    @classmethod
    def _is_step(cls, value: str) -> str:
        try:
            seconds = _step_seconds(value)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= LONGEST:
            raise ValueError(f'{value!r} is not the length of a step; write "20x" (connections = 20 x rate) or "10s"')
        return value

    @model_validator(mode="after")
    def _fit_the_mode(self) -> "HttpParameters":
        given = {"from" if name == "from_" else name for name in self.model_fields_set}
        given = {name for name in given if getattr(self, "from_" if name == "from" else name) is not None}
        for name, modes in _ONLY_IN.items():
            if name in given and self.mode not in modes:
                these = " or ".join(f'"{mode}"' for mode in modes)
                raise ValueError(f"`{name}` needs mode = {these}, and this is {self.mode!r}: change one of the two")
        for name in _REQUIRED[self.mode]:
            if name not in given:
                raise ValueError(f'mode = "{self.mode}" needs `{name}`, in requests per second: add {name} = 100')
        return self

    @model_validator(mode="after")
    def _go_together(self) -> "HttpParameters":
        if self.duration is not None and self.requests is not None:
            raise ValueError("`duration` and `requests` exclude each other: remove one")
        if self.mode == "ramp" and (self.from_ or 0) > (self.to or 0):
            raise ValueError(f"the ramp begins above its end, from = {self.from_:g} and to = {self.to:g}: swap the two")
        if self.mode == "closed" and self.threads > self.workers:
            raise ValueError(f"threads = {self.threads} leaves threads without one of the {self.workers} workers")
        if self.url is not None and self.paths:
            raise ValueError("with `url`, the path stands in the URL: remove `paths`")
        if self.path is not None and self.paths:
            raise ValueError("`path` and `paths` exclude each other: put the one path into `paths`")
        return self

    @model_validator(mode="after")
    def _make_requests(self) -> "HttpParameters":
        check_headers(self.headers)
        check_body(self.method, self.send, self.send_file, self.mix)
        if self.mix and (self.path is not None or self.paths):
            raise ValueError("the paths stand in `mix`: remove `path` and `paths`")
        if self.mix and self.url is not None and urlsplit(self.url)[2:4] not in (("", ""), ("/", "")):
            raise ValueError("the paths stand in `mix`, and that of `url` would not be asked for: remove it")
        if self.tls is not None and not self.is_tls:
            raise ValueError(
                '`tls` needs a service, or `url` with https://: write url = "https://$server/", or remove `tls`'
            )
        return self

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every path that is asked for; none where a URL says it."""
        return tuple(entry.path for entry in self.mix) or self.paths or self.one_path

    @property
    def is_tls(self) -> bool:
        if self.url is not None:
            return self.url.startswith("https://")
        return self.tls is not None and bool(self.asked_services)

    @property
    def scheme(self) -> str:
        return "https" if self.is_tls else "http"

    def pin_files(self, written: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters as they were written, but that files have their checksums."""
        return {name: pin_files(value, getattr(self, name, None)) for name, value in written.items()}

    def lengthen(self, written: Mapping[str, Any], seconds: int) -> Mapping[str, Any] | None:
        """None of a ramp, which ends at its last step."""
        return None if self.mode == "ramp" else super().lengthen(written, seconds)

    @property
    def measured_seconds(self) -> float:
        """The length of the window where a number of requests does not end it."""
        return DURATION if self.duration is None else self.duration

    @property
    def expected_seconds(self) -> float:
        """Of measuring, as near as can be told beforehand; of a ramp, when it climbs to its end."""
        if self.mode == "ramp":
            return (self._climbs + CONFIRMING) * _step_seconds(self.per_step)
        if self.requests is not None:
            return self.requests / (self.rate or GUESS)
        return self.measured_seconds

    @property
    def longest_seconds(self) -> float:
        """What no run takes longer than, as long as the generator works: every wait may end with a timeout."""
        waits, rests = 1, 0.0
        if self.mode == "ramp":
            waits = self._climbs + CONFIRMING
            rests = waits * max(LET_REST, _step_seconds(self.per_step))
        if self.mode == "closed" and self.requests is not None:
            waits = ceil(self.requests / self.workers) + 1
        return min(LONGEST, self.expected_seconds + waits * self.timeout + rests)

    @property
    def _climbs(self) -> int:
        if self.from_ is None or self.step is None or self.to is None:
            raise AssertionError("the parameters were validated to have them")
        return floor((self.to - self.from_) / self.step + 1e-9) + 1  # 0.1 + 0.2 is a little more than 0.3


def _step_seconds(per_step: str) -> float:
    """ "20x" is 20 x rate connections at that rate: 20 s, whatever the rate. ValueError."""
    connections = _CONNECTIONS.fullmatch(per_step)
    return float(connections[1]) if connections else parse_duration(per_step)
