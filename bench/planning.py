"""What planning a million trials takes, and how large its manifest is: seconds and megabytes of three shapes of study.

python bench/planning.py
"""

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from nearmetal.planning import plan as planning
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.blocks import checksum_trial_ids
from nearmetal.study.resolve import collect_plugins, resolve_treatments
from nearmetal.study.study_file import read

_STUDY = """
name = "large"
reference = {{ environment = "mock" }}
[factors]
environment = ["mock", "slow"]
{factors}
[environments.slow]
kind = "mock"
speed = 0.5
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
{parameters}
[design]
seed = 1
blocks = {blocks}
"""

SHAPES = {
    "1,000 blocks of 1,000 treatments": (1000, f"workers = {list(range(1, 501))}", 'workers = "{workers}"'),
    "8 blocks of 125,000 treatments, by placeholders": (
        8,
        f"workers = {list(range(1, 251))}\ntimeout = {[f'{number}s' for number in range(1, 251)]}",
        'workers = "{workers}"\ntimeout = "{timeout}"',
    ),
    "8 blocks of 125,000 treatments, by keys of machines": (
        8,
        f"vcpus = {list(range(1, 251))}\nmemory = {[f'{number}MiB' for number in range(64, 314)]}",
        "",
    ),
}


def main() -> None:
    for name, (blocks, factors, parameters) in SHAPES.items():
        text = _STUDY.format(blocks=blocks, factors=factors, parameters=parameters)
        began = time.process_time()
        study = read(text, "large.toml")
        was_read = time.process_time()
        resolved = resolve_treatments(study)
        plan = planning.make_plan(study, resolved=resolved)
        ids = checksum_trial_ids(plan)
        planned = time.process_time()
        with TemporaryDirectory() as place:
            folder = RunFolder(Path(place))
            folder.write_manifest(
                Manifest(
                    run="large",
                    created="2026-01-01T00:00:00Z",
                    study=study,
                    source=text,
                    plan=plan,
                    trial_ids=ids,
                    plugins=collect_plugins(resolved),
                    versions={},
                    host={},
                )
            )
            written = time.process_time()
            size = (Path(place) / "manifest.json").stat().st_size
            again = RunFolder(Path(place)).read_manifest()
            told = {
                "shape": name,
                "trials": plan.trials,
                "CPU seconds to read the study": round(was_read - began, 1),
                "CPU seconds to plan": round(planned - was_read, 1),
                "CPU seconds to write the manifest": round(written - planned, 1),
                "CPU seconds to read the manifest": round(time.process_time() - written, 1),
                "megabytes of the manifest": round(size / 1e6, 1),
            }
        assert again.plan.trials == plan.trials and again.plan.contrasts[-1] == plan.contrasts[-1]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
