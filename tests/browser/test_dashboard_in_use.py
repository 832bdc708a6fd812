"""The dashboard as somebody uses it: when it ends, by the keyboard, to the report and back, on a phone."""

import asyncio
import json
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nearmetal.dashboard import server
from nearmetal.dashboard.page import read_script
from nearmetal.dashboard.run_view import number_of
from nearmetal.report.write import write
from nearmetal.store.claim import hold_journal
from nearmetal.store.folder import RunFolder
from tests import journals
from tests.browser.chromium import NEEDED
from tests.browser.driven import Page, browser
from tests.dashboard_server import dashboard
from tests.golden.make_run import FOLDER

pytestmark = NEEDED

TOKEN = "t0ken"


@contextmanager
def served(path: Path, port: int | None = None, token: str = TOKEN) -> Iterator[int]:
    """In a thread of this process, until left: the port."""
    ready = threading.Event()
    listening = server.open_listener(port)
    stop: list[Any] = []

    async def serve() -> None:
        task = asyncio.ensure_future(server.serve_dashboard(server.Dashboard(lambda: [path], path), token, listening))
        stop.append((asyncio.get_running_loop(), task))
        ready.set()
        await asyncio.wait({task})

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield listening.getsockname()[1]
    finally:
        loop, task = stop[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        listening.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path / "profile") as found:
        yield found


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


def opened(page: Page, folder: RunFolder, port: int) -> None:
    """By the address that the dashboard prints, and followed."""
    page.open(f"http://127.0.0.1:{port}/runs/{number_of(folder.path)}?token={TOKEN}")
    page.until("document.getElementById('link').textContent.match(/Follows what goes on|has ended/)")


# ── When it ends ──────────────────────────────────────────────────────────────────────────────────────────────────

SINCE = "document.querySelector('.since').textContent"
NOTICE = "document.getElementById('away')"


def test_a_page_whose_dashboard_has_ended_says_so_at_the_top_and_stands_still(page: Page, run: RunFolder) -> None:
    """Until it is back, when all of that is taken back."""
    cut(run)
    page.wide(1200)
    with hold_journal(run.journal):
        with served(run.path) as port:
            opened(page, run, port)
            page.until(f"{SINCE}.match(/^for [1-9]/)")
            title = page.value("document.title")
            assert title.startswith("running, ")
            assert page.value(f"{NOTICE}.offsetHeight") == 0
        page.until(f"{NOTICE}.offsetHeight > 0")
        page.value("window.scrollTo(0, document.body.scrollHeight)")
        assert page.value(f"{NOTICE}.getBoundingClientRect().top") == 0, "wherever one has scrolled to"
        assert "does not answer any more" in page.value(f"{NOTICE}.textContent")
        assert page.value("document.title") == f"No answer: {title}"
        stood = page.value(SINCE)
        page.value("window.later = 0; setTimeout(() => { window.later = 1 }, 2500); 0")
        page.until("window.later")
        assert page.value(SINCE) == stood
        with served(run.path, port):
            page.until(f"{NOTICE}.offsetHeight === 0")
            assert page.value("document.title") == title
            page.until(f"{SINCE} !== {json.dumps(stood)}")


def test_a_page_of_an_earlier_dashboard_says_where_the_new_one_is(page: Page, run: RunFolder) -> None:
    page.wide(1200)
    with served(run.path) as port:
        opened(page, run, port)
    page.until(f"{NOTICE}.textContent.includes('asked again')")
    with served(run.path, port, "another"):
        page.until(f"{NOTICE}.textContent.includes('started anew')")
        assert "open the address that it printed" in page.value(f"{NOTICE}.textContent")


def test_a_connection_that_falls_silent_is_noticed_and_found_again(page: Page, run: RunFolder) -> None:
    """As by a laptop that sleeps or a tunnel that breaks: nobody closes it."""
    cut(run)
    page.wide(1200)
    with hold_journal(run.journal), dashboard(str(run.path)) as silent:
        page.open(silent.url)
        page.until("document.getElementById('link').textContent.includes('Follows')")
        silent.process.send_signal(signal.SIGSTOP)
        page.until(f"{NOTICE}.offsetHeight > 0")
        assert "Nothing was heard of it" in page.value(f"{NOTICE}.textContent")
        assert page.value("document.title").startswith("No answer: running, ")
        silent.process.send_signal(signal.SIGCONT)
        page.until(f"{NOTICE}.offsetHeight === 0")
        with run.journal.open("ab") as out:
            out.write(b"".join(FOLDER.joinpath("journal.jsonl").read_bytes().splitlines(keepends=True)[35:]))
        page.until("document.title.startsWith('running, 16 trials')")


SILENCE = int(*re.findall(r"const SILENCE = (\d+)", read_script()))
"""Seconds without a word, after which a page asks again."""


