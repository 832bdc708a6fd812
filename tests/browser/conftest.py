"""One browser for the tests of this folder: to start it takes two seconds of a CPU, and a tab a tenth."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.page import Page, open_tab, start_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the whole session: while it is there no test has a loop of asyncio."""
    with start_browser() as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    with open_tab(browser) as found:
        yield found
