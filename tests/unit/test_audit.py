"""What the audit says of tools that found something, found nothing, or had no data."""

import json
from pathlib import Path

import pytest

from tests import audit

SOUND = {"name": "click", "version": "8.1", "vulns": []}
VULNERABLE = {"name": "lib", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
UNKNOWN = {"name": "other", "skip_reason": "Dependency not found on PyPI: other"}

PROBE_WITHOUT_DATA = 'case "$*" in *fetch*) echo "failed to clone" >&2; exit 1;; esac'
PROBE_VULNERABLE = 'case "$*" in *check*) echo "error[vulnerability]: RUSTSEC-1" >&2; exit 4;; esac'


def make_tool(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def make_pip_audit(folder: Path, *packages: dict[str, object]) -> str:
    (folder / "found.json").write_text(json.dumps({"dependencies": packages}))
    return make_tool(folder / "pip-audit", f"cat {folder}/found.json")


@pytest.mark.parametrize(
    ("packages", "probe", "status", "printed"),
    [
        ((SOUND,), "true", 0, "of 1 Python packages"),
        ((SOUND, VULNERABLE), "true", audit.VULNERABLE, "VULNERABLE: lib 1.0: PYSEC-1, mended in 1.1"),
        ((UNKNOWN, VULNERABLE), PROBE_WITHOUT_DATA, audit.VULNERABLE, "VULNERABLE: lib 1.0"),
        ((SOUND, UNKNOWN), "true", audit.WITHOUT_DATA, "NOT AUDITED: 1 of 2 Python packages"),
        ((SOUND,), PROBE_WITHOUT_DATA, audit.WITHOUT_DATA, "NOT AUDITED: the probe's crates. failed to clone"),
        ((SOUND,), PROBE_VULNERABLE, audit.VULNERABLE, "RUSTSEC-1"),
    ],
)
def test_an_audit_fails_if_something_is_known_or_nothing_can_be(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    packages: tuple[dict[str, object], ...],
    probe: str,
    status: int,
    printed: str,
) -> None:
    tools = make_pip_audit(tmp_path, *packages), make_tool(tmp_path / "cargo-deny", probe)
    assert audit.main(*tools) == status
    assert printed in capsys.readouterr().out
    passing = 0 if status == audit.WITHOUT_DATA else status
    assert audit.main(*tools, "--passes-without-data") == passing


def test_a_tool_without_a_network_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = make_tool(tmp_path / "pip-audit", 'echo "ConnectionError: no name" >&2; exit 1')
    assert audit.main(broken, make_tool(tmp_path / "cargo-deny", "true")) == audit.WITHOUT_DATA
    assert "NOT AUDITED: the Python packages. ConnectionError: no name" in capsys.readouterr().out
