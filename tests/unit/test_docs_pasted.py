"""What the documentation shows of commands is what they print: `python -m tests.pasted` pastes it."""

from pathlib import Path

import pytest

from tests.command_line import called
from tests.pasted import DOCS, ELSEWHERE, Place, align_lines, list_pages, list_shown, run_page


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: page.stem)
def test_what_a_page_shows_is_printed(page: Path, tmp_path: Path) -> None:
    for shown, printed in run_page(page, tmp_path):
        try:
            align_lines(shown.prints, printed)
        except ValueError as error:
            raise AssertionError(f"{shown.command}: {error}; mend it by: python -m tests.pasted") from None


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_verdict_of_a_first_try_is_that_of_the_page(seed: int, tmp_path: Path) -> None:
    """Here too each run draws its own noise, as a reader's does."""
    Place(tmp_path, DOCS / "how-to" / "try-a-design.md")
    ended = called("run", "try.toml", "-o", "try", "--seed", str(seed), cwd=tmp_path)
    assert ended.returncode == 0 and "▼  different, worse " in ended.stdout + ended.stderr


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    pages = [*DOCS.glob("*.md"), *DOCS.glob("how-to/*.md")]
    shown = [one for page in pages for block in list_shown(page) for one in block]
    assert len(shown) > 40
    reasons = {one.explain_absence() for one in shown}
    assert set(ELSEWHERE.values()) <= reasons


def test_lines_are_found_in_their_order_and_none_is_left_out_unsaid() -> None:
    printed = ["a", "b", "took 3 in 12 s", "d"]
    assert align_lines(["a", "…", "took 3 in 1 min 2 s", "d"], printed)
    assert align_lines(["a", "…"], printed)
    assert align_lines([], printed) == [], "a page may show a command alone"
    for wrong in (["b"], ["a", "took 3 in 12 s"], ["a", "…", "took 4 in 12 s"], ["a", "b"], ["…", "d", "a"]):
        with pytest.raises(ValueError, match=r"not printed|left out"):
            align_lines(wrong, printed)
