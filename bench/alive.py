"""What being alive costs: what a trial spends, outside its measurement, on asking what has died or was cut.

    sudo python bench/alive.py                 of `mock`, `host` and `docker`, a line each
    sudo python bench/alive.py qemu --trials 5

Each environment is the only treatment of a study whose trials share one boot. `phases_ns` of records has the time:
`alive` of what is asked around the measurement, `check` of what is read back then (settings, link, neighbours).
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from nearmetal.errors import NearmetalError
from nearmetal.model import TrialStatus

STUDY = """
name = "alive"
[environments.it]
kind = "{kind}"
[factors]
environment = ["it"]
[clients]
environment = "{clients}"
[machine]
memory = "256MiB"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
blocks = 1
share_boot = true
repeats = {trials}
"""


async def measure(kind: str, trials: int) -> dict[str, list[float]]:
    """Milliseconds of each trial."""
    from nearmetal.run import study_execution
    from nearmetal.store.journal import read_records
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.study.study_file import read

    text = STUDY.format(kind=kind, clients="mock" if kind == "mock" else "host", trials=trials)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        request = study_execution.RunRequest(read(text, "alive.toml"), text, (), False, folder, available=False)
        await study_execution.start_run(request, lambda said: None, ())
        counted = [one for one in read_records(RunFolder(folder).journal) if one.status is TrialStatus.OK]
    return {name: [one.phases_ns[name] / 1e6 for one in counted] for name in ("alive", "check")}


def show(kind: str, found: dict[str, list[float]]) -> str:
    words = [
        f"{name} {statistics.median(values):6.1f} ms ({min(values):.1f} to {max(values):.1f})"
        for name, values in found.items()
        if values
    ]
    return f"{kind:8} {len(found['alive']):3} trials   {'   '.join(words)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", default=["mock", "host", "docker"])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for kind in given.kind:
        try:
            found = asyncio.run(measure(kind, given.trials))
        except NearmetalError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        print(json.dumps({"kind": kind, "load": os.getloadavg()[0], **found}) if given.json else show(kind, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
