"""The browser that pages are looked at with."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

NEEDED = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium: the page was NOT looked at in a browser; apt-get install chromium"
)

QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
