"""`nearmetal calibrate` on this host: what it injects arrives, and nothing of it stays."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from nearmetal import schemas
from nearmetal.lab.image import Image
from nearmetal.model import TrialStatus
from nearmetal.store import journal
from nearmetal.store.run_folder import RunFolder
from tests import one_picture

pytestmark = pytest.mark.live


def nearmetal(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*one_picture.COMMAND, *words], capture_output=True, text=True, timeout=240)


def test_what_is_injected_arrives_and_nothing_stays(lab_image: Image, tmp_path: Path) -> None:
    """One block, which can decide nothing: no verdict hangs on how busy this host is."""
    folder = RunFolder(tmp_path / "made")
    ended = nearmetal("calibrate", "host", "--quick", "--blocks", "1", "-o", str(folder.path), "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout.splitlines()[-1])
    jsonschema.validate(document, schemas.list_documents()["calibrate.v1"])
    assert (document["verdict"], document["environment"], document["trials"]["ok"]) == ("unknown", "host", 9)
    assert {(one["workload"], one["response"]) for one in document["injected"]} == {
        ("arithmetic", "elapsed"),
        ("waits", "latency_p50"),
    }
    assert {what["what"] for what in document["disturbances"]} <= {"stolen", "others"}
    records = list(journal.read_records(folder.journal))
    assert {record.status for record in records} == {TrialStatus.OK}
    for record in records:
        amount = int(record.trial.treatment["amount"])
        if record.trial.workload == "waits":
            # Timed, but only from below: no reply comes before its wait is over.
            assert record.responses["latency_p50"].value >= amount * 10e-6
        if record.trial.workload == "arithmetic":
            printed = (folder.path / f"artifacts/{record.trial.id}/sysbench.txt").read_text()
            assert f"total number of events:              {amount}\n" in printed
            elapsed, rate = (record.responses[name].value for name in ("elapsed", "events"))
            assert elapsed * rate == pytest.approx(amount, rel=0.05)  # sysbench times both anew
    assert "nothing of ours is left" in nearmetal("clean").stdout
