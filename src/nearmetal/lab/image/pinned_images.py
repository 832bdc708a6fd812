"""Which image a name means while a run goes on: the one that it began with, whatever is built meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_PINNED: ContextVar[Mapping[str, str]] = ContextVar("_PINNED", default=MappingProxyType({}))


@contextmanager
def pinned(digests: Mapping[str, str]) -> Iterator[None]:
    """Within, in its tasks and threads too, images of these names are those of these digests."""
    before = _PINNED.set(digests)
    try:
        yield
    finally:
        _PINNED.reset(before)


def digest(name: str) -> str | None:
    """None where the newest is meant."""
    return _PINNED.get().get(name)
