"""Runs of a study that lie beside one are counted."""

import shutil
from pathlib import Path

from nearmetal.report.write import render
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.runs import count_earlier_runs
from tests import journals

GOLDEN = Path(__file__).parents[1] / "golden" / "run"


def placed(folder: Path, name: str, **changes: object) -> RunFolder:
    run = Path(shutil.copytree(GOLDEN, folder / name))
    with journals.changed_manifest(run) as manifest:
        manifest.update(changes)
    return RunFolder(run)


def test_runs_of_the_same_study_and_host_that_began_before_are_counted(tmp_path: Path) -> None:
    with_host = {"host": {"processor": {"model": "A"}}}
    mine = placed(tmp_path, "mine", created="2026-11-24T00:00:00+00:00", **with_host)
    assert count_earlier_runs(mine) == 0
    assert "Earlier runs" not in str(render(mine, "md", print))
    placed(tmp_path, "one", created="2026-11-22T00:00:00+00:00", **with_host)
    # Each run draws a seed of its own.
    two = placed(tmp_path, "two", created="2026-11-23T00:00:00+00:00", **with_host)
    journals.rewrite_manifest(two.path, lambda text: text.replace('"seed": 1', '"seed": 2'))
    placed(tmp_path, "later", created="2026-11-25T00:00:00+00:00", **with_host)
    placed(tmp_path, "elsewhere", created="2026-11-23T00:00:00+00:00", host={"processor": {"model": "B"}})
    other = placed(tmp_path, "other", created="2026-11-23T00:00:00+00:00", **with_host)
    journals.rewrite_manifest(other.path, lambda text: text.replace('"speed": 0.5', '"speed": 0.6'))
    (placed(tmp_path, "damaged").path / "manifest.json").write_text(f'{{"name":"{mine.read_manifest().study.name}"')
    (tmp_path / "no-run").mkdir()
    assert count_earlier_runs(mine) == 2
    assert "2 runs of this study on this host began before this one" in str(render(mine, "md", print))
