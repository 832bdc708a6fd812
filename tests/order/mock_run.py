"""A run on the mock environment, in this process, with every event gathered."""

from collections.abc import Callable
from pathlib import Path

from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.model import Study, TrialRecord
from nearmetal.progress_messages import Say, ignore_text
from nearmetal.run import study_execution
from nearmetal.store.events import Event
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read

STUDY = """
name = "order"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
speed = 0.5
[factors]
environment = ["base", "slow"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
seed = 1
blocks = 2
"""


def study(text: str = STUDY) -> Study:
    return read(text, "order.toml")


async def run(
    folder: Path, text: str = STUDY, listener: Callable[[Event], None] = lambda event: None, say: Say = ignore_text
) -> tuple[list[Event], list[TrialRecord]]:
    """Run to the end; what was said, and what was recorded."""
    events: list[Event] = []
    request = study_execution.RunRequest(study(text), text, (), False, folder, available=False)
    await study_execution.start_run(request, say, (events.append, listener))
    return events, list(read_records(RunFolder(folder).journal))


async def resume(folder: Path) -> tuple[list[Event], list[TrialRecord]]:
    events: list[Event] = []
    await study_execution.resume_run(RunFolder(folder), lambda text: None, (events.append,))
    return events, list(read_records(RunFolder(folder).journal))


async def left_over() -> list[str]:
    """What a ledger still holds, or the mock world still has, of machines that are not borrowed."""
    from nearmetal.config import Paths
    from nearmetal.lab.mock.world import World

    ledgers = [str(path) for path in ledgers_folder().glob("*.jsonl")]
    sites = (Paths.default().state / "mock").glob("*")
    return ledgers + [
        state["name"] for site in sites for state in World(site.name).machines() if not state.get("borrowed")
    ]


async def cleaned() -> clean.CleanOutput:
    return await clean.clean()
