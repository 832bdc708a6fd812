"""A service of the user's own, beside the workloads that ask it: as a study describes it, and resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from nearmetal.model.base import Frozen, LoginName
from nearmetal.units import Seconds

SERVER = "$server"
"""Stands for the address of a server on the data network. Braces would be a factor's level."""

FILLED = ("start", "env", "ready", "directory")
"""Keys of a service that levels of factors stand in."""

OURS = ("lighttpd", "probe")
"""Servers that a workload starts by itself: no service has such a name."""

_FILE = '"./config.toml:/srv/config.toml"'
_READY = 'write "http://$server:8080/healthz", "tcp:8080", or a command like ["/srv/api", "--check"]'
_TCP = re.compile(r"tcp:([0-9]{1,5})")
_LARGEST_PORT = 65535
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _check_word(word: str) -> str:
    if "\0" in word:
        raise ValueError(f"{word!r} holds a NUL, which no word of a command line can")
    return word


def _check_path(path: str) -> str:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or not path.isprintable():
        raise ValueError(f"{path!r} is not an absolute path without '..', in the machine")
    return path


def split_file(text: str) -> tuple[str, str]:
    """From "SOURCE:DESTINATION", a file of this host and its path in the machine. ValueError."""
    source, colon, destination = text.rpartition(":")
    if not colon or not source or destination.endswith("/"):
        raise ValueError(f"{text!r} names no file and its place in the machine; write it like {_FILE}")
    return source, _check_path(destination)


def _check_file(text: str) -> str:
    split_file(text)
    return text


CommandWord = Annotated[str, AfterValidator(_check_word)]
"""One of an argument vector, or of an environment."""
FileText = Annotated[str, AfterValidator(_check_file)]
"""As written: "SOURCE:DESTINATION". A relative source lies beside the study file."""
PortNumber = Annotated[int, Field(strict=True, ge=1, le=_LARGEST_PORT)]
"""Of TCP."""


class ServiceSpec(Frozen):
    """What [services.NAME] says: how a service starts on each server, and how a client knows that it is ready."""

    start: Annotated[tuple[CommandWord, ...], Field(min_length=1)] | Literal["image"]
    """An argument vector. "image" is what the machine's image starts, with its environment, user and directory."""
    port: PortNumber | None = None
    env: Mapping[Annotated[str, Field(pattern=_VARIABLE)], CommandWord] = {}
    files: tuple[FileText, ...] = ()
    ready: Annotated[tuple[CommandWord, ...], Field(min_length=1)] | CommandWord | None = None
    """A URL that a client asks until it answers with 2xx, "tcp:PORT", or a command that succeeds in the server.
    None: the server listens on `port`."""
    ready_within: Annotated[Seconds, Field(gt=0, le=3600)] = 60.0
    user: LoginName | None = None
    directory: Annotated[str, AfterValidator(_check_path)] | None = None
    lifetime: Literal["trial", "boot"] = "trial"

    @field_validator("start", mode="before")
    @classmethod
    def _is_vector(cls, value: object) -> object:
        if isinstance(value, str) and value != "image":
            what = f"{value!r} is no argument vector, and no shell splits it"
            raise ValueError(
                f'{what}; write start = ["/srv/api", "--port", "8080"], or "image" for what the image starts'
            )
        return value

    @field_validator("start")
    @classmethod
    def _names_program(cls, value: tuple[str, ...] | str) -> tuple[str, ...] | str:
        if value and not value[0]:
            raise ValueError('the first word names the program; write start = ["/srv/api", "--port", "8080"]')
        return value

    @field_validator("ready")
    @classmethod
    def _is_question(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        if isinstance(value, str) and parse_tcp(value) is None and not _is_url(value):
            raise ValueError(f"{value!r} cannot be asked; {_READY}")
        if isinstance(value, tuple) and not value[0]:
            raise ValueError(f"the first word names the program; {_READY}")
        return value

    @model_validator(mode="after")
    def _can_be_awaited(self) -> ServiceSpec:
        if self.port is None and self.ready is None:
            raise ValueError(f"nothing says when it is ready: give `port`, on which it listens, or `ready`; {_READY}")
        return self


def parse_tcp(ready: str) -> int | None:
    """The port of "tcp:PORT"; None of any other text."""
    found = _TCP.fullmatch(ready)
    return int(found[1]) if found and 1 <= int(found[1]) <= _LARGEST_PORT else None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and all("!" <= one <= "~" for one in text)


class PlacedFile(Frozen):
    """A file of the user's that is put into machines. The run's folder has its contents, by their SHA-256."""

    source: str
    """As the study writes it."""
    destination: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    mode: Annotated[int, Field(ge=0, le=0o777)]


class ResolvedService(Frozen):
    """A service as it is started, with its files as they were when the run was planned."""

    start: tuple[str, ...] | Literal["image"]
    port: int | None
    env: Mapping[str, str]
    files: tuple[PlacedFile, ...]
    ready: tuple[str, ...] | str
    ready_within: float
    user: str | None
    directory: str | None
    lifetime: Literal["trial", "boot"]
