"""What requests are made of: its part of an HTTP workload's parameters, and the words and files for the generator."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, StrictBool, StringConstraints, field_validator, model_validator

from nearmetal.errors import MachineError
from nearmetal.model import Frozen, Machine
from nearmetal.workloads._served_parameters import check_path
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

    path: str
    weight: Annotated[int, Field(strict=True, ge=1, le=TURN)] = 1
    method: Token | None = None
    send: Text | None = None
    send_file: StudyFile | None = None

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        return check_path(value)

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


class RequestArguments:
    """The generator's words for the requests of a workload, and the files that they name, on each client."""

    def __init__(
        self,
        *,
        paths: Sequence[str],
        method: str | None,
        headers: Mapping[str, str],
        send: str | None,
        send_file: StudyFile | None,
        mix: Sequence[MixEntry],
        tls: TlsParameters | None,
    ) -> None:
        """`paths` are those besides the URL's."""
        self._headers = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        self._paths = [word for path in paths for word in ("--path", path)]
        self._method = [] if method is None else ["--method", method]
        self._send = None if send is None else send.encode()
        self._send_file = send_file
        self._mix = mix
        self._tls = tls
        self._files = [file for file in (send_file, tls.ca if tls else None) if file is not None]
        self._files += [entry.send_file for entry in mix if entry.send_file is not None]

    def make_arguments(self, client: Machine, *, once: bool = False) -> list[str]:
        """As the generator on this client is told; with `once`, each kind of request as often as any other."""
        words = [*self._paths, *self._method, *self._headers]
        if self._send is not None or self._send_file is not None:
            at = self._body_file(client) if self._send_file is None else self._send_file.locate_in(client)
            words += ["--data", f"@{at}"]
        if self._mix:
            words += ["--mix", json.dumps([self._make_entry(client, entry, once) for entry in self._mix])]
        if self._tls is not None and self._tls.ca is not None:
            words += ["--ca", self._tls.ca.locate_in(client)]
        return [*words, "--insecure"] if self._tls is not None and self._tls.insecure else words

    def _make_entry(self, client: Machine, entry: MixEntry, once: bool) -> dict[str, Any]:
        said = entry.model_dump(exclude_none=True, exclude={"send_file"})
        if entry.send_file is not None:
            said["send_file"] = entry.send_file.locate_in(client)
        return {**said, "weight": 1} if once else said

    def _body_file(self, client: Machine) -> str:
        return f"{client.probe}.send"

    async def put_files(self, clients: Sequence[Machine]) -> None:
        """Have the files on every client. ToolFailed when one is another than when the study was planned."""
        for client in clients:
            for file in self._files:
                await client.put(file.read(), file.locate_in(client))
            if self._send is not None:
                await client.put(self._send, self._body_file(client))

    async def remove_files(self, clients: Sequence[Machine]) -> None:
        """Remove them from every client that still answers."""
        for client in clients:
            there = [file.locate_in(client) for file in self._files]
            there += [] if self._send is None else [self._body_file(client)]
            if there:
                with contextlib.suppress(MachineError):
                    await client.exec(["rm", "-f", *there])
