"""The probe's documents on a golden capture: the whole, each request, and one that was not answered."""

import json
from typing import Any

from .workloads_stage import golden

DOCUMENT: dict[str, Any] = json.loads(golden("trace/trace-0.json"))
LINES = [json.loads(line) for line in golden("trace/requests.jsonl").splitlines()]

WITHOUT_REPLY = {"response_first": None, "response_last": None, "flags": ["unanswered"]}
UNANSWERED = LINES[1] | WITHOUT_REPLY | {"fin": LINES[1]["request_last"] + 10**9}
