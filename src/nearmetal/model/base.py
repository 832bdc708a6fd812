"""The words that all the types here share, and the base of those that are data."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, WithJsonSchema

Level = StrictBool | StrictInt | StrictFloat | StrictStr
"""One value of a factor, with the type it has in the study file: true and 1 are different levels."""

Assignment = Mapping[str, Level]
"""Factor name to level: what tells one treatment from another."""

Identity = tuple[tuple[str, str, Level], ...]


def identify_assignment(assignment: Assignment) -> Identity:
    """A treatment as a key of sets: whatever the order of its factors, and with the type of each level."""
    return tuple(sorted((name, type(level).__name__, level) for name, level in assignment.items()))


Whole = Annotated[int, Field(strict=True, ge=1)]
"""A number of things. Strict, so that neither true nor "4" passes for one."""

Number = Annotated[float, WithJsonSchema({"type": ["number", "null"]}, mode="serialization")]
"""One that may be no finite number. JSON has no word for that: it is null there."""

NAME = r"^[A-Za-z0-9._-]+$"
Name = Annotated[str, Field(pattern=NAME, max_length=100)]
LOGIN = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
LoginName = Annotated[str, Field(pattern=LOGIN)]
"""A user of a machine. Never an option of some program."""
Provision = Literal["boot", "restart", "restore", "reuse"]
Scale = Literal["ratio", "difference"]
Better = Literal["higher", "lower"]
Role = Literal["server", "client", "neighbour"]
"""A neighbour is neither measured nor measures: it takes part of what the servers run on."""

ONLY_KNOWN = ConfigDict(extra="forbid")
"""Of dataclasses for what a run has by the ten thousand: with slots they take a fifth of the memory of a `Frozen`."""


class Frozen(BaseModel):
    """A record: immutable, and a key that nobody knows is an error.

    pydantic builds what validates it at its first use, since most commands use few of all kinds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def from_json(cls, data: object) -> Any:
        """Read back what `model_dump(mode="json")` wrote."""
        return cls.model_validate(data)

    @classmethod
    def build_all(cls) -> None:
        """Build what validates each kind below this one, for a process whose forks would do so each time."""
        for kind in cls.__subclasses__():
            kind.model_rebuild(raise_errors=False)
            kind.build_all()


class Document(Frozen):
    """A record that stands by itself and says what it is: its `schema_` is called `schema` in its JSON."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)
