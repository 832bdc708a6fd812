"""A dashboard in a process of its own, and a browser's part of the talk with it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema

from nearmetal import schemas

PATIENCE = 60.0
"""Seconds for an answer, or for the process to end."""


@dataclass
class Dashboard:
    """`cookie` is what a browser sends, once `enter` has been called."""

    url: str
    process: "subprocess.Popen[str]"
    cookie: str = ""
    connections: list[HTTPConnection] = field(default_factory=list)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def token(self) -> str:
        return urlsplit(self.url).query.removeprefix("token=")

    def ask(self, path: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.connections.append(connection)
        own = {"Cookie": self.cookie} if self.cookie else {}
        connection.request("GET", path, headers={**own, **(headers or {})})
        return connection.getresponse()

    def order(self, path: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
        """As the page itself asks a run for something."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.connections.append(connection)
        own = {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}"}
        connection.request("POST", path, headers={**own, **(headers or {})})
        return connection.getresponse()

    def enter(self) -> None:
        answer = self.ask(f"/?token={self.token}")
        assert answer.status == 200
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def page(self, path: str) -> str:
        answer = self.ask(path)
        if answer.status == 303:
            return self.page(answer.headers["Location"])
        assert answer.status == 200, answer.status
        return answer.read().decode()

    def told(self, path: str) -> Iterator[dict[str, str]]:
        """Parts of the page as they are pushed."""
        answer = self.ask(path)
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        while line := answer.readline():
            if line == b"event: beat\n":
                answer.readline()  # which says that there is nothing new
            elif line.startswith(b"data: "):
                yield json.loads(line[6:])

    def until(self, path: str, part: str, word: str) -> str:
        """Wait for a part that has a word in it."""
        return next(parts[part] for parts in self.told(path) if word in parts.get(part, ""))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def dashboard(*words: str, cwd: Path | None = None) -> Iterator[Dashboard]:
    """Serving, and entered."""
    command = [sys.executable, "-m", "nearmetal", "dashboard", "--json", *words]
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            said: dict[str, Any] = json.loads(process.stdout.readline() or process.stderr.read())
            jsonschema.validate(said, schemas.list_documents()["dashboard.v1"])
            assert said["process"] == process.pid
            served = Dashboard(said["url"], process)
            served.enter()
            yield served
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        for connection in served.connections:
            connection.close()
