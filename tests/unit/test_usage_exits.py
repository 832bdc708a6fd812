"""VM exits, as KVM counts them for a host: told where its kernel tells them."""

from pathlib import Path

import pytest

from nearmetal.lab.site import LocalSite
from nearmetal.observers import _usage_exits


@pytest.mark.parametrize(
    ("written", "told"), [("182736455\n", 182736455), ("0\n", 0), ("", None), ("no such counter\n", None), (None, None)]
)
async def test_exits_are_read_where_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str | None, told: int | None
) -> None:
    file = tmp_path / "exits"
    if written is not None:
        file.write_text(written)
    monkeypatch.setattr(_usage_exits, "FILE", str(file))
    assert await _usage_exits.exits(LocalSite()) == told
