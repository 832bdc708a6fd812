"""An analysis as the `summary.v1` object that scripts read: the last line of `nearmetal run --json`."""

from typing import Any

from nearmetal.analysis.results import Analysis, Contrast


def summary(analysis: Analysis, run: str, study: str) -> dict[str, Any]:
    """Plain JSON values. `run` is the run's folder, `study` the study's name."""
    return {
        "schema": "summary.v1",
        "run": run,
        "study": study,
        "trials": analysis.trials.model_dump(mode="json"),
        "contrasts": [_contrast(contrast) for contrast in analysis.contrasts],
        "warnings": [warning.model_dump(mode="json") for warning in analysis.warnings],
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return contrast.model_dump(mode="json", exclude={"pairs"})
