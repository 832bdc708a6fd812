"""The manual's chapter names every parameter and every response, with the unit, direction and scale that they have."""

from pathlib import Path
from typing import Any

import pytest

from nearmetal.model import ResponseKind, WorkloadSpec
from nearmetal.study.resolve import build_workload

MANUAL = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "http": [{}, {"url": "https://x/"}, {"mode": "ramp", "from": 1, "step": 1, "to": 2}],
    "httperf": [{"rate": 10}],
    "iperf3": [{"direction": "both"}, {"protocol": "udp", "rate": "1Mbit/s"}],
    "ping": [{}],
    "sysbench": [{"test": "cpu", "threads": 2}, {"test": "cpu", "events": 9}, {"test": "fileio"}],
    "command": [{"argv": ["x"], "response": "y", "better": "higher", "match": "(z)"}],
}


def chapter(kind: str) -> str:
    return MANUAL.split(f"\n## `{kind}`", 1)[1].split("\n## ", 1)[0]


def rows(kind: str, heading: str) -> dict[str, list[str]]:
    """Each name in the first column of a chapter's table to the row's other cells."""
    table = chapter(kind).split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {name.strip(" `"): rest for first, *rest in cells for name in first.split(",")}


@pytest.mark.parametrize("kind", VARIANTS)
def test_every_parameter_is_there_with_its_default(kind: str) -> None:
    documented = rows(kind, "parameter")
    built = build_workload(WorkloadSpec.model_validate({"name": "it", "kind": kind, **VARIANTS[kind][0]}))
    fields = {field.alias or name: field for name, field in type(built).Parameters.model_fields.items()}
    assert documented.keys() == fields.keys()
    for name, field in fields.items():
        if field.is_required():
            assert documented[name][0] == "required"
        elif isinstance(field.default, bool | str) and name != "server":
            shown = str(field.default).lower() if isinstance(field.default, bool) else f'"{field.default}"'
            assert documented[name][0] == f"`{shown}`"
        elif isinstance(field.default, int) and name not in ("body", "total_size", "block_size"):
            assert documented[name][0] == f"`{field.default}`"


@pytest.mark.parametrize("kind", ["http", "httperf", "iperf3", "ping", "sysbench"])
def test_every_response_is_there_with_unit_direction_and_scale(kind: str) -> None:
    documented = rows(kind, "response")
    known: dict[str, ResponseKind] = {}
    for parameters in VARIANTS[kind]:
        built = build_workload(WorkloadSpec.model_validate({"name": "it", "kind": kind, **parameters}))
        known |= built.responses
    assert documented.keys() == known.keys()
    for name, response in known.items():
        assert documented[name][:3] == [response.unit, response.better, response.scale]
