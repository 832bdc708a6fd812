"""The command line that measurements in rounds have in common: --rounds, --json, and an error in one line."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from nearmetal.errors import NearmetalError

T = TypeVar("T")


def main(description: str | None, measure: Callable[[int], Coroutine[Any, Any, T]], shown: Callable[[T], str]) -> int:
    """Measure as many rounds as the command line says and print what was found; the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        found = asyncio.run(measure(given.rounds))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(found, indent=1) if given.json else shown(found))
    return 0
