import subprocess
from pathlib import Path

from nearmetal.run.versions import commit_of


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True).stdout


def test_a_checkout_is_told_by_its_commit_and_whether_files_differ(tmp_path: Path) -> None:
    source = tmp_path / "measure.py"
    source.write_text("one = 1\n")
    git(tmp_path, "init", "--quiet")
    assert commit_of(source) is None
    git(tmp_path, "add", "measure.py")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "--short=12", "HEAD").strip()
    assert commit_of(source) == head
    source.write_text("one = 2\n")
    assert commit_of(source) == f"{head}-dirty"
    # What is installed below somebody's checkout belongs to no commit of theirs.
    installed = tmp_path / "site-packages" / "measure.py"
    installed.parent.mkdir()
    installed.write_text("one = 1\n")
    assert commit_of(installed) is None


def test_what_lies_in_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path / "measure.py") is None
