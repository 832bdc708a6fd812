"""The dashboard as somebody uses it: when it ends, by the keyboard, to the report and back, on a phone."""

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from nearmetal.dashboard.page import read_script
from nearmetal.dashboard.run_view import number_of
from nearmetal.report.write import write
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import journals
from tests.browser.chromium import NEEDED
from tests.browser.page import Page
from tests.browser.serving import opened, served
from tests.dashboard_server import dashboard
from tests.golden.make_run import FOLDER

pytestmark = [NEEDED, pytest.mark.usefixtures("one_engine")]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))


def cut(folder: RunFolder) -> None:
    """In the midst of a boot that began just now."""
    lines = [json.loads(line) for line in folder.journal.read_text().splitlines()[:35]]
    last = max(line.get("at_ns", 0) for line in lines)
    for line in lines:
        if "at_ns" in line:
            line["at_ns"] += time.time_ns() - last
    folder.journal.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))


# ── When it ends ──────────────────────────────────────────────────────────────────────────────────────────────────

SINCE = "document.querySelector('.since').textContent"
NOTICE = "document.getElementById('away')"


def test_a_page_whose_dashboard_has_ended_says_so_at_the_top_and_stands_still(tab: Page, run: RunFolder) -> None:
    """Until it is back, when all of that is taken back."""
    cut(run)
    tab.wide(1200)
    with hold_journal(run.journal):
        with served(run.path) as port:
            opened(tab, run, port)
            tab.until(f"{SINCE}.match(/^for [1-9]/)")
            title = tab.value("document.title")
            assert title.startswith("running, ")
            assert tab.value(f"{NOTICE}.offsetHeight") == 0
        tab.until(f"{NOTICE}.offsetHeight > 0")
        tab.value("window.scrollTo(0, document.body.scrollHeight)")
        assert tab.value(f"{NOTICE}.getBoundingClientRect().top") == 0, "wherever one has scrolled to"
        assert "does not answer any more" in tab.value(f"{NOTICE}.textContent")
        assert tab.value("document.title") == f"No answer: {title}"
        stood = tab.value(SINCE)
        tab.value("window.later = 0; setTimeout(() => { window.later = 1 }, 2500); 0")
        tab.until("window.later")
        assert tab.value(SINCE) == stood
        with served(run.path, port):
            tab.until(f"{NOTICE}.offsetHeight === 0")
            assert tab.value("document.title") == title
            tab.until(f"{SINCE} !== {json.dumps(stood)}")


def test_a_page_of_an_earlier_dashboard_says_where_the_new_one_is(tab: Page, run: RunFolder) -> None:
    tab.wide(1200)
    with served(run.path) as port:
        opened(tab, run, port)
    tab.until(f"{NOTICE}.textContent.includes('asked again')")
    with served(run.path, port, "another"):
        tab.until(f"{NOTICE}.textContent.includes('started anew')")
        assert "open the address that it printed" in tab.value(f"{NOTICE}.textContent")


def test_a_connection_that_falls_silent_is_noticed_and_found_again(tab: Page, run: RunFolder) -> None:
    """As by a laptop that sleeps or a tunnel that breaks: nobody closes it."""
    cut(run)
    tab.wide(1200)
    with hold_journal(run.journal), dashboard(str(run.path)) as silent:
        tab.open(silent.url)
        tab.until("document.getElementById('link').textContent.includes('updates itself')")
        silent.process.send_signal(signal.SIGSTOP)
        tab.until(f"{NOTICE}.offsetHeight > 0")
        assert "Nothing was heard of it" in tab.value(f"{NOTICE}.textContent")
        assert tab.value("document.title").startswith("No answer: running, ")
        silent.process.send_signal(signal.SIGCONT)
        tab.until(f"{NOTICE}.offsetHeight === 0")
        with run.journal.open("ab") as out:
            out.write(b"".join(FOLDER.joinpath("journal.jsonl").read_bytes().splitlines(keepends=True)[35:]))
        tab.until("document.title.startsWith('running, 16 trials')")


SILENCE = int(*re.findall(r"const SILENCE = (\d+)", read_script()))
"""Seconds without a word, after which a page asks again."""


def test_a_dashboard_that_has_nothing_to_tell_is_not_taken_for_silent(tab: Page, run: RunFolder) -> None:
    """By the real clock of both: what the one says is often enough for the other."""
    tab.wide(1200)
    with served(run.path) as port:
        opened(tab, run, port)
        tab.value(f"""
            window.later = window.wrong = 0;
            setTimeout(() => {{ window.later = 1 }}, {1000 * (SILENCE + 7)});
            new MutationObserver(() => {{ window.wrong = 1 }}).observe({NOTICE}, {{ childList: true }});
            0
        """)
        tab.until("window.later")
        assert tab.value("window.wrong") == 0


