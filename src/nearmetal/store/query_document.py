"""What `nearmetal query` prints with `--json`."""

import math
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SkipValidation

from nearmetal.model import Document, Frozen
from nearmetal.store.query import QueryResult


class QueryColumn(Frozen):
    """A column of an answer."""

    name: str
    type: str
    """DuckDB's."""


class QueryAnswer(Document):
    """`query.v1`."""

    schema_: Annotated[Literal["query.v1"], Field(alias="schema")] = "query.v1"
    columns: tuple[QueryColumn, ...]
    rows: SkipValidation[tuple[tuple[JsonValue, ...], ...]]
    """Moments are texts; numbers that are not finite are null. There may be millions, made plain by `make_document`."""


def make_document(answer: QueryResult) -> QueryAnswer:
    return QueryAnswer(
        columns=tuple(QueryColumn(name=name, type=kind) for name, kind in answer.columns),
        rows=tuple(tuple(map(_to_json_value, row)) for row in answer.rows),
    )


def _to_json_value(value: Any) -> JsonValue:
    """As JSON has it. What most values are is asked first."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {str(name): _to_json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(one) for one in value]
    return str(value)
