"""The page in a real browser, on a desktop and on a phone: all drawn, nothing wider than the screen."""

import html
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearmetal.report.write import write
from nearmetal.store.run_folder import RunFolder
from nearmetal.trace import events
from nearmetal.trace import page as trace_page
from nearmetal.trace.request_choice import ChosenRequest
from tests import journals, plausible_captures, plausible_run
from tests.browser.chromium import NEEDED
from tests.browser.page import Page
from tests.unit import test_report_usage as usage
from tests.unit import trace_golden

pytestmark = [NEEDED, pytest.mark.usefixtures("one_engine")]

MEASURE = """
const page = document.querySelector("iframe").contentDocument;
const shown = [...page.querySelectorAll(".picture")].filter(picture => picture.offsetWidth > 0);
const body = page.documentElement;
document.title = JSON.stringify({
  width: body.clientWidth,
  scroll: body.scrollWidth,
  pictures: shown.length,
  small: shown.filter(picture => picture.offsetWidth < 250 || picture.offsetHeight < 60).length,
  wide: shown.filter(picture => picture.getBoundingClientRect().right > body.clientWidth + 1).length,
  headings: [...page.querySelectorAll("h2")].map(heading => heading.textContent),
  ground: getComputedStyle(page.body).backgroundColor,
});
"""
"""Seen from a page around the report: the report's policy lets no other script run in it."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with names as long as they may be."""
    return write(plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1"))


def measured(page: Path, width: int, folder: Path, tab: Page) -> dict[str, object]:
    """What the page measures in a window of a width."""
    around = folder / "around.html"
    around.write_text(
        f'<!DOCTYPE html><title></title><iframe style="border:0;width:{width}px;height:900px" '
        f'srcdoc="{html.escape(page.read_text())}"></iframe><script>onload = () => {{{MEASURE}}}</script>'
    )
    tab.wide(width + 40)
    tab.open(around.as_uri())
    tab.until("document.title")
    told: dict[str, object] = json.loads(tab.value("document.title"))
    return told


@pytest.mark.parametrize("width", [360, pytest.param(768, marks=pytest.mark.long), 1400])
def test_nothing_is_wider_than_the_screen_and_every_picture_is_drawn(
    width: int, page: Path, tmp_path: Path, tab: Page
) -> None:
    told = measured(page, width, tmp_path, tab)
    assert told["width"] == width
    assert told["scroll"] == width
    assert told["wide"] == 0
    assert told["small"] == 0
    panels = len(list(page.with_name("report").glob("*.svg")))
    assert told["pictures"] == panels
    assert isinstance(told["headings"], Sequence)
    assert told["headings"][0] == "The answer"


def test_names_as_long_as_they_may_be_do_not_break_a_phone(tmp_path: Path, tab: Page) -> None:
    made = plausible_run.make(tmp_path / "run", blocks=6)
    long = "x" * 100
    journals.rewrite_run(
        made.path, lambda text: text.replace('"docker"', json.dumps(long)).replace('"web"', json.dumps(long[::-1]))
    )
    told = measured(write(RunFolder.open(made.path)), 360, tmp_path, tab)
    assert told["scroll"] == 360
    assert told["wide"] == 0


CUT = """
document.querySelectorAll("details").forEach((one) => { one.open = true; });
const cut = (one) => one.scrollWidth > one.clientWidth;
[...document.querySelectorAll(".table .scroll")].filter(cut).map((one) => one.textContent);
"""


def test_on_a_desktop_the_last_column_of_the_widest_tables_is_not_cut(tmp_path: Path, tab: Page) -> None:
    folder = usage.made(tmp_path / "run")
    journals.rewrite_run(
        folder.path, lambda text: text.replace('"web"', '"web-kept-alive"').replace('"docker"', '"docker-2"')
    )
    written = write(folder)
    assert written.read_text().count("%idle") == 2
    tab.wide(1200)
    tab.open(written.as_uri())
    tab.until("document.querySelector('footer')")
    assert tab.value(CUT) == []


@pytest.mark.parametrize(("width", "height"), [(1400, 2400), pytest.param(500, 2400, marks=pytest.mark.long)])
def test_the_page_renders_to_a_picture(width: int, height: int, page: Path, tab: Page) -> None:
    tab.wide(width, height)
    tab.open(page.as_uri())
    tab.until("document.readyState === 'complete'")
    content = tab.picture()
    assert struct.unpack(">II", content[16:24]) == (width, height)
    assert len(content) > 50_000, "a page without text and charts compresses to less"


# ── Charts that answer ────────────────────────────────────────────────────────────────────────────────────────────

TIP = "document.getElementById('tip')"


def labelled(*parts: str, within: str = "") -> str:
    """An expression: the visible marks whose label has all of these parts."""
    has = " && ".join(f"` ${{one.getAttribute('aria-label')}} `.includes({json.dumps(f' {part} ')})" for part in parts)
    return f"[...document.querySelectorAll('{within} .mark')].filter((one) => one.checkVisibility() && {has})"


def pointed(page: Page, marks: str, *, press: bool = False) -> None:
    """With the pointer in the middle of the first of them."""
    page.value(f"{marks}[0].scrollIntoView({{ behavior: 'instant', block: 'center' }})")
    page.value("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    box = page.value(
        f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({marks}[0].getBoundingClientRect())"
    )
    page.point(box, press=press)
    page.until(f"!{TIP}.hidden")


def are_all(marks: str, test: str) -> str:
    return f"{marks}.length > 0 && {marks}.every((one) => one.matches({json.dumps(test)}))"


@pytest.fixture
def answering(page: Path, tab: Page) -> Page:
    tab.wide(1400)
    tab.open(page.as_uri())
    tab.until("!document.getElementById('filter').hidden")
    return tab


def test_pointing_at_a_dot_tells_its_value_and_marks_its_like_in_every_chart(answering: Page) -> None:
    pointed(answering, labelled("docker", "block 3", within="#responses"))
    told = answering.value(f"{TIP}.textContent").split("\n")
    assert told[:2] == ["docker", "block 3"] and told[2].endswith("/s")
    for chapter in ("#verdicts", "#responses", "#cost"):
        assert answering.value(are_all(labelled("docker", within=chapter), ".lit"))
        assert answering.value(are_all(labelled("block 3", within=chapter), ".here"))
        assert answering.value(f"{labelled('qemu', 'block 4', within=chapter)}.every((one) => !one.matches('.lit'))")
    answering.point((5, 5))
    answering.until(f"{TIP}.hidden && !document.body.matches('.pointing')")


def test_a_ladder_tells_its_events_and_marks_its_treatment_in_the_other_charts(tmp_path: Path, tab: Page) -> None:
    written = write(plausible_captures.make(tmp_path / "run"))
    tab.wide(1400)
    tab.open(written.as_uri())
    tab.until("!document.getElementById('filter').hidden")
    tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    pointed(tab, labelled("docker", "server: reply leaves", within="#anatomy"))
    told = tab.value(f"{TIP}.textContent").split("\n")
    assert told[:2] == ["docker", "server: reply leaves"] and told[2].endswith("s")
    assert tab.value(are_all(labelled("docker", within="#verdicts"), ".lit"))
    assert tab.value(f"{labelled('qemu', within='#anatomy')}.every((one) => !one.matches('.lit'))")


def test_a_page_of_captures_answers_without_a_filter(tmp_path: Path, tab: Page) -> None:
    told = events.find_events(trace_golden.LINES[0], events.Clocks.from_document(trace_golden.DOCUMENT))
    chosen = ChosenRequest(1, trace_golden.LINES[0])
    written = tmp_path / "trace.html"
    written.write_text(trace_page.render_page(["a.pcap"], (), (chosen, told), trace_golden.LINES, 6))
    tab.wide(1400)
    tab.open(written.as_uri())
    tab.until("document.querySelector('.said')")
    for start in ("connection 1", "Request 1"):
        marks = f"[...document.querySelectorAll('.said')].filter((one) => one.ariaLabel.startsWith('{start} ·'))"
        pointed(tab, f"{marks}.filter((one) => one.checkVisibility())", press=True)
        said = tab.value(f"{TIP}.textContent").split("\n")
        assert said[0] == start and len(said) == 3
    assert not tab.value("document.body.matches('.pointing')")


def test_a_pressed_mark_stays_marked_until_escape(answering: Page) -> None:
    pointed(answering, labelled("qemu", "block 2", within="#responses"), press=True)
    answering.point((5, 5))
    answering.until(f"{TIP}.hidden")
    assert answering.value("document.querySelector('.marked span').textContent") == "Marked: qemu, block 2"
    assert answering.value(are_all(labelled("qemu", within="#verdicts"), ".lit"))
    answering.press("Escape")
    answering.until("!document.body.matches('.pointing') && document.querySelector('.marked').hidden")


def test_charts_are_filtered_by_level_and_by_block_and_all_of_it_comes_back(answering: Page) -> None:
    answering.click("#filter summary")
    answering.click("#filter [data-factor='0'][data-level='2']")
    assert answering.value(are_all(labelled("qemu"), ".out"))
    assert not answering.value(f"{labelled('docker')}.some((one) => one.matches('.out'))")
    answering.value(
        "(([first, last]) => { first.value = 3; last.value = 5; first.dispatchEvent(new Event('input', { bubbles: true "
        "})); })(document.querySelectorAll('#filter [type=number]'))"
    )
    assert answering.value(are_all(labelled("docker", "block 2"), ".out"))
    assert answering.value(are_all(labelled("docker", "block 6"), ".out"))
    assert not answering.value(f"{labelled('docker', 'block 4')}.some((one) => one.matches('.out'))")
    assert not answering.value(f"{labelled('docker', 'median')}.some((one) => one.matches('.out'))")
    answering.click("#filter .all")
    assert not answering.value("document.querySelectorAll('.out').length")


def test_a_script_that_somebody_put_into_the_page_does_not_run(page: Path, tmp_path: Path, tab: Page) -> None:
    changed = tmp_path / "changed.html"
    changed.write_text(page.read_text().replace("</footer>", "</footer><script>document.title = 'theirs'</script>"))
    tab.open(changed.as_uri())
    tab.until("!document.getElementById('filter').hidden")
    assert tab.value("document.title") != "theirs"