@pytest.mark.parametrize(("is_over", "state"), [(True, "ended"), (False, "interrupted")])
def test_the_tab_tells_the_state(is_over: bool, state: str, tab: Page, run: RunFolder) -> None:
    if not is_over:
        cut(run)
    with served(run.path) as port:
        opened(tab, run, port)
        assert tab.value("document.title").startswith(f"{state}, ")


# ── By the keyboard ───────────────────────────────────────────────────────────────────────────────────────────────

SAID = "document.getElementById('said').textContent"


def tabbed_to(tab: Page, selector: str) -> None:
    """By as few presses as there may be at most."""
    for _ in range(8):
        tab.press("Tab")
        if tab.value(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise AssertionError(f"no press of Tab leads to {selector}")


def test_what_a_square_says_is_read_by_the_keyboard_too(tab: Page, run: RunFolder) -> None:
    cut(run)
    rest = FOLDER.joinpath("journal.jsonl").read_bytes().splitlines(keepends=True)[35:]
    tab.wide(1200, 500)
    with hold_journal(run.journal), served(run.path) as port:
        opened(tab, run, port)
        assert tab.value("getComputedStyle(document.getElementById('said')).position") == "static", "it covers nothing"
        tabbed_to(tab, ".rows")
        assert tab.value(SAID).startswith("base, block 1: ok after ")
        assert tab.value("document.querySelectorAll('.at').length") == 1
        for key, said in (
            ("ArrowRight", "base, block 2: ok after 137 ms"),
            ("ArrowDown", "slow, block 2: ok after "),
            ("ArrowDown", "slow, block 2: ok after "),
            ("End", "slow, block 8: to come"),
            ("ArrowUp", "base, block 8: to come"),
            ("Home", "base, block 1: ok after "),
            ("End", "base, block 8: to come"),
        ):
            tab.press(key)
            assert tab.value(SAID).startswith(said)
        assert tab.value("document.getElementById('said').getBoundingClientRect().bottom") <= 500, "in sight"
        with run.journal.open("ab") as out:
            out.write(b"".join(rest))
        tab.until(f"{SAID}.startsWith('base, block 8: ok after ')")
        assert tab.value("document.querySelector('.at').title").startswith("block 8: ok")
        tab.press("Tab")
        assert tab.value("document.querySelectorAll('.at').length") == 0


def test_a_report_that_the_dashboard_shows_leads_back_to_its_run(tab: Page, run: RunFolder) -> None:
    write(run)
    tab.wide(1200)
    with served(run.path) as port:
        opened(tab, run, port)
        place = tab.value("location.pathname")
        tabbed_to(tab, "[href$='/report']")
        tab.press("Enter")
        tab.until("location.pathname.endsWith('/report') && document.querySelector('nav')")
        tabbed_to(tab, f"[href='{place}']")
        tab.press("Enter")
        tab.until(f"location.pathname === {json.dumps(place)} && document.querySelector('.state.ended')")
    assert number_of(run.path) not in run.page.read_text(), "nothing of it in the file"


def test_a_report_in_the_dashboard_answers_and_runs_no_script_but_ours(tab: Page, run: RunFolder) -> None:
    write(run)
    theirs = "<script>document.title = 'theirs'</script><script src='/live.js'></script>"
    run.page.write_text(
        re.sub("<meta http-equiv[^>]*>", "", run.page.read_text()).replace("</footer>", f"</footer>{theirs}")
    )
    with served(run.path) as port:
        opened(tab, run, port)
        tab.open(tab.value("document.querySelector(\"[href$='/report']\").href"))
        tab.until("document.getElementById('filter') && !document.getElementById('filter').hidden")
        assert tab.value("document.querySelectorAll('.mark').length") > 0
        assert tab.value("document.title") != "theirs"


# ── On a phone ────────────────────────────────────────────────────────────────────────────────────────────────────

LONG = "aworkloadwhosenameisaslongasitmaybeandhasnohyphentobreakit" * 2
WORD = "[...document.querySelectorAll('.legend small')].map((one) => one.offsetHeight < 30)"


@pytest.fixture
def named(run: RunFolder) -> RunFolder:
    """With a workload and an environment of long names, without marks to break them at."""
    journals.rewrite_run(
        run.path, lambda text: text.replace('"web"', f'"{LONG[:100]}"').replace('"base"', f'"{LONG[:50]}"')
    )
    return run


def test_long_names_are_broken_and_the_word_beside_them_is_not(tab: Page, named: RunFolder) -> None:
    tab.phone(400)
    with served(named.path) as port:
        opened(tab, named, port)
        tab.until(WORD)
        assert tab.value("document.documentElement.scrollWidth") == 400
        assert tab.value(WORD) == [True]
        tab.open(write(named).as_uri())
        tab.until("document.querySelector('.legend small')")
        assert tab.value("document.documentElement.scrollWidth") == 400
        assert tab.value(WORD) == [True]
