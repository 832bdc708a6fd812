"""The tools that build an image: none is waited for without an end, and nothing of one goes on."""

import os
import time
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.image import build_tools

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace takes root")


async def test_a_tool_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_tools, "LIMIT", 1.0)
    script = "sleep 600 & echo I: fetching; wait"
    began = time.monotonic()
    with pytest.raises(ToolFailed, match=r"sh did not end within 1 s; it said last: I: fetching"):
        await build_tools.run(("sh", "-c", script), folder=tmp_path)
    assert time.monotonic() - began < 300, "what it started was waited for"
