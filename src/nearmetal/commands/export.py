"""`export_table`: a run's tidy tables for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nearmetal.commands.output import check_output, write_output
from nearmetal.store.folder import RunFolder

if TYPE_CHECKING:
    from nearmetal.report.tidy import Name


def export_table(
    path: Path, name: "Name", form: Literal["csv", "parquet", "arrow", "latex"], output: Path | None
) -> None:
    from nearmetal.report import exports
    from nearmetal.report.reading import read
    from nearmetal.report.tidy import make_table
    from nearmetal.system.collection import without_collection

    folder = RunFolder.open(path)
    check_output(output, folder)
    with without_collection():
        table = make_table(read(folder), name)
    content: str | bytes
    match form:
        case "csv":
            content = exports.write_csv(table)
        case "parquet":
            content = exports.write_parquet(table)
        case "arrow":
            content = exports.write_arrow(table)
        case "latex":
            content = exports.write_latex(table)
    write_output(content, output)
