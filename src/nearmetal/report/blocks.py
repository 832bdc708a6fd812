"""What a section of the report is made of: data, never markup. The renderers decide how each kind of block looks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

Tone = Literal["better", "worse", "same", "no-worse", "unknown", "plain"]
"""What a word means for the reader; renderers turn it into a colour and never rely on the colour alone."""


@dataclass(frozen=True)
class Quantity:
    """A value in an SI unit ("s", "B", "1/s", "share", …): people see "1.2 ms", data files get 0.0012.

    `decimals`: of a rate, where those of a column have as many all. `place`: people see a multiple of it, such as 100,
    where nothing finer is known. `bound`: where the value is but known to be at
    least ("right") or at most ("left") this; people see "≥ 1.2 ms".
    """

    value: float
    unit: str
    decimals: int | None = None
    bound: Literal["left", "right"] | None = None
    place: float | None = None


@dataclass(frozen=True)
class Badge:
    """A word that carries a judgement."""

    text: str
    tone: Tone = "plain"


Value = str | int | float | Quantity | Badge | None

LONG: Final = 40
"""Of more rows a table is folded, unless its section knows better."""


@dataclass(frozen=True)
class Column:
    """A column of a table. `where` says who sees it: people ("page"), data files ("data"), or both."""

    title: str
    numeric: bool = False
    where: Literal["both", "page", "data"] = "both"


@dataclass(frozen=True)
class Table:
    """Rows of values. `name` is unique in the report: the CSV file is called so.

    A row stands for one thing and has one value a column. `folded` keeps a long table closed until asked for. `where`
    says who sees it: people ("page"), data files ("data"), or both.
    """

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    folded: bool = False
    where: Literal["both", "page", "data"] = "both"

    def __post_init__(self) -> None:
        """Here the trace of an odd row leads to its section, and the report is whole without that section."""
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                count = f"{len(self.columns)} columns, and its row {number} has {len(row)} values"
                raise ValueError(f"the table {self.name!r} has {count}")
            for value in row:
                if not isinstance(value, Value):
                    raise TypeError(f"the table {self.name!r} has {value!r} in its row {number}, which is no Value")


@dataclass(frozen=True)
class Panel:
    """One picture as a Vega-Lite specification, and the same for a column of 328 px where it needs another shape."""

    name: str
    spec: Mapping[str, Any]
    narrow: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Chart:
    """Pictures that belong together. `name` is unique in the report; `description` says it all to who cannot see it."""

    kind: ClassVar[str] = "chart"
    name: str
    caption: str
    description: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True)
class Paragraph:
    """Text for people, without markup."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Notice:
    """Something the reader must not miss, and terms that belong to it with what each is here."""

    kind: ClassVar[str] = "notice"
    text: str
    tone: Literal["note", "warning"] = "note"
    items: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Statement:
    """A conclusion: its subject, sentence, verdict and small print. `also`: more sentences with their verdicts."""

    about: str
    text: str
    badge: Badge
    detail: str = ""
    also: tuple[tuple[str, Badge], ...] = ()


@dataclass(frozen=True)
class Statements:
    """A list of statements, one below the other."""

    kind: ClassVar[str] = "statements"
    items: tuple[Statement, ...]


@dataclass(frozen=True)
class Terms:
    """Terms and what each is here."""

    kind: ClassVar[str] = "terms"
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """Text to be shown letter by letter: a file, a command."""

    kind: ClassVar[str] = "source"
    text: str


Block = Table | Chart | Paragraph | Notice | Statements | Terms | Source


@dataclass(frozen=True)
class Section:
    """One chapter of the report. `lead` is the sentence to read when nothing else is read."""

    name: str
    title: str
    lead: str
    blocks: tuple[Block, ...] = ()
