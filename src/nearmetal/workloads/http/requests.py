"""What requests are made of: its part of an HTTP workload's parameters. Pure."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import Field, StrictBool, StringConstraints, model_validator

from nearmetal.model import Frozen
from nearmetal.workloads._served_parameters import RequestPath
from nearmetal.workloads._study_file import StudyFile

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
