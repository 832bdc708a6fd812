"""What a study measures, as one digest: the same whatever its number of blocks and its conclusions. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nearmetal.model import Study

_ABOUT_THE_NUMBER = ("blocks", "seed", "margin", "alpha", "repeats", "detect", "precision", "power")
"""Keys of [design] that change no trial: only how many there are, or what is concluded."""

_ABOUT_CONCLUSIONS: Mapping[str, Any] = {
    "question": True,
    "design": set(_ABOUT_THE_NUMBER),
    "workloads": {"__all__": {"headlines"}},
}


def digest_measurement(study: Study) -> str:
    """sha256 of what a study measures: the same however many blocks and repeats it has, and whatever it concludes."""
    document = study.model_dump(mode="json", exclude=_ABOUT_CONCLUSIONS)
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
