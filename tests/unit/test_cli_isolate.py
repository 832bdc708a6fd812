"""The commands of `isolate` on this host, those that change nothing: what they print, and what they refuse."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.isolate import standing, tiers
from nearmetal.lab.ledger import held
from nearmetal.model import Change

CPUS = os.cpu_count() or 1
several = pytest.mark.skipif(CPUS < 2, reason="of one CPU none can be isolated")


def nearmetal(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "nearmetal", "isolate", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in ended.stderr
    return ended


def document(*words: str) -> dict[str, object]:
    ended = nearmetal(*words, "--json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@several
def test_a_plan_tells_cpus_changes_and_who_is_there() -> None:
    plan = document("plan")
    assert plan["schema"] == "isolate.plan.v1"
    topology = plan["topology"]
    assert isinstance(topology, list)
    assert plan["cpus"] == str(max(cpu["cpu"] for cpu in topology))
    assert all(cpu["cpu"] in cpu["siblings"] for cpu in topology)
    changes = plan["changes"]
    assert isinstance(changes, list)
    assert changes[-1]["kind"] == "bystanders"
    assert all(change["words"] for change in changes)
    assert nearmetal("plan").stdout.startswith("CPU 0, package ")


@several
@pytest.mark.parametrize(
    ("verb", "cpus"), [("plan", "8000"), ("prove", "8000"), ("on", f"0-{CPUS - 1}"), ("on", "one"), ("on", "")]
)
def test_cpus_that_cannot_be_isolated_are_refused_before_anything_is_done(verb: str, cpus: str) -> None:
    ended = nearmetal(verb, "--cpus", cpus)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("nearmetal: --cpus: ")
    assert "remedy: " in ended.stderr
    assert not standing.ledger_path().exists()


def test_nothing_stands_and_nothing_is_undone() -> None:
    status = document("status")
    assert (status["on"], status["cpus"], status["changes"]) == (False, "", [])
    assert document("off") == {"schema": "isolate.off.v1", "restored": [], "left": [], "failed": [], "reboot": False}
    assert nearmetal("off").stdout == "nothing is isolated\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may undo")
def test_what_stands_is_shown_and_put_back_and_what_others_set_is_left(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ours", "theirs")]
    with held(standing.ledger_path()) as ledger:
        for file in files:
            ledger.changing(Change(on=tiers.ON, kind="file", target=str(file), before="old", after="new"))
            file.write_text("new")
    files[1].write_text("newer")
    status = document("status")
    changes = status["changes"]
    assert isinstance(changes, list)
    assert status["on"] is True
    assert [change["state"] for change in changes] == ["holds", "changed since"]
    ended = nearmetal("off")
    assert ended.returncode == 0
    assert "changed by somebody else meanwhile, and left" in ended.stdout
    assert [file.read_text() for file in files] == ["old", "newer"]
    assert document("status")["on"] is False
