"""JSON Schemas of what nearmetal reads and writes: the study file, records, the manifest, what is found, machines.

    python -m nearmetal.schemas FOLDER      write them, each as NAME.json

Those of the probe's documents are the probe's own: `nearmetal-probe schema --all FOLDER`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearmetal.analysis.calibration import Calibration
from nearmetal.analysis.results import Analysis
from nearmetal.analysis.two_runs import Compared
from nearmetal.by_hand.documents import Down, Ls, Up
from nearmetal.dashboard.document import Serving
from nearmetal.model import Study, TrialRecord
from nearmetal.run import events
from nearmetal.store.folder import Manifest


def documents() -> Mapping[str, Any]:
    """Schema by the document's name. A study's is of the file as a person writes it, with factors in either form."""
    return {
        "study.v1": _study(),
        "record.v1": TrialRecord.model_json_schema(mode="serialization"),
        "manifest.v1": Manifest.model_json_schema(mode="serialization"),
        "analysis.v1": Analysis.model_json_schema(mode="serialization"),
        "up.v1": Up.model_json_schema(mode="serialization"),
        "calibrate.v1": Calibration.model_json_schema(mode="serialization"),
        "compare.v1": Compared.model_json_schema(mode="serialization"),
        "down.v1": Down.model_json_schema(mode="serialization"),
        "ls.v1": Ls.model_json_schema(mode="serialization"),
        "dashboard.v1": Serving.model_json_schema(mode="serialization"),
        "event.v1": {"anyOf": [kind.model_json_schema(mode="serialization") for kind in _events()]},
    }


def _study() -> dict[str, Any]:
    schema = Study.model_json_schema()
    factors = schema["properties"]["factors"]
    level = {"type": ["boolean", "integer", "number", "string"]}
    factors["additionalProperties"] = {
        "anyOf": [factors["additionalProperties"], {"type": "array", "items": level, "minItems": 1}]
    }
    schema["$defs"]["EnvironmentSpec"]["required"].remove("kind")  # where the table is called after it
    return {**schema, "properties": {**schema["properties"], "quick": {"type": "object"}}}


def _events() -> list[type[events.Event]]:
    return [kind for kind in events.Event.__subclasses__() if kind.durable and kind is not events.TrialEnded]


def text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, schema in documents().items():
        (Path(sys.argv[1]) / f"{name}.json").write_text(text(schema), "utf-8")
