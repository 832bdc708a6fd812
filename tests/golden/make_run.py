"""Makes tests/golden/run: a small run on the mock, as a later version must still be able to read it.

python -m tests.golden.make_run      only when a record's version changes
"""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.summary import summary
from nearmetal.store.journal import read_events, read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.runs import find_state
from tests.order import mock_run

FOLDER = Path(__file__).parent / "run"


def concluded(folder: RunFolder) -> str:
    """What is concluded from a run, as it stands beside the golden one."""
    manifest = folder.read_manifest()
    analysis = analyse(manifest, read_records(folder.journal), read_events(folder.journal), manifest.plan.primaries)
    document = summary(analysis, "golden", manifest.study.name, find_state(folder.journal))
    return json.dumps(document.model_dump(mode="json"), indent=1) + "\n"


async def make() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["NEARMETAL_HOME"] = home
        text = mock_run.STUDY.replace("blocks = 2", "blocks = 8").replace('name = "order"', 'name = "golden"')
        await mock_run.run(FOLDER, text)
    folder = RunFolder(FOLDER)
    shutil.rmtree(folder.artifacts)
    manifest = folder.read_manifest()
    # Whoever makes it anew does not leave facts of their own machine in it.
    folder.write_manifest(manifest.model_copy(update={"host": manifest.fairness[0].facts, "versions": {}}))
    (FOLDER / "concluded.json").write_text(concluded(folder))


if __name__ == "__main__":
    asyncio.run(make())
