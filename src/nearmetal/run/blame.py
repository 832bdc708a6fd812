"""Whose fault it is that something broke: a plugin may be somebody else's, and its name says whom to ask."""

from collections.abc import Iterator
from contextlib import contextmanager

from nearmetal.errors import NearmetalError


class PluginBroke(Exception):
    def __init__(self, who: str, what: Exception) -> None:
        super().__init__(who, what)
        self.who = who
        self.what = what


@contextmanager
def by(who: str) -> Iterator[None]:
    """Whatever is raised in here, beside what nearmetal's own errors say, is that plugin's."""
    try:
        yield
    except NearmetalError:
        raise
    except Exception as error:
        raise PluginBroke(who, error) from error


def blamed(error: Exception, otherwise: str) -> tuple[str, Exception]:
    """Who broke, and by which error. `otherwise`: whose it is where no plugin's."""
    return (error.who, error.what) if isinstance(error, PluginBroke) else (otherwise, error)
