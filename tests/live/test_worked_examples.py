"""The worked examples of docs/workloads.md: fio, netperf and Redis, as they stand there, with the real programs."""

import re
import shutil
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.lab import image as images
from nearmetal.model import TrialStatus
from nearmetal.run import study_execution
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader

from . import debian

pytestmark = [pytest.mark.live, pytest.mark.long]

MANUAL = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
STUDY = """
name = "examples"
[factors]
environment = ["host"]
[machine]
image = "tools"
[design]
blocks = 1
"""
JOB = "[reads]\nrw=randread\nsize=16M\nruntime=2\ntime_based\ndirectory=/tmp\n"


@pytest.mark.usefixtures("one_attempt")
async def test_the_examples_of_the_manual_run(home: Path) -> None:
    await images.build(images.Recipe(name="tools", packages=("fio", "redis")), Paths.default().cache, print)
    (home / "work").mkdir()
    try:
        await debian.unpack("netperf", "bookworm non-free", home / "work")
    except debian.CannotBeHad as error:
        pytest.skip(f"the examples of the manual were NOT run: {error}")
    for name in ("netperf", "netserver"):
        shutil.copy(home / "work/unpacked/usr/bin" / name, home)
    (home / "job.fio").write_text(JOB)
    chapter = MANUAL[MANUAL.index("### fio, netperf, redis-benchmark") :]
    text = STUDY + "".join(re.findall(r"```toml\n(.*?)```", chapter, re.DOTALL)[:3])
    study = read(text, "examples.toml", ())
    request = study_execution.RunRequest(study, text, (), False, home / "run", available=False, files=FileReader(home))
    await study_execution.start_run(request, print, ())
    found = {one.trial.workload: one for one in read_records(RunFolder(home / "run").journal)}
    assert {name: (one.status, one.reason) for name, one in found.items()} == dict.fromkeys(
        ("random-reads", "transactions", "redis"), (TrialStatus.OK, None)
    )
    for workload, names in (
        ("random-reads", ("iops", "mean")),
        ("transactions", ("transactions",)),
        ("redis", ("get", "set")),
    ):
        assert all(found[workload].responses[name].value > 100 for name in names), workload
