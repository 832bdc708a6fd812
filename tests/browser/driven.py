"""A browser that is told what to do, step by step, as somebody at its keyboard would: by Chromium's own protocol."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.browser.chromium import CHROMIUM, QUIET

_PATIENCE = 60.0
"""Seconds for something to appear."""
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Home": 36,
    "End": 35,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
"""By their codes."""


@dataclass
class Page:
    """A tab. What is evaluated is JavaScript, and what comes back its value."""

    _say: IO[bytes]
    _hear: IO[bytes]
    _session: str | None = None
    _count: int = 0

    def call(self, method: str, **given: object) -> dict[str, Any]:
        """A method of the protocol's, and its result."""
        self._count += 1
        session = {} if self._session is None else {"sessionId": self._session}
        self._say.write(json.dumps({"id": self._count, "method": method, "params": given, **session}).encode() + b"\0")
        self._say.flush()
        while True:
            answer = json.loads(self._heard())
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _heard(self) -> bytes:
        found = bytearray()
        while (byte := self._hear.read(1)) != b"\0":
            assert byte, "the browser has ended"
            found += byte
        return bytes(found)

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def wide(self, width: int, height: int = 1000) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700
        )

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until it is true. While a page is left for another one it is not."""
        end = time.monotonic() + _PATIENCE
        while not self.value(f"(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()"):
            assert time.monotonic() < end, (expression, self.value("document.documentElement.outerHTML"))
            time.sleep(0.05)

    def press(self, key: str) -> None:
        named = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """With a new, empty profile; it ends when it is left."""
    its_in, our_out = os.pipe()
    our_in, its_out = os.pipe()
    words = (*QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank")
    # It speaks on its descriptors 3 and 4.
    command = ["bash", "-c", f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}', str(CHROMIUM), *words]
    with (
        os.fdopen(our_out, "wb") as say,
        os.fdopen(our_in, "rb") as hear,
        subprocess.Popen(command, pass_fds=(its_in, its_out), stderr=subprocess.DEVNULL) as process,
    ):
        os.close(its_in)
        os.close(its_out)
        page = Page(say, hear)
        try:
            page.attach()
            yield page
        finally:
            process.terminate()
            process.wait(_PATIENCE)
