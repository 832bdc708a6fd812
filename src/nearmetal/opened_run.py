"""A run as data, for scripts and notebooks: `nearmetal.open_run(path)`."""

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from nearmetal.errors import BadInput, HostCannot
from nearmetal.optional_dependencies import describe_install
from nearmetal.system.garbage_collection import without_collection

if TYPE_CHECKING:
    from nearmetal.model import TrialRecord
    from nearmetal.report.report_input import ReportInput
    from nearmetal.report.tidy_tables import TidyTable
    from nearmetal.store.manifest import Manifest

Kind = Literal["polars", "pandas", "rows"]


class Run:
    """What a run holds, read from its folder alone, and what is concluded from it.

    Tables are data frames of polars or pandas, whichever is installed (polars where both are), else lists of dicts;
    `kind` asks for one of them. docs/data.md has their columns. A run that goes on is read as it is when it is first
    asked for something.
    """

    def __init__(self, path: str | Path) -> None:
        """BadInput when it cannot be read."""
        from nearmetal.store.run_folder import RunFolder

        self._folder = RunFolder.open(Path(path))

    @property
    def path(self) -> Path:
        return self._folder.named

    def trials(self, kind: Kind | None = None) -> Any:
        """A row for each value that a trial measured; one without a value for a trial that measured none."""
        from nearmetal.report.tidy_tables import tabulate_trials

        with without_collection():
            manifest, records, _ = self._told
            return _convert_table(tabulate_trials(manifest.plan, records), kind)

    def blocks(self, kind: Kind | None = None) -> Any:
        """A row for each block of each contrast: what both sides gave there, repeats averaged."""
        return self._conclude("blocks", kind)

    def contrasts(self, kind: Kind | None = None) -> Any:
        """A row for each contrast: estimate, interval, verdict."""
        return self._conclude("contrasts", kind)

    def chart(self, name: str) -> dict[str, Any]:
        """The Vega-Lite specification of a picture of the report, by its file's name without ending.

        BadInput, with the names that there are, when it has none such.
        """
        if name not in self._charts:
            raise BadInput(f"there is no chart {name!r}", str(self.path), f"choose one of: {', '.join(self._charts)}")
        return self._charts[name]

    def artifact(self, path: str) -> bytes:
        """A file that a trial left, by its path in the run's folder; `trials()` names trials, whose files lie in
        `artifacts/TRIAL/`. BadInput when no trial left it, or when it is not as it was written."""
        for record in self._told[1]:
            for artifact in record.artifacts:
                if artifact.path == path:
                    try:
                        return self._folder.read_artifact(artifact)
                    except (OSError, ValueError) as error:
                        raise BadInput(str(error), path, f"nearmetal verify {self.path}") from None
        raise BadInput("no trial of this run left such a file", path, f"look into {self.path}/artifacts")

    @cached_property
    def _told(self) -> "tuple[Manifest, tuple[TrialRecord, ...], tuple[dict[str, Any], ...]]":
        from nearmetal.store import journal

        with without_collection():
            return self._folder.read_manifest(), *journal.read_journal(self._folder.journal)

    @cached_property
    def _read(self) -> "ReportInput":
        from nearmetal.report.report_input import defer_analysis

        return defer_analysis(*self._told, self._folder)

    @cached_property
    def _charts(self) -> dict[str, dict[str, Any]]:
        from nearmetal.report.blocks import Chart
        from nearmetal.report.chapters import make_sections
        from nearmetal.report.formats import picture_name

        charts = [
            block for section in make_sections(self._read) for block in section.blocks if isinstance(block, Chart)
        ]
        return {picture_name(chart, panel.name): dict(panel.spec) for chart in charts for panel in chart.panels}

    def _conclude(self, name: Literal["blocks", "contrasts"], kind: Kind | None) -> Any:
        from nearmetal.report.tidy_tables import make_table

        with without_collection():
            return _convert_table(make_table(self._read, name), kind)


def _convert_table(table: "TidyTable", kind: Kind | None) -> Any:
    from nearmetal.report.tidy_tables import find_columns

    kind = kind or _find_kind()
    if kind == "rows":
        return table.to_dicts()
    if kind not in get_args(Kind):
        raise BadInput(f"there is no kind of table {kind!r}", remedy=f"choose one of: {', '.join(get_args(Kind))}")
    try:
        return import_module(kind).DataFrame(find_columns(table))
    except ImportError:
        raise HostCannot("it is not installed", kind, f"{describe_install(kind)}, or ask for kind='rows'") from None


def _find_kind() -> Kind:
    from importlib.util import find_spec

    return "polars" if find_spec("polars") else "pandas" if find_spec("pandas") else "rows"
