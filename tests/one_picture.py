"""Reports with one picture for all charts, where nobody looks at them. As a program: `nearmetal` with such reports.

Starting the engine and drawing take two to four seconds of a CPU: half of a run that lasts a moment.
"""

import base64
import sys
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from nearmetal.report import drawing
from nearmetal.report.drawing import Begun, Picture, Spec, Undrawn

_SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1" viewBox="0 0 1 1"><path d="M0 0h1v1H0z"/></svg>'
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

COMMAND = (sys.executable, "-P", str(Path(__file__).resolve()))
"""In the place of `python -m nearmetal`."""


class OnePicture:
    """As `Drawers`; draws the same for every specification, without an engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin_drawing(self, spec: Spec, png: bool) -> Begun:
        begun = Future[Picture | Undrawn]()
        begun.set_result(Picture(_SVG, _PNG if png else b""))
        return begun


def _main() -> None:
    # Before what writes reports is imported, as it is when a command first needs it.
    drawing.Drawers = OnePicture  # type: ignore[assignment,misc]
    from nearmetal import __main__

    __main__.main()


if __name__ == "__main__":
    _main()