def test_a_dashboard_that_has_nothing_to_tell_is_not_taken_for_silent(page: Page, run: RunFolder) -> None:
    """By the real clock of both: what the one says is often enough for the other."""
    page.wide(1200)
    with served(run.path) as port:
        opened(page, run, port)
        page.value(f"""
            window.later = window.wrong = 0;
            setTimeout(() => {{ window.later = 1 }}, {1000 * (SILENCE + 7)});
            new MutationObserver(() => {{ window.wrong = 1 }}).observe({NOTICE}, {{ childList: true }});
            0
        """)
        page.until("window.later")
        assert page.value("window.wrong") == 0


@pytest.mark.parametrize(("is_over", "state"), [(True, "ended"), (False, "interrupted")])
def test_the_tab_tells_the_state(is_over: bool, state: str, page: Page, run: RunFolder) -> None:
    if not is_over:
        cut(run)
    with served(run.path) as port:
        opened(page, run, port)
        assert page.value("document.title").startswith(f"{state}, ")


# ── By the keyboard ───────────────────────────────────────────────────────────────────────────────────────────────

SAID = "document.getElementById('said').textContent"


def tabbed_to(page: Page, selector: str) -> None:
    """By as few presses as there may be at most."""
    for _ in range(8):
        page.press("Tab")
        if page.value(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise AssertionError(f"no press of Tab leads to {selector}")


def test_what_a_square_says_is_read_by_the_keyboard_too(page: Page, run: RunFolder) -> None:
    cut(run)
    rest = FOLDER.joinpath("journal.jsonl").read_bytes().splitlines(keepends=True)[35:]
    page.wide(1200, 500)
    with hold_journal(run.journal), served(run.path) as port:
        opened(page, run, port)
        assert page.value("getComputedStyle(document.getElementById('said')).position") == "static", "it covers nothing"
        tabbed_to(page, ".rows")
        assert page.value(SAID).startswith("base, block 1: ok after ")
        assert page.value("document.querySelectorAll('.at').length") == 1
        for key, said in (
            ("ArrowRight", "base, block 2: ok after 137 ms"),
            ("ArrowDown", "slow, block 2: ok after "),
            ("ArrowDown", "slow, block 2: ok after "),
            ("End", "slow, block 8: to come"),
            ("ArrowUp", "base, block 8: to come"),
            ("Home", "base, block 1: ok after "),
            ("End", "base, block 8: to come"),
        ):
            page.press(key)
            assert page.value(SAID).startswith(said)
        assert page.value("document.getElementById('said').getBoundingClientRect().bottom") <= 500, "in sight"
        with run.journal.open("ab") as out:
            out.write(b"".join(rest))
        page.until(f"{SAID}.startsWith('base, block 8: ok after ')")
        assert page.value("document.querySelector('.at').title").startswith("block 8: ok")
        page.press("Tab")
        assert page.value("document.querySelectorAll('.at').length") == 0


def test_a_report_that_the_dashboard_shows_leads_back_to_its_run(page: Page, run: RunFolder) -> None:
    write(run)
    page.wide(1200)
    with served(run.path) as port:
        opened(page, run, port)
        place = page.value("location.pathname")
        tabbed_to(page, "[href$='/report']")
        page.press("Enter")
        page.until("location.pathname.endsWith('/report') && document.querySelector('nav')")
        tabbed_to(page, f"[href='{place}']")
        page.press("Enter")
        page.until(f"location.pathname === {json.dumps(place)} && document.querySelector('.state.ended')")
    assert number_of(run.path) not in run.page.read_text(), "nothing of it in the file"


def test_a_report_in_the_dashboard_answers_and_runs_no_script_but_ours(page: Page, run: RunFolder) -> None:
    write(run)
    theirs = "<script>document.title = 'theirs'</script><script src='/live.js'></script>"
    run.page.write_text(
        re.sub("<meta http-equiv[^>]*>", "", run.page.read_text()).replace("</footer>", f"</footer>{theirs}")
    )
    with served(run.path) as port:
        opened(page, run, port)
        page.open(page.value("document.querySelector(\"[href$='/report']\").href"))
        page.until("document.getElementById('sift') && !document.getElementById('sift').hidden")
        assert page.value("document.querySelectorAll('.mark').length") > 0
        assert page.value("document.title") != "theirs"


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


def test_long_names_are_broken_and_the_word_beside_them_is_not(page: Page, named: RunFolder) -> None:
    page.phone(400)
    with served(named.path) as port:
        opened(page, named, port)
        page.until(WORD)
        assert page.value("document.documentElement.scrollWidth") == 400
        assert page.value(WORD) == [True]
        page.open(write(named).as_uri())
        page.until("document.querySelector('.legend small')")
        assert page.value("document.documentElement.scrollWidth") == 400
        assert page.value(WORD) == [True]
