"""JSON Schemas of what nearmetal reads and writes: the study file, the files of a run, what commands print for scripts.

    python -m nearmetal.schemas FOLDER      write them, each as NAME.json

Those of the probe's documents are made by a test of the probe's, probe/tests/it/schemas.rs.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearmetal.analysis.results import Analysis
from nearmetal.analysis.run_comparison import Comparison
from nearmetal.analysis.summary import Summary
from nearmetal.by_hand.documents import Down, Ls, Up
from nearmetal.console.manual import read_entries
from nearmetal.dashboard.document import Serving
from nearmetal.isolate.documents import IsolateOff, IsolateOn, IsolatePlan, IsolateStatus
from nearmetal.isolate.proof import Proof
from nearmetal.lab.clean import CleanOutput
from nearmetal.lab.doctor import Diagnosis
from nearmetal.lab.image.documents import BoxOutput, Built, Images
from nearmetal.model import Document, Frozen, Study, TrialRecord
from nearmetal.planning.documents import PlanOutput, Studies
from nearmetal.report.documents import ReportFiles
from nearmetal.run.events import TrialEnded
from nearmetal.store import events
from nearmetal.store.calibration_document import Calibration
from nearmetal.store.manifest import Manifest
from nearmetal.store.query_document import QueryAnswer
from nearmetal.store.verify import Verification

_OF_A_RUN: tuple[type[Document], ...] = (TrialRecord, Manifest)
_PRINTED: tuple[type[Document], ...] = (
    Analysis,
    QueryAnswer,
    BoxOutput,
    Built,
    Calibration,
    CleanOutput,
    Comparison,
    Down,
    Diagnosis,
    Images,
    IsolateOff,
    IsolateOn,
    IsolatePlan,
    IsolateStatus,
    Ls,
    PlanOutput,
    Proof,
    ReportFiles,
    Serving,
    Studies,
    Summary,
    Up,
    Verification,
)
"""With `--json`, or by `report --format json`."""

_CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "The top of the file": ("Study",),
    "Factors": ("FactorSpec",),
    "[environments.NAME]": ("EnvironmentSpec",),
    "[machine]": ("MachineSpec",),
    "[clients]": ("ClientsSpec",),
    "[link]": ("LinkSpec",),
    "[hosts.NAME]": ("HostSpec",),
    "[kernel]": ("KernelSpec",),
    "[observe]": ("ObserveSpec", "CaptureSpec"),
    "[services.NAME]": ("ServiceSpec",),
    "[[workloads]]": ("WorkloadSpec",),
    "[design]": ("DesignSpec", "SequentialBlocks"),
}
"""Chapters of docs/study-file.md, and the tables of a study whose keys they describe."""


def list_documents() -> Mapping[str, Any]:
    """Schema by the document's name. A study's is of the file as a person writes it, with factors in either form."""
    return {
        "study.v1": _make_study_schema(),
        "event.v1": {"anyOf": [_make_event_schema(kind) for kind in _list_event_kinds()]},
        **{_name_document(kind): _with_checksum(_make_schema(kind)) for kind in _OF_A_RUN},
        **{_name_document(kind): _make_schema(kind) for kind in _PRINTED},
    }


def _name_document(kind: type[Document]) -> str:
    name: str = kind.model_fields["schema_"].default
    return name


def _make_schema(kind: type[Frozen]) -> dict[str, Any]:
    return kind.model_json_schema(mode="serialization")


def _make_event_schema(kind: type[events.Event]) -> dict[str, Any]:
    """An event as it stands in the journal."""
    schema = _make_schema(kind)
    names = {"schema": {"const": "event.v1"}, "event": {"const": kind.__name__}}
    return _with_checksum(
        {**schema, "properties": names | schema["properties"], "required": [*names, *schema["required"]]}
    )


def _with_checksum(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Of what stands in a run's folder: `nearmetal.store.checksum` adds one, and takes it away before it is read."""
    return {**schema, "properties": {**schema["properties"], "sum": {"type": "string", "pattern": "^[0-9a-f]{8}$"}}}


def _make_study_schema() -> dict[str, Any]:
    schema = Study.model_json_schema()
    factors = schema["properties"]["factors"]
    level = {"type": ["boolean", "integer", "number", "string"]}
    factors["additionalProperties"] = {
        "anyOf": [factors["additionalProperties"], {"type": "array", "items": level, "minItems": 1}]
    }
    schema["$defs"]["EnvironmentSpec"]["required"].remove("kind")  # where the table is called after it
    quick = {"type": "object", "description": "what --quick lays over the rest: any table of a study"}
    schema["properties"]["quick"] = quick
    _describe_keys({"Study": schema, **schema["$defs"]})
    return {**schema, "$id": "study.v1", "description": "A study of nearmetal. docs/study-file.md is its manual."}


def _describe_keys(tables: Mapping[str, Any]) -> None:
    """Give each key of a study what the manual's row says of it: an editor shows that."""
    for entry in read_entries():
        for table in _CHAPTERS.get(entry.heading, ()) if entry.page == "study-file.md" else ():
            if (key := tables[table]["properties"].get(entry.words[0])) is not None:
                key["description"] = dict(entry.about)["meaning"]


def _list_event_kinds() -> list[type[events.Event]]:
    return [kind for kind in events.Event.__subclasses__() if kind.durable and kind is not TrialEnded]


def to_text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, schema in list_documents().items():
        (Path(sys.argv[1]) / f"{name}.json").write_text(to_text(schema), "utf-8")
