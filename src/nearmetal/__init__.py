"""nearmetal: what does this way of virtualizing cost me, for this workload, and can I trust the answer?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from nearmetal.opened_run import Run

__version__ = "0.1.0"

__all__ = ["__version__", "open_run", "run_study"]


def open_run(path: "str | Path") -> "Run":
    """A run as data: its trials, blocks and contrasts as tables. BadInput when the folder cannot be read.

    >>> run = nearmetal.open_run("runs/quickstart")        # doctest: +SKIP
    >>> run.contrasts()                                    # doctest: +SKIP
    """
    from nearmetal.opened_run import Run

    return Run(path)


def run_study(
    study: "str | Path | Mapping[str, Any]",
    output: "str | Path | None" = None,
    *,
    blocks: int | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> "Run":
    """Measure a study, as `nearmetal run` does, and return the run as data.

    `study` is a file, the name of a built-in study, or a mapping with the keys of a study file, which names files as
    seen from the current folder. `output` is a new folder for the run; without it the run lies where those of the
    command line lie. `blocks` and `seed` go over the study's own; `quick` takes the study's quick variant.

    It returns when the last trial has ended, prints nothing, and writes no report. A failed trial raises nothing: it
    is in `trials()`. After Ctrl-C everything is put right, and KeyboardInterrupt is raised; `nearmetal resume` goes on.
    BadInput if the study is none; HostCannot if this host cannot measure it, or if an event loop runs already. Both are
    of `nearmetal.errors.NearmetalError`.

    >>> run = nearmetal.run_study("quickstart", blocks=8, seed=1)        # doctest: +SKIP
    >>> run.contrasts()                                                  # doctest: +SKIP
    """
    from nearmetal.measured_study import run_study as run

    return run(study, output, blocks, seed, quick)
