"""What one types who works in machines by hand: the command line, in a process of its own."""

import json
import subprocess
import sys
from typing import Any

from tests import fork_server


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "nearmetal", *words]


def nearmetal(*words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return fork_server.run(*words, given=given, patience=240)


def done(*words: str, given: bytes = b"") -> bytes:
    ended = nearmetal(*words, given=given)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def up(kind: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done("up", kind, "--name", "m", "--json"))
    if kind == "qemu":
        assert told["machine"]["accel"] in ("tcg", "kvm"), "what runs it, not that it was left open"
    return told
