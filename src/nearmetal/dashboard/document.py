"""What `nearmetal dashboard` prints with `--json`, once it listens."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Document


class Serving(Document):
    """`dashboard.v1`."""

    schema_: Annotated[Literal["dashboard.v1"], Field(alias="schema")] = "dashboard.v1"
    url: str
    """Of the first page, with the token that opens it."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Of 127.0.0.1."""
    process: int
    """The number of the process that serves, for who ends it by a signal."""
