"""A contrast as an analysis has it, for tests of what is told and drawn of it."""

from typing import Any

from nearmetal.analysis.results import Contrast, Verdict


def contrast(**changes: Any) -> Contrast:
    plain: dict[str, Any] = {
        "workload": "web",
        "response": "throughput",
        "unit": "1/s",
        "scale": "ratio",
        "better": "higher",
        "primary": True,
        "treatment": {"environment": "docker"},
        "reference": {"environment": "host"},
        "blocks": 8,
        "level": 0.0125,
        "ratio": 0.97,
        "interval": (0.95, 0.99),
        "p": 0.0078,
        "verdict": Verdict.DIFFERENT,
    }
    return Contrast.model_validate({**plain, **changes})
