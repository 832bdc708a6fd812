"""Whether a boot does something to the next one: a response that depends on which treatment ran before. Pure.

Treatments and blocks are taken out of the values. What is left is gathered by the treatment that ran just before in the
block, and the squares of these sums, each over its number, are added up. What a block has of its own stays where it is:
the values of whole blocks are exchanged, since without an effect the order in which a block ran tells nothing of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nearmetal.analysis import portable_math
from nearmetal.analysis.responses import Arm, Arms, Key
from nearmetal.analysis.results import Contrast
from nearmetal.model import Scale, Warned

ALARM = 0.01
"""How often it is warned of where there is nothing: once for each primary response of a workload."""
FEWEST = 6
"""Blocks below which nothing is said."""
NONE = -1
"""In the place of a predecessor: the first boot of a block has none."""
_SHUFFLES = 999
_ENOUGH = 10
"""Shuffles that weigh as much as what was seen, from which on p is above ALARM whatever the others say; most runs are
done after twenty. p is then their share: J. Besag and P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78,
1991."""

_Attempt = tuple[int, int]
"""Block and attempt."""


class CarryoverEffects:
    """Of one run: tested once for each workload and primary response, told at each of their contrasts."""

    def __init__(self, arms: Arms) -> None:
        self._treatments = {key: number for number, key in enumerate(dict.fromkeys(key for key, _ in arms))}
        self._by_workload: dict[str, list[tuple[Key, Arm]]] = defaultdict(list)
        for (key, workload), arm in arms.items():
            self._by_workload[workload].append((key, arm))
        self._before = self._find_predecessors(arms)
        self._known: dict[tuple[str, str], float] = {}

    def about(self, contrast: Contrast, title: str) -> tuple[Warned, ...]:
        """A warning if a primary contrast's response depends on which treatment ran before; people call it `title`."""
        if not contrast.primary:
            return ()
        at = contrast.workload, contrast.response
        if at not in self._known:
            self._known[at] = self._find_p(*at, contrast.scale)
        if self._known[at] > ALARM:
            return ()
        text = f"{title} depends on which treatment ran before in the block: something is carried over"
        return (Warned(code="predecessor", text=text),)

    def _find_predecessors(self, arms: Arms) -> Mapping[tuple[Key, str], Mapping[_Attempt, int]]:
        """By arm and attempt the treatment of the boot before, whatever it ran; boots without a record are none."""
        boots: dict[_Attempt, dict[str, tuple[float, int]]] = defaultdict(dict)
        named: list[tuple[tuple[Key, str], _Attempt, str]] = []
        for arm, of in arms.items():
            for one in of.replicates:
                if (boot := one.records[0].boot) is not None:
                    at = one.block, one.attempt
                    position, _ = boots[at].get(boot.id, (one.position, 0))
                    boots[at][boot.id] = min(position, one.position), self._treatments[arm[0]]
                    named.append((arm, at, boot.id))
        before = {}
        for at, found in boots.items():
            last = NONE
            for name, (_, treatment) in sorted(found.items(), key=lambda boot: boot[1]):
                before[at, name] = last
                last = treatment
        by_arm: dict[tuple[Key, str], dict[_Attempt, int]] = defaultdict(dict)
        for arm, at, name in named:
            by_arm[arm][at] = before[at, name]
        return by_arm

    def _find_p(self, workload: str, response: str, scale: Scale) -> float:
        """1 where too little is known: three treatments at least, and FEWEST blocks that all of them have."""
        befores = [self._before.get((key, workload), {}) for key, _ in self._by_workload[workload]]
        arms = [
            {
                at: value.value
                for one in arm.first
                if (at := (one.block, one.attempt)) in before
                and (value := one.values.get(response)) is not None
                and value.problem is None
            }
            for before, (_, arm) in zip(befores, self._by_workload[workload], strict=True)
        ]
        shared = sorted(set.intersection(*map(set, arms))) if len(arms) > 2 else []
        if len(shared) < FEWEST:
            return 1.0
        values = np.array([[arm[at] for arm in arms] for at in shared])
        if scale == "ratio":
            values = portable_math.log(values)
        return find_carryover_p(values, [[before[at] for before in befores] for at in shared])


def find_carryover_p(values: NDArray[np.float64], before: Sequence[Sequence[int]]) -> float:
    """p that values (blocks x treatments) do not depend on their predecessors: of 999 shuffles at most."""
    left = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()
    named = np.array(before).ravel() + 1  # 0 for those without a predecessor
    counts = np.bincount(named)[1:]
    if not counts.any():
        return 1.0
    generator = np.random.default_rng(values.shape)

    def weigh(residuals: NDArray[np.float64]) -> float:
        sums = np.bincount(named, residuals.ravel())[1:]
        return float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())

    seen = weigh(left) * (1 - 1e-9)
    more = 0
    for number in range(1, _SHUFFLES + 1):
        more += weigh(left[generator.permutation(len(left))]) >= seen
        if more == _ENOUGH:
            return more / number
    return (more + 1) / (_SHUFFLES + 1)
