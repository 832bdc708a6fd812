"""Whoever needs asyncssh has it without a search for libraries of C, which leaves a file when it is killed."""

import ctypes.util
import re
import subprocess
import sys
from pathlib import Path

import nearmetal
from nearmetal.lab import ssh_library

_IMPORT = """
import tempfile
def refuse(*given, **named): raise AssertionError("a temporary file")
tempfile.NamedTemporaryFile = refuse
from nearmetal.lab.ssh_library import asyncssh
"""


def test_it_makes_no_temporary_file() -> None:
    subprocess.run([sys.executable, "-c", _IMPORT], check=True)
    assert ssh_library.asyncssh.__name__ == "asyncssh"
    assert ctypes.util.find_library("c"), "others search as before"


def test_nobody_else_imports_it() -> None:
    files = Path(nearmetal.__file__).parent.rglob("*.py")
    found = [file for file in files if re.search(r"^\s*(import|from) asyncssh", file.read_text(), re.MULTILINE)]
    assert [file.name for file in found] == ["ssh_library.py"]
