"""The dashboard in a real browser: what is pushed appears, nothing is wider than the screen, names run no script."""

import json
import shutil
from pathlib import Path

import pytest

from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import journals
from tests.browser.chromium import NEEDED
from tests.browser.page import Page
from tests.browser.serving import opened, served
from tests.golden.make_run import FOLDER
from tests.unit.test_dashboard_page import HOSTILE

pytestmark = NEEDED

SQUARES = "document.querySelectorAll('.rows li.{}').length"
STATE = "document.querySelector('.state').textContent"
OVER = f"""
document.querySelector(".state.ended") && {SQUARES.format("to-come")} === 0
&& document.querySelector("#verdicts h2").textContent === "Verdicts"
"""
MEASURE = f"""({{
  ok: {SQUARES.format("ok")},
  title: document.title,
  foot: document.getElementById("link").textContent,
  width: document.documentElement.clientWidth,
  scroll: document.documentElement.scrollWidth,
  pictures: [...document.querySelectorAll(".picture")]
    .filter((picture) => picture.offsetWidth > 250 && picture.offsetHeight > 60).length,
  badges: [...document.querySelectorAll(".badge")].map((badge) => badge.textContent),
  scripts: document.querySelectorAll("script:not([src])").length,
  alerted: window.alerted ?? 0,
}})"""


@pytest.mark.parametrize(
    ("width", "name"),
    [
        *(pytest.param(width, "slow", marks=pytest.mark.long) for width in (1400, 500)),
        (500, HOSTILE),
        (1400, "x" * 100),
    ],
)
def test_what_is_pushed_appears(width: int, name: str, tmp_path: Path, tab: Page) -> None:
    folder = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    called = json.dumps(name.replace("alert", "window.alerted=1;alert"))
    journals.rewrite_run(folder.path, lambda text: text.replace('"slow"', called))
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:40]))
    tab.wide(width, 1200)
    with served(folder.path) as port:
        with hold_journal(folder.journal):
            opened(tab, folder, port)
            assert tab.value(STATE) == "running"
            first = tab.value(SQUARES.format("ok"))
            with folder.journal.open("ab") as out:
                out.write(b"".join(lines[40:]))
        tab.until(OVER)
        seen = tab.value(MEASURE)
    assert first < seen["ok"] == 16
    assert seen["title"] == "ended, 16 trials, 8 blocks: golden · run"
    assert seen["foot"] == "This run has ended."
    assert seen["scroll"] == seen["width"] == width
    assert seen["pictures"] >= 1
    assert "different, worse" in seen["badges"]
    assert (seen["scripts"], seen["alerted"]) == (0, 0)
