"""What could not be put back or removed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Leftover:
    """`str` of it is for people. The thing is told from others by what it is: why may be another the next time."""

    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what
