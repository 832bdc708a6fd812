"""What the published studies printed, as data: `published.toml` beside the studies of ours that replicate them.

Figures stand there exactly as in the source's text. Everything is transcribed, nothing computed: what we assume, and
what is odd, is said beside it.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nearmetal import studies
from nearmetal.model import Frozen, Level


class Publication(Frozen):
    """Where the figures stand."""

    title: str
    authors: tuple[str, ...]
    institution: str
    date: str
    reference: str = ""
    """Its own number, where it has one."""


class Unit(Frozen):
    """A unit as printed, and what we take it to be: `size` of them in an SI unit (or bytes, or a share) make one."""

    si: str
    size: Annotated[float, Field(gt=0)] = 1.0


class Figure(Frozen):
    """A value of a table, or several of one cell, as printed."""

    at: Mapping[str, Level]
    """Which row and column: the source's own words for factors and levels."""
    values: Annotated[tuple[float, ...], Field(min_length=1)]
    spread: float | None = None
    """What follows a ±."""
    unit: str | None = None
    """Where it is not the table's."""

    @property
    def mean(self) -> float:
        """Of the values, in the printed unit."""
        return sum(self.values) / len(self.values)


class PublishedTable(Frozen):
    """One table of the source."""

    name: str
    title: str
    number: str | None = None
    """None where the source gives it none."""
    unit: str
    measured: str
    """What one value is, as far as the source says."""
    oddities: tuple[str, ...] = ()
    figures: Annotated[tuple[Figure, ...], Field(min_length=1)]

    def find_figure(self, **levels: Level) -> Figure | None:
        """The figure of exactly these levels, with their types."""
        wanted = {name: (type(level), level) for name, level in levels.items()}
        for figure in self.figures:
            if {name: (type(level), level) for name, level in figure.at.items()} == wanted:
                return figure
        return None


class TextFigure(Frozen):
    """A figure that stands in the running text: a value, or a range with both ends."""

    what: str
    at: Mapping[str, Level] = {}
    low: float
    high: float
    unit: str
    kind: Literal["result", "example", "setting"] = "result"
    """An example is the output of one command, shown to explain it."""
    remark: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> "TextFigure":
        if self.low > self.high:
            raise ValueError(f"{self.what}: from {self.low} to {self.high} is no range")
        return self


class Claim(Frozen):
    """A sentence of the source that its own figures can be held against, and so can ours: one of them over another."""

    said: str
    """In our words."""
    table: str
    of: Mapping[str, Level]
    against: Mapping[str, Level]


class Counterpart(Frozen):
    """What the source's name for an environment is here: its kind, and its network card where that matters."""

    kinds: tuple[str, ...]
    nic: str | None = None


class PublishedStudy(Frozen):
    """Everything that one published study printed and that a replication can be put beside."""

    schema_: Annotated[Literal["published.v1"], Field(alias="schema")]
    source: Publication
    assumptions: tuple[str, ...]
    """Ours, where the source does not say."""
    oddities: tuple[str, ...]
    """What does not fit together in the source itself."""
    conclusions: tuple[str, ...]
    """Its own, in our words."""
    units: Mapping[str, Unit]
    environments: Mapping[str, Counterpart]
    tables: tuple[PublishedTable, ...] = ()
    statements: tuple[TextFigure, ...] = ()
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _units_are_known(self) -> "PublishedStudy":
        used = {table.unit for table in self.tables} | {statement.unit for statement in self.statements}
        used |= {figure.unit for table in self.tables for figure in table.figures if figure.unit is not None}
        unknown = sorted(used - self.units.keys())
        if unknown:
            raise ValueError(f"no word about the unit {unknown[0]!r}")
        return self

    @model_validator(mode="after")
    def _environments_are_known(self) -> "PublishedStudy":
        figures = [figure.at for table in self.tables for figure in table.figures]
        for at in [*figures, *(statement.at for statement in self.statements)]:
            if "environment" in at and at["environment"] not in self.environments:
                raise ValueError(f"no word about the environment {at['environment']!r}")
        return self

    @model_validator(mode="after")
    def _claims_have_figures(self) -> "PublishedStudy":
        for claim in self.claims:
            self.compute_ratio(claim.table, claim.of, claim.against)
        return self

    def compute_ratio(self, table: str, of: Mapping[str, Level], against: Mapping[str, Level]) -> float:
        """The mean of one figure over that of another, in one table. ValueError when either was not published."""
        one, other = (self.find_table(table).find_figure(**levels) for levels in (of, against))
        if one is None or other is None:
            raise ValueError(f"the table {table!r} has no figure at {dict(of if one is None else against)}")
        return one.mean / other.mean

    def find_table(self, name: str) -> PublishedTable:
        """The table of that name. KeyError."""
        return {table.name: table for table in self.tables}[name]

    def convert_to_si(self, table: PublishedTable, figure: Figure) -> tuple[float, ...]:
        """The values in the SI unit that we take the printed one for."""
        size = self.units[figure.unit or table.unit].size
        return tuple(value * size for value in figure.values)

    def name_environment(self, kind: str, nic: str) -> str | None:
        """The source's name for an environment of this kind with this network card."""
        for name, counterpart in self.environments.items():
            if kind in counterpart.kinds and counterpart.nic in (None, nic):
                return name
        return None


@cache
def find_published(study: str) -> PublishedStudy | None:
    """What was published of what a built-in study replicates; None of any other study."""
    folder = studies.find_folder(study)
    return None if folder is None else _read_published(folder)


@cache
def _read_published(folder: str) -> PublishedStudy:
    return PublishedStudy.model_validate(tomllib.loads(studies.read_published(folder)))
