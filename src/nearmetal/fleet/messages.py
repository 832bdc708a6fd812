"""What the controller and a site say to each other. It crosses as JSON: both check what they are given."""

from pathlib import PurePosixPath
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from nearmetal.model import Document, Frozen
from nearmetal.run.block import BlockTask
from nearmetal.run.block_events import BlockFailed

EVENTS = "events.jsonl"
ARTIFACTS = "artifacts"

Token = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""Names a run to its sites."""


class BlockOrder(Document):
    """A block for a site to run, once."""

    schema_: Annotated[Literal["block-order.v1"], Field(alias="schema")] = "block-order.v1"
    run: Token
    dispatch: int
    task: BlockTask
    """Its folders are the controller's: the site puts its own in their place."""
    is_pretended: bool
    """All its machines are: then it disturbs nothing on the host, and several sites may share one."""


class Outcome(Frozen):
    """How a site is done with an order. What was measured lies in its spool."""

    refused: BlockFailed | None = None
    """Why it did not even begin."""


def _check_path(path: str) -> str:
    """A file right where a site keeps one, and nowhere else on the controller's disk."""
    parts = PurePosixPath(path).parts
    is_artifact = len(parts) == 3 and parts[0] == ARTIFACTS and not {"..", "."} & set(parts)
    if path != EVENTS and not (is_artifact and str(PurePosixPath(*parts)) == path and "\0" not in path):
        raise ValueError("it is no file of a spool")
    return path


class SpooledFile(Frozen):
    path: Annotated[str, AfterValidator(_check_path)]
    size: int
    sha256: str


class Part(NamedTuple):
    """Bytes of a spooled file."""

    path: str
    offset: int
    size: int


class Spool(Frozen):
    """What a site keeps of a dispatch until the controller has it."""

    is_running: bool
    files: tuple[SpooledFile, ...] = ()
    """Of one that has ended; none if the site never began it, and then it never will."""
