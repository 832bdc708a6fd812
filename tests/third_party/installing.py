"""Packages of somebody else's, installed beside nearmetal, and commands that find them."""

import os
import subprocess
import sys
from pathlib import Path

from tests import fork_server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def install(package: Path, target: Path) -> Path:
    """The folder that a package is in, as pip installs it; nothing is fetched."""
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *offline, "--target", target, package], check=True)
    return target


def forked_with_package(installed: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`nearmetal WORDS` with the package beside it, in a process that need not import. Its report has one picture."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])}
    ended = fork_server.run(*words, patience=280, cwd=ROOT, environment=environment, one_picture=True)
    said = (stream.decode() for stream in (ended.stdout, ended.stderr))
    return subprocess.CompletedProcess(ended.args, ended.returncode, *said)


def with_package(installed: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`python -m WORDS` with the package beside nearmetal."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
