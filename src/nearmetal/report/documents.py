"""What `nearmetal report` prints with `--json`."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Document


class ReportFiles(Document):
    """`report.v1`."""

    schema_: Annotated[Literal["report.v1"], Field(alias="schema")] = "report.v1"
    run: str
    """The folder or the bundle, as it was named."""
    format: Literal["html", "md", "json", "csv", "svg", "png", "vega"]
    files: tuple[str, ...]
    """What was written: the page, a file for each picture, or the file that was asked for."""
