"""What the designs that ship find: do studies of quickstart's default, and sequential ones, find what they should?

    python validation/designs.py [--quick] [--json]

Simulated studies, judged by nearmetal's own code: the plan of the shipped file gives the number of comparisons, the
level and the looks; the interval of each look decides. Boots vary by 2 %. Stalled boots run at half speed. A run goes
on until all of its comparisons are decided, each with a treatment of its own against one reference.

Goals: with quickstart's default a difference of 20 % is found in 95 % of studies or more though 5 % of boots stall; two
systems that do not differ are called different in 5.5 % of studies at most, in any of their comparisons; and a study of
four comparisons and 8 to 40 blocks, whose true differences are 3 %, takes 60 % of 40 blocks on average at most. Exit
status 1 when one is missed.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from nearmetal import studies
from nearmetal.analysis.contrasts import LOG_RESOLUTION, as_ratio, equivalence_of_ratios
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.signed_rank import Floats, signed_rank
from nearmetal.analysis.verdict_rules import judge
from nearmetal.model import Plan
from nearmetal.planning import plan as planning
from nearmetal.study.study_file import read

SPREAD = 0.02
"""Of a boot's value."""
STALLED = math.log(0.5)
MARGIN = 0.02
MOST_FALSE, LEAST_FOUND, MOST_BLOCKS = 0.055, 0.95, 0.6


@dataclass(frozen=True)
class Row:
    design: str
    true: float
    """Difference of each treatment from the reference, as a share."""
    stalled: float
    """Share of boots that run at half speed."""
    found: float
    """Share of comparisons called different."""
    any_different: float
    """Share of studies with any comparison called different."""
    equivalent: float
    blocks: float
    """Mean number of blocks that ran."""
    most: int
    kept: bool | None
    """None where nothing is promised."""


def decide(differences: Floats, plan: Plan) -> tuple[Verdict, int]:
    """The verdict of one comparison, and after how many blocks it stands."""
    tests = [(look.blocks, look.level) for look in plan.looks] or [(plan.blocks, plan.level)]
    verdict = Verdict.UNDECIDED
    for blocks, level in tests:
        found = as_ratio(signed_rank(differences[:blocks], level, LOG_RESOLUTION))
        verdict, _ = judge(found.interval, equivalence_of_ratios(MARGIN), neutral=1.0)
        if verdict is not Verdict.UNDECIDED:
            return verdict, blocks
    return verdict, tests[-1][0]


def simulate(name: str, plan: Plan, true: float, stalled: float, runs: int, goal: str | None) -> Row:
    generator = np.random.default_rng([runs, round(true * 1000), round(stalled * 1000), *name.encode()])
    comparisons = len(plan.contrasts)
    verdicts: list[Sequence[Verdict]] = []
    blocks = []
    for _ in range(runs):
        boots = generator.normal(0, SPREAD, (plan.blocks, comparisons + 1))
        boots += STALLED * (generator.random(boots.shape) < stalled)
        differences = boots[:, 1:] - boots[:, :1] + math.log1p(-true)
        decided = [decide(differences[:, number], plan) for number in range(comparisons)]
        verdicts.append([verdict for verdict, _ in decided])
        blocks.append(max(number for _, number in decided))
    found = float(np.mean([[one is Verdict.DIFFERENT for one in study] for study in verdicts]))
    any_different = float(np.mean([Verdict.DIFFERENT in study for study in verdicts]))
    equivalent = float(np.mean([[one is Verdict.EQUIVALENT for one in study] for study in verdicts]))
    mean = float(np.mean(blocks))
    kept = {
        None: None,
        "found": found >= LEAST_FOUND,
        "false": any_different <= MOST_FALSE,
        "blocks": mean <= MOST_BLOCKS * plan.blocks,
    }[goal]
    return Row(name, true, stalled, found, any_different, equivalent, mean, plan.blocks, kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 studies each instead of 2,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    runs = 200 if arguments.quick else 2_000
    text = studies.read_study_file("quickstart")
    plans = {
        name: planning.make_plan(read(text, "quickstart", [f"design.blocks={blocks}"] if blocks else []))
        for name, blocks in (
            ("quickstart", ""),
            ("its demo, 12 blocks", "12"),
            ("as before, 8 blocks", "8"),
            ("8 to 40 blocks", "{ min = 8, max = 40 }"),
        )
    }
    rows = [
        simulate("quickstart", plans["quickstart"], 0.2, 0.05, runs, "found"),
        simulate("quickstart", plans["quickstart"], 0.0, 0.0, runs, "false"),
        simulate("quickstart", plans["quickstart"], 0.0, 0.05, runs, "false"),
        simulate("quickstart", plans["quickstart"], 0.03, 0.0, runs, None),
        *(
            simulate(name, plans[name], true, stalled, runs, None)
            for name in ("its demo, 12 blocks", "as before, 8 blocks")
            for true, stalled in ((0.2, 0.05), (0.03, 0.0), (0.0, 0.0))
        ),
        simulate("8 to 40 blocks", plans["8 to 40 blocks"], 0.03, 0.0, runs, "blocks"),
    ]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, "rows": [asdict(row) for row in rows]}))
    else:
        comparisons = len(plans["quickstart"].contrasts)
        print(f"{runs} simulated studies each, {comparisons} comparisons at alpha 0.05 together")
        print(f"boots vary by {SPREAD:.0%}\n")
        print(f"{'design':<22}{'true':>6}{'stalled':>9}{'found':>8}{'any':>8}{'equiv.':>8}{'blocks':>8}{'of':>5}  kept")
        for row in rows:
            kept = {None: "-", True: "yes", False: "NO"}[row.kept]
            print(
                f"{row.design:<22}{row.true:>6.0%}{row.stalled:>9.0%}{row.found:>8.1%}{row.any_different:>8.1%}"
                f"{row.equivalent:>8.1%}{row.blocks:>8.1f}{row.most:>5}  {kept}"
            )
    return 0 if arguments.quick or all(row.kept is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
