"""The browser that pages are looked at with."""

import shutil
import subprocess
from pathlib import Path

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


def chromium(profile: Path, *arguments: str) -> str:
    """Run the browser with a new, empty profile; what it printed."""
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout
