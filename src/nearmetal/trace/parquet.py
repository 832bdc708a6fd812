"""Requests as Parquet, for notebooks: the fields of trace.request.v1, nested as in its lines, and with its types.

Integers have a sign, though most of them are never negative: who takes one time from another would get an overflow, or
a difference of some 2^64, where the earlier one comes first.
"""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nearmetal.errors import BadInput, HostCannot
from nearmetal.optional_dependencies import describe_install
from nearmetal.system.duckdb_interrupt import run_interruptibly

SUFFIX: Final = ".parquet"

Schema = Mapping[str, Any]


def require_duckdb() -> None:
    """HostCannot where the library is lacking that writes it."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        remedy = f"{describe_install('duckdb')}; or name a file that does not end in .parquet, for JSON lines"
        raise HostCannot("Parquet is written by duckdb, which is not installed", remedy=remedy) from None


def write(lines: Path, to: Path) -> None:
    """Of a file of trace.request.v1, one a line. BadInput where the file cannot be written; then there is none."""
    import duckdb

    # A name that can be guessed could be a link in somebody else's folder, and duckdb would write where it leads.
    unfinished = to.with_name(f".{to.name}.{secrets.token_hex(4)}")
    try:
        with duckdb.connect() as database:
            # By name and type: what no request of a capture has would be left out, or be text.
            requests = database.read_json(str(lines), columns=list_columns(_read_schema()), format="newline_delimited")
            run_interruptibly(database, lambda: requests.write_parquet(str(unfinished), compression="zstd"))
        unfinished.replace(to)
    except (duckdb.Error, OSError) as error:
        unfinished.unlink(missing_ok=True)
        what = f"cannot write Parquet: {str(error).splitlines()[0]}"
        remedy = "name a file in a folder that can be written to and has room"
        if isinstance(error, duckdb.InvalidInputException):
            # As of a capture whose clock is wrong by centuries.
            remedy = (
                "a number of the capture is larger than its columns hold: name a file that does not end in .parquet"
            )
        raise BadInput(what, str(to), remedy) from None


def list_columns(schema: Schema) -> dict[str, str]:
    """The fields of a JSON schema's object, and their types in DuckDB. Pure."""
    definitions, fields = schema.get("$defs", {}), schema["properties"]
    # What is required is listed in the order of the lines, the fields by their names.
    return {name: _name_type(fields[name], definitions) for name in dict.fromkeys([*schema["required"], *fields])}


def _read_schema() -> Schema:
    """It comes with the package; in a checkout it lies where all schemas lie."""
    here = Path(__file__).with_name("trace.request.v1.json")
    kept = here if here.is_file() else here.parents[3] / "schemas" / here.name
    schema: Schema = json.loads(kept.read_text("utf-8"))
    return schema


def _name_type(field: Schema, definitions: Schema) -> str:
    choices = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    if choices:
        return _name_type(choices[0], definitions)
    if "$ref" in field:
        fields = list_columns({**definitions[field["$ref"].rpartition("/")[2]], "$defs": definitions})
        members = ", ".join(f'"{name}" {kind}' for name, kind in fields.items())
        return f"STRUCT({members})"
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    match next(kind for kind in kinds if kind != "null"):
        case "array":
            return f"{_name_type(field['items'], definitions)}[]"
        case "integer":
            return "BIGINT"
        case _:
            return "VARCHAR"
