"""nearmetal: what does this way of virtualizing cost me, for this workload, and can I trust the answer?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from nearmetal.opened_run import Run

__version__ = "0.1.0"

__all__ = ["__version__", "open_run"]


def open_run(path: "str | Path") -> "Run":
    """A run as data: its trials, blocks and contrasts as tables. BadInput when the folder cannot be read.

    >>> run = nearmetal.open_run("runs/quickstart")        # doctest: +SKIP
    >>> run.contrasts()                                    # doctest: +SKIP
    """
    from nearmetal.opened_run import Run

    return Run(path)
