"""Clients that do not get what the others get: which, by how much, and how consistently. Pure.

docs/workloads.md says when a client is *odd*. The sign test is exact whatever the noise is like, since equal clients
are as often above their median as below, with Holm's steps over the clients. What the others differ among themselves is
three robust standard deviations of theirs (the 1.4826-fold median of their absolute deviations): five clients that all
have their own pace are five paces, and none of them odd. The median client stands for the others as long as fewer than
half are odd.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import comb, expm1, isfinite, log1p
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from nearmetal.analysis import portable_math
from nearmetal.analysis.diagnostics import ALARM_EXPLORATORY, ALARM_PRIMARY
from nearmetal.analysis.responses import BOOT, Arm, Arms, mean
from nearmetal.model import Response, Scale, Warned
from nearmetal.study.levels import format_assignment
from nearmetal.units import show_share, show_unit

FEWEST = 3
"""Clients. Of two that differ, neither is the odd one."""
APART = 3.0
"""Robust standard deviations."""
_NORMAL = 1.4826
"""What makes the median absolute deviation of normal noise its standard deviation."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OutlierClient:
    client: int
    """From 0."""
    deviation: float
    """From the trial's median client: a share of it (-0.3 is 30 % less) on a ratio scale, else in the unit."""
    agreeing: int
    """Trials in which it deviated to this side."""
    trials: int
    p: float
    """Of the sign test, corrected for the number of clients."""


def find_outlier_clients(
    trials: Sequence[Sequence[float]], scale: Scale, margin: float, level: float
) -> tuple[OutlierClient, ...]:
    """The odd clients of a response, by number.

    `trials` has the value of each client, one row a block; rows that the scale cannot hold (a value that is not
    positive on a ratio scale, or not finite) are passed over. On a difference scale `margin` is taken of the median of
    all values. ValueError when the rows differ in length.
    """
    rows = held(trials, scale)
    if not rows or len(rows[0]) < FEWEST:
        return ()
    values = np.array(rows, dtype=np.float64)
    floor = log1p(margin) if scale == "ratio" else margin * abs(float(np.median(values)))
    if scale == "ratio":
        values = portable_math.log(values)
    deviations = values - np.median(values, axis=1, keepdims=True)
    centres = np.median(deviations, axis=0)
    evidence = _holm([_sign_p(column) for column in deviations.T])
    return tuple(
        OutlierClient(
            client=client,
            deviation=expm1(centre) if scale == "ratio" else float(centre),
            agreeing=int((np.sign(deviations[:, client]) == np.sign(centre)).sum()),
            trials=len(rows),
            p=p,
        )
        for client, (centre, p) in enumerate(zip(centres.tolist(), evidence, strict=True))
        if p <= level
        and abs(centre) > max(floor, APART * _NORMAL * float(np.median(np.abs(np.delete(centres, client)))))
    )


def held(trials: Iterable[Sequence[float]], scale: Scale) -> list[Sequence[float]]:
    """The trials that a scale can hold: all values finite and, for ratios, positive."""
    return [row for row in trials if all(isfinite(value) and (scale != "ratio" or value > 0) for value in row)]


def fewest_blocks(clients: int, level: float) -> int:
    """With fewer blocks than this none of so many clients can be odd, even if it deviates to one side in all."""
    others = [1.0] * (clients - 1)
    return next(blocks for blocks in count(1) if _holm([_sign_p(np.ones(blocks)), *others])[0] <= level)


def _sign_p(deviations: Floats) -> float:
    """Two-sided; a trial in which the client is itself the median says nothing."""
    above, below = int((deviations > 0).sum()), int((deviations < 0).sum())
    told = above + below
    ways: int = sum(comb(told, k) for k in range(max(above, below), told + 1))
    return min(1.0, 2 * ways / (1 << told))


def _holm(raw: Sequence[float]) -> list[float]:
    """S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979."""
    adjusted = [0.0] * len(raw)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(raw)), key=lambda index: raw[index])):
        largest = max(largest, min(1.0, (len(raw) - rank) * raw[index]))
        adjusted[index] = largest
    return adjusted


@dataclass(frozen=True, slots=True)
class ClientValues:
    """A response of a treatment and workload of which each client's value is known."""

    kind: Response
    """One of them: its scale and unit."""
    trials: Sequence[Sequence[float]]
    """The value of each client, one row a block, whose boot is the unit: repeats are averaged."""


def level(primary: bool) -> float:
    """At which a response's clients are tested. Nobody asked for the others, and there are many of them."""
    return ALARM_PRIMARY if primary else ALARM_EXPLORATORY


def told_by_client(arm: Arm) -> dict[str, ClientValues]:
    """By the response's name."""
    found = {}
    for name in sorted(arm.by_client):
        boots = [[record.responses.get(name) for record in replicate.records] for replicate in arm.first]
        told = [responses for one in boots if (responses := [response for response in one if response is not None])]
        trials = [clients for responses in told if (clients := _averaged(responses))]
        if len({len(clients) for clients in trials}) == 1:
            found[name] = ClientValues(told[0][0], trials)
    return found


def about_clients(arms: Arms, primaries: Mapping[str, str], margin: float) -> tuple[Warned, ...]:
    """A warning for each odd client of each treatment, workload and response."""
    return tuple(
        warning
        for (_, workload), arm in arms.items()
        if workload != BOOT  # which has the responses of all of its workloads' records, and no client of its own
        for name, told in told_by_client(arm).items()
        for warning in _about(arm, workload, name, told, margin, level(name == primaries.get(workload)))
    )


def _about(arm: Arm, workload: str, name: str, told: ClientValues, margin: float, level: float) -> Iterable[Warned]:
    kind = told.kind
    where = f"{format_assignment(arm.first[0].records[0].trial.treatment)}, {workload}"
    for odd in find_outlier_clients(told.trials, kind.scale, margin, level):
        size = show_share(abs(odd.deviation), 1) if kind.scale == "ratio" else show_unit(abs(odd.deviation), kind.unit)
        text = (
            f"{where}: {name} of client {odd.client + 1} (of 1 to {len(told.trials[0])}) was {size} "
            f"{'above' if odd.deviation > 0 else 'below'} the median client's, in {odd.agreeing} of {odd.trials} blocks"
        )
        yield Warned(code="odd-client", text=text)


def _averaged(repeats: Sequence[Response]) -> list[float]:
    """Each client's mean over the repeats of a boot, on the response's scale; none where a repeat does not tell."""
    rows = [response.by_client for response in repeats if response.by_client]
    if len(rows) != len(repeats) or len(set(map(len, rows))) != 1:
        return []
    if len(rows) == 1:
        return list(rows[0])
    columns = list(zip(*rows, strict=True))
    geometric = repeats[0].scale == "ratio" and all(value > 0 for column in columns for value in column)
    return [geometric_mean(column) if geometric else mean(column) for column in columns]
