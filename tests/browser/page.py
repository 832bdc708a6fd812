"""A browser that is told what to do, step by step, as somebody at its keyboard would."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api

from tests.browser.chromium import CHROMIUM, QUIET

_PATIENCE = 60_000.0
"""Milliseconds for something to appear."""
_OFTEN = 50.0
"""Milliseconds between two looks."""


@dataclass
class Page:
    """A tab. What is evaluated is JavaScript, and what comes back its value."""

    _page: sync_api.Page

    def wide(self, width: int, height: int = 1000) -> None:
        self._page.set_viewport_size({"width": width, "height": height})

    def phone(self, width: int, height: int = 800) -> None:
        """As wide as a phone is, where a page that does not say that it suits one is laid out wider and made small."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
        self._page.context.new_cdp_session(self._page).send("Emulation.setDeviceMetricsOverride", metrics)

    def darken(self) -> None:
        """As for somebody whose system is dark."""
        self._page.emulate_media(color_scheme="dark")

    def find_barriers(self) -> list[str]:
        """What axe-core finds that keeps somebody out (serious or critical), each with the elements concerned."""
        told = Axe().run(self._page).response["violations"]
        return [
            f"{one['impact']}: {one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:5]]}"
            for one in told
            if one["impact"] in ("serious", "critical")
        ]

    def open(self, address: str) -> None:
        """The page may still have parts to come, as one that follows something always has."""
        self._page.goto(address, wait_until="commit")

    def value(self, expression: str) -> Any:
        return self._page.evaluate(expression)

    def until(self, expression: str) -> None:
        """Wait until it is true. While a page is left for another one it is not."""
        is_so = f"() => {{ try {{ return !!({expression}) }} catch {{ return false }} }}"
        try:
            self._page.wait_for_function(is_so, timeout=_PATIENCE, polling=_OFTEN)
        except sync_api.TimeoutError:
            raise AssertionError((expression, self._page.content())) from None

    def point(self, at: Sequence[float], *, press: bool = False) -> None:
        """Move the pointer to a place in the window, and press there if asked to."""
        self._page.mouse.move(*at)
        if press:
            self._page.mouse.click(*at)

    def picture(self) -> bytes:
        """What the window shows, as a PNG."""
        return self._page.screenshot()

    def click(self, selector: str) -> None:
        self._page.click(selector)

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)


@contextmanager
def start_browser() -> Iterator[sync_api.Browser]:
    """It ends when it is left. The one that is installed, and not the library's own."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_tab(browser: sync_api.Browser) -> Iterator[Page]:
    """With a new, empty profile."""
    context = browser.new_context(reduced_motion="reduce")  # without a GPU a dot that beats takes most of a CPU
    try:
        yield Page(context.new_page())
    finally:
        context.close()
