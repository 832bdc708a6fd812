"""Everything a report is made from, read from a run's folder alone."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from nearmetal.analysis.responses import Arms, arms_of_study, key_of
from nearmetal.analysis.results import Analysis, Cell
from nearmetal.model import Assignment, Resolved, TrialRecord
from nearmetal.report import figures, palette
from nearmetal.report.blocks import Block, Section
from nearmetal.report.words import Labels
from nearmetal.store import journal
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder


@dataclass(frozen=True)
class ReportInput:
    """What a section may look at."""

    manifest: Manifest
    analysis: Analysis
    records: tuple[TrialRecord, ...]
    folder: RunFolder
    """Where artifacts lie, by the paths in the records."""
    arms: Arms
    """Replicates of these records by treatment and workload, as the analysis has them."""
    cells: tuple[Cell, ...]
    """What was measured, as the analysis has it: there before the analysis is."""
    unread: dict[str, str] = field(default_factory=dict)
    """Artifacts that sections have asked for and did not get, by path: why."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """A field that `defer_analysis` has left to be found."""
            finders = self.__dict__.get("_finders", {})
            if name not in finders:
                raise AttributeError(f"{type(self).__name__} has no {name!r}")
            return self.__dict__.setdefault(name, finders[name](self))

    @cached_property
    def labels(self) -> Labels:
        return Labels.of_plan(self.manifest.plan)

    @property
    def blocks(self) -> str:
        """Those that are planned; of a sequential run, how many of the most it took."""
        plan = self.manifest.plan
        planned = figures.format_count(plan.blocks, "block")
        return f"{len({record.trial.block for record in self.records})} of at most {planned}" if plan.looks else planned

    @cached_property
    def colours(self) -> dict[str, str]:
        """Environment to colour, the same in every chart."""
        study = self.manifest.study
        levels = [str(treatment.get("environment", "")) for treatment in self.manifest.plan.treatments]
        reference = study.reference.get("environment")
        # A treatment that was left out may be the reference, and the legend begins with it.
        return palette.colour_environments(levels if reference is None else [str(reference), *levels])

    def asked(self, treatment: Assignment) -> Resolved:
        """What a treatment comes down to."""
        return self.manifest.plan.resolved_of(treatment)

    def parameter(self, treatment: Assignment, workload: str, name: str) -> object:
        """What a workload is given, placeholders filled; None if the study leaves it to the workload."""
        return self.asked(treatment).workload(workload).parameters.get(name)

    def colour(self, treatment: Assignment) -> str:
        return self.colours.get(str(treatment.get("environment", "")), palette.REFERENCE)

    def trials(self, workload: str, treatment: Assignment) -> list[TrialRecord]:
        """Those that count, as in the analysis; none where none is good."""
        arm = self.arms.get((key_of(treatment), workload))
        return arm.trials if arm else []

    def artifacts(self, record: TrialRecord, pattern: str) -> Iterator[bytes | None]:
        """The files of a trial whose names match; None for one that is gone or is not as it was written, which the page
        then tells of."""
        for artifact in record.artifacts:
            if PurePosixPath(artifact.path).match(pattern):
                try:
                    yield self.folder.read_artifact(artifact)
                except (OSError, ValueError) as error:
                    self.unread[artifact.path] = (isinstance(error, OSError) and error.strerror) or str(error)
                    yield None

    @cached_property
    def primaries(self) -> frozenset[tuple[str, str]]:
        """(workload, response) of everything that a verdict is about."""
        plan = self.manifest.plan
        return frozenset((one.workload, plan.response_of(one)) for one in plan.contrasts)


def parse_document(content: bytes | None) -> dict[str, Any] | None:
    """What the file of an artifact holds as JSON; None where it cannot be read, or is no object."""
    try:
        document = json.loads(content or b"")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


class SectionPlugin(Protocol):
    """A chapter of the report. Found in `report/sections/` or by the entry-point group `nearmetal.sections`."""

    name: str
    title: str
    order: int
    """Place in the report; ours stand at 10, 20, 30, …"""

    def render(self, report: ReportInput) -> Section | None:
        """The chapter, or None where the run has nothing to say about it."""
        ...


Contents = tuple[str, Iterable[Block]]
"""A chapter's lead and its blocks."""


@dataclass(frozen=True)
class BuiltInSection:
    """A chapter of ours, which is a function."""

    name: str
    title: str
    order: int
    tell: Callable[[ReportInput], Contents | None]

    def render(self, report: ReportInput) -> Section | None:
        found = self.tell(report)
        return None if found is None else Section(self.name, self.title, found[0], tuple(found[1]))


def defer_analysis(
    manifest: Manifest, records: tuple[TrialRecord, ...], events: Sequence[Mapping[str, Any]], folder: RunFolder
) -> ReportInput:
    """A run whose arms, cells and analysis are found when they are first asked for."""
    from nearmetal.analysis.analyse import analyse, find_cells

    manifest = manifest.with_facts(events)
    primaries = manifest.plan.primaries
    found = ReportInput.__new__(ReportInput)
    finders: dict[str, Callable[[ReportInput], object]] = {
        "arms": lambda _: arms_of_study(records, manifest.study.design),
        "cells": lambda report: find_cells(manifest, report.arms, primaries),
        "analysis": lambda report: analyse(manifest, records, events, primaries, report.arms, report.cells),
    }
    found.__dict__.update(manifest=manifest, records=records, folder=folder, unread={}, _finders=finders)
    return found


def read_run_input(folder: RunFolder) -> ReportInput:
    """Read a run; it is analysed when its analysis is first asked for. BadInput when the folder cannot be read."""
    return defer_analysis(folder.read_manifest(), *journal.read_journal(folder.journal), folder)
