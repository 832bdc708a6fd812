"""A table of a run, written for another program."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import FileToWrite, RunPath
from nearmetal.commands.output import check_output, write_output

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option(
    "--table",
    type=click.Choice(["trials", "blocks", "contrasts"]),
    default="trials",
    show_default=True,
    help="A row for each value of a trial, for each block of a contrast, or for each contrast.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "arrow", "latex"]),
    default="csv",
    show_default=True,
    help="arrow is Arrow IPC, also called Feather.",
)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file, instead of standard output.")
def export(run: Path, table: Any, form: Any, output: Path | None) -> None:
    """Write a run's data for another program.

    docs/data.md says what each column is. In Python: nearmetal.open_run(RUN).
    """
    from nearmetal.report import exports
    from nearmetal.report.report_input import read_run_input
    from nearmetal.report.tidy_tables import make_table
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.system.garbage_collection import without_collection

    folder = RunFolder.open(run)
    check_output(output, folder)
    with without_collection():
        tidy = make_table(read_run_input(folder), table)
    writers: dict[str, Any] = {
        "csv": exports.write_csv,
        "parquet": exports.write_parquet,
        "arrow": exports.write_arrow,
        "latex": exports.write_latex,
    }
    write_output(writers[form](tidy), output)
