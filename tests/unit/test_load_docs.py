"""The manual of the load generator names what there is: its options, its figures and its classes of errors."""

import json
import re
import subprocess
from pathlib import Path

from nearmetal.lab import probe
from nearmetal.workloads.httperf.output import ERROR_CLASSES

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "load.md").read_text()
SCHEMA = json.loads((ROOT / "schemas" / "load.v1.json").read_text())

BENCH = {"--floors", "--only", "--real-time"}


def options(verb: str) -> set[str]:
    told = subprocess.run([probe.path(), verb, "--help"], capture_output=True, text=True, check=True, timeout=30)
    return set(re.findall(r"--[a-z-]+", told.stdout))


def test_every_option_that_it_names_exists() -> None:
    named = set(re.findall(r"(?<![\w|-])--[a-z][a-z-]+", MANUAL))
    assert named <= options("load") | options("serve") | BENCH


def test_every_class_of_errors_is_told_in_both_tongues() -> None:
    classes = SCHEMA["$defs"]["Errors"]["properties"].keys() - {"other_reasons", "tls_reasons"}
    for name in (*classes, *ERROR_CLASSES):
        assert f"`{name}`" in MANUAL or f"| {name} |" in MANUAL


def test_every_phase_that_people_see_is_explained() -> None:
    for phase in ("latency", "service", "connect", "handshake", "first byte", "transfer", "lateness"):
        assert f"\n| {phase} |" in MANUAL


def test_examples_of_its_help_can_be_typed_and_each_exit_code_is_told() -> None:
    told = subprocess.run([probe.path(), "load", "--help"], capture_output=True, text=True, check=True, timeout=30)
    examples, codes = told.stdout.split("Examples:", 1)[1].split("Exit status:", 1)
    assert re.findall(r"^    (\S+ \S+) http://", examples, re.MULTILINE) == ["nearmetal load"] * 3
    assert re.findall(r"\b\d\b", codes) == ["0", "1", "2", "3", "4"]
