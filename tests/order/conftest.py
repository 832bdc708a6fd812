"""Runs of these tests are in their own process, but for those that are about processes. Those of tests/unit too."""

import pytest

from nearmetal.run import study_execution
from tests.order.in_process import InProcess


@pytest.fixture(autouse=True)
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("processes") is None:
        monkeypatch.setattr(study_execution, "BlockProcesses", InProcess)
