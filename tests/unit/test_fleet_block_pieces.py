"""What sites measured comes home as it was: all files together, in parts that cross at once."""

from pathlib import Path

import pytest

from nearmetal.fleet import block_pieces
from nearmetal.fleet.block_pieces import Piece
from nearmetal.fleet.messages import Part, SpooledFile
from nearmetal.store.run_folder import RunFolder


def divide(sizes: dict[str, int]) -> list[list[Part]]:
    files = [SpooledFile(path=f"artifacts/{name}/x", size=size, sha256="") for name, size in sizes.items()]
    return list(block_pieces._divide_files(files))


def test_small_files_cross_together() -> None:
    assert divide({"a": 10, "b": 0, "c": 30}) == [
        [("artifacts/a/x", 0, 10), ("artifacts/b/x", 0, 0), ("artifacts/c/x", 0, 30)]
    ]


@pytest.mark.parametrize("sizes", [(250,), (100, 100), (60, 60, 0), (0, 100, 1), (99, 2, 350), (0,)])
def test_every_byte_crosses_once_and_never_too_many_at_once(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_pieces, "CHUNK", 100)
    found = divide({str(number): size for number, size in enumerate(sizes)})
    assert all(parts and sum(part.size for part in parts) <= 100 for parts in found)
    come = dict.fromkeys((f"artifacts/{number}/x" for number in range(len(sizes))), 0)
    for part in (part for parts in found for part in parts):
        assert part.offset == come[part.path]
        come[part.path] += part.size
    assert tuple(come.values()) == sizes


def test_files_of_a_trial_that_has_some_already_are_put_beside_them(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    piece = Piece.name_piece(folder, 0, 0, 1, "a")
    for trial, file in (("one", "load.json"), ("two", "load.json")):
        (piece.folder / "artifacts" / trial).mkdir(parents=True)
        (piece.folder / "artifacts" / trial / file).write_text(trial)
    (folder.artifacts / "one").mkdir(parents=True)
    (folder.artifacts / "one" / "stderr.txt").write_text("before")
    for _ in range(2):
        piece.place_artifacts(folder)
        found = {str(file.relative_to(folder.artifacts)): file.read_text() for file in folder.artifacts.glob("*/*")}
        assert found == {"one/load.json": "one", "one/stderr.txt": "before", "two/load.json": "two"}
