"""Pages for those who read by a screen reader, by the keyboard or with little contrast: axe-core finds no barrier."""

import shutil
from pathlib import Path

import pytest

from nearmetal.report.write import write
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run
from tests.browser.chromium import NEEDED
from tests.browser.page import Page
from tests.browser.serving import opened, served
from tests.golden.make_run import FOLDER

pytestmark = [NEEDED, pytest.mark.usefixtures("one_engine")]

OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true }); 0"
DARK, NARROW = (1280, True), (420, False)


def looks(*longer: tuple[int, bool]) -> pytest.MarkDecorator:
    """On a desktop, dark, and on a phone; some of them in `make long-test` alone."""
    each = [
        pytest.param(*one, marks=[pytest.mark.long] if one in longer else []) for one in ((1280, False), DARK, NARROW)
    ]
    return pytest.mark.parametrize(("width", "is_dark"), each)


def find_barriers(tab: Page, width: int, is_dark: bool) -> list[str]:
    tab.wide(width)
    if is_dark:
        tab.darken()
    tab.value(OPEN_ALL)
    return tab.find_barriers()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every chapter, but not the hundreds of dots that each take axe-core a while."""
    return write(plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1", blocks=2))


@looks(NARROW)
def test_a_report_has_no_barrier(width: int, is_dark: bool, report: Path, tab: Page) -> None:
    tab.open(report.as_uri())
    tab.until("document.querySelector('footer')")
    assert find_barriers(tab, width, is_dark) == []


@looks(DARK)
def test_the_page_of_a_run_that_goes_on_has_no_barrier(width: int, is_dark: bool, tmp_path: Path, tab: Page) -> None:
    run = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join(lines[:35]))
    with hold_journal(run.journal), served(run.path) as port:
        opened(tab, run, port)
        assert tab.value("document.getElementById('values').textContent.length")
        assert find_barriers(tab, width, is_dark) == []


@looks(DARK, NARROW)
def test_the_page_of_a_run_that_has_ended_has_no_barrier(width: int, is_dark: bool, tmp_path: Path, tab: Page) -> None:
    run = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    with served(run.path) as port:
        opened(tab, run, port)
        tab.until("document.querySelector('.picture')")
        assert find_barriers(tab, width, is_dark) == []


def test_a_finding_is_one(tab: Page, tmp_path: Path) -> None:
    """Or the tests above could pass without a look."""
    page = tmp_path / "page.html"
    page.write_text('<!DOCTYPE html><html lang="en"><title>a</title><main><h1>a</h1><img src="a.png"></main></html>')
    tab.open(page.as_uri())
    tab.until("document.querySelector('img')")
    assert [one.split(":")[1] for one in tab.find_barriers()] == [" image-alt"]
