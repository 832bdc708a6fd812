"""What the command line says of a dashboard that cannot be: one message with a remedy, and its exit code."""

import importlib.util
import socket
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from nearmetal import cli


def refused(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["nearmetal", "dashboard", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return int(ended.value.code or 0), printed.err


@pytest.mark.parametrize("name", ["nowhere", "empty", "file", "damaged", "x" * 5000, "nul"])
def test_what_is_no_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    status, said = refused([str(tmp_path / name)], monkeypatch, capsys)
    assert status in (2, 3)
    assert "remedy: " in said
    if len(name) < 100:
        assert status == 2
        assert name in said


@pytest.mark.parametrize("port", ["-1", "65536", "http", "80.5", ""])
def test_what_is_no_port(port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = refused(["--port", port], monkeypatch, capsys)
    assert status == 2
    assert said.startswith(
        f"nearmetal: dashboard --port: {_told(port)} is not a whole number from 0 to 65535\n  remedy: "
    )


def _told(port: str) -> str:
    return port if port in ("-1", "65536") else repr(port)


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = refused(["--port", str(port)], monkeypatch, capsys)
    assert status == 3
    assert f"127.0.0.1:{port}: this port cannot be had: Address already in use\n" in said
    assert "remedy: name another by --port" in said


@pytest.mark.parametrize("lacking", ["starlette", "uvicorn"])
def test_a_library_that_is_lacking(
    lacking: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == lacking else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    status, said = refused([], monkeypatch, capsys)
    assert status == 3
    assert f"the dashboard is served by {lacking}" in said
    assert f"remedy: {sys.executable} -m pip install" in said
