"""What the dashboard answers, asked as a browser asks."""

from pathlib import Path

import pytest
from starlette.types import Message

from nearmetal.dashboard.run_view import number_of
from nearmetal.dashboard.server import Dashboard
from nearmetal.store.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = tmp_path / "run"
    folder.mkdir()
    return RunFolder(folder)


async def status(run: RunFolder, page: str) -> int:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    board = Dashboard(lambda: [run.path], None)
    path = f"/runs/{number_of(run.path)}/{page}"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await board.make_app()(scope, receive, send)
    await board.close()
    return int(sent[0]["status"])


async def test_a_report_is_a_file_that_lies_in_the_runs_folder(run: RunFolder, tmp_path: Path) -> None:
    assert await status(run, "report") == 404
    run.page.mkdir()
    assert await status(run, "report") == 404, "a folder of that name"
    run.page.rmdir()
    run.page.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("what is nobody's business")
    assert await status(run, "report") == 404, "a way to elsewhere"
    run.page.unlink()
    run.page.write_text("a report")
    assert await status(run, "report") == 200
