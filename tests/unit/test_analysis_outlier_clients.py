"""Odd clients: who is flagged, with which evidence, and that equal ones seldom are."""

import numpy as np
import pytest

from nearmetal.analysis.outlier_clients import about_clients, fewest_blocks, find_outlier_clients
from nearmetal.analysis.responses import arms_of
from nearmetal.model import BootRecord, Response, TrialAddress, TrialRecord, TrialStatus

PUBLISHED = """
936.9 936.87 936.8 936.83 936.875 936.86 936.85 936.87 936.862 936.86
472.8 472.33 472.65 472.7 472.55 472.44 472.47 472.557 472.462 466.63
306.5 306.75 306.43 306.3 306.34 306.33 306.257 306.1 306.06 305.94
235.6 235.65 235.6 235.6 235.62 235.6 235.6 235.612 235.622 239.19
122.9 123.2 123.03 123.15 123.3 123.216 123.214 123.237 123.3 123.23
"""
"""Mbit/s for each of 1 to 5 clients: table 3.1 of the study of a shared network, ten repetitions."""


def noisy(rng: np.random.Generator, blocks: int, shares: list[float]) -> list[list[float]]:
    """Bandwidths of clients with these shares of the usual, with 5 % of noise and a speed of the block's own."""
    noise = rng.normal(0, 0.05, (blocks, len(shares))) + rng.normal(0, 0.3, (blocks, 1))
    return (np.array(shares) * np.exp(noise)).tolist()  # type: ignore[no-any-return]


# ── Who is flagged ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clients", [3, 5])
def test_a_third_client_that_gets_less_is_flagged_and_nobody_else(clients: int) -> None:
    shares = [1.0] * clients
    shares[2] = 0.6
    (odd,) = find_outlier_clients(noisy(np.random.default_rng(1), 10, shares), "ratio", 0.02, 0.05)
    assert (odd.client, odd.agreeing, odd.trials) == (2, 10, 10)
    assert odd.deviation == pytest.approx(-0.4, abs=0.05)
    assert odd.p == pytest.approx(clients * 2**-9)


def test_a_third_client_that_loses_datagrams_where_the_others_do_not_is_flagged() -> None:
    """As in figure 4.1 of the published study, which has no numbers: these are made up."""
    rng = np.random.default_rng(2)
    losses = rng.binomial(10_000, [0.001, 0.001, 0.2, 0.001, 0.001], (8, 5)) / 10_000
    (odd,) = find_outlier_clients(losses.tolist(), "difference", 0.02, 0.05)
    assert (odd.client, odd.agreeing) == (2, 8)
    assert odd.deviation == pytest.approx(0.2, abs=0.02)


def test_the_published_totals_single_out_five_clients() -> None:
    """One, two and four clients add up to about 940 Mbit/s, three to 2.4 % less, five to 34 % less."""
    rows = [[float(value) for value in line.split()] for line in PUBLISHED.strip().splitlines()]
    totals = np.array(rows).T * np.arange(1, 6)
    (odd,) = find_outlier_clients(totals.tolist(), "ratio", 0.02, 0.05)
    assert (odd.client, odd.agreeing, odd.trials) == (4, 10, 10)
    assert odd.deviation == pytest.approx(-0.342, abs=0.001)


@pytest.mark.parametrize(("clients", "blocks"), [(3, 7), (5, 8), (7, 9)])
def test_fewer_blocks_than_it_takes_flag_nobody_however_odd(clients: int, blocks: int) -> None:
    shares = [1.0 + 0.001 * client for client in range(clients - 1)] + [0.1]
    trials = noisy(np.random.default_rng(6), blocks, shares)
    assert fewest_blocks(clients, 0.05) == blocks
    assert [odd.client for odd in find_outlier_clients(trials, "ratio", 0.02, 0.05)] == [clients - 1]
    assert find_outlier_clients(trials[1:], "ratio", 0.02, 0.05) == ()


def test_two_of_five_can_be_odd() -> None:
    trials = noisy(np.random.default_rng(3), 12, [1.0, 1.0, 0.5, 1.0, 1.8])
    assert [odd.client for odd in find_outlier_clients(trials, "ratio", 0.02, 0.05)] == [2, 4]


# ── Who is not ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clients", [3, 4, 5, 8])
@pytest.mark.parametrize("noise", ["normal", "skewed", "heavy"])
def test_equal_clients_are_seldom_flagged(clients: int, noise: str) -> None:
    """Without any floor for the size: the sign test alone keeps the level, however the noise is distributed."""
    rng = np.random.default_rng([clients, len(noise)])
    shape = (2, 200, 20, clients)
    drawn = {
        "normal": rng.normal(0, 1, shape),
        "skewed": rng.exponential(1, shape),
        "heavy": rng.standard_cauchy(shape),
    }[noise]
    for blocks, values in zip((8, 20), drawn, strict=True):
        runs = [find_outlier_clients(trials[:blocks].tolist(), "difference", 0.0, 0.05) for trials in values]
        assert sum(map(bool, runs)) <= 0.05 * len(runs)


def test_clients_that_all_have_their_own_pace_are_not_odd() -> None:
    trials = noisy(np.random.default_rng(4), 40, [0.8, 0.9, 1.0, 1.1, 1.25])
    assert find_outlier_clients(trials, "ratio", 0.02, 0.05) == ()


def test_a_deviation_within_the_margin_is_none() -> None:
    trials = [[1.0, 1.0, 0.99, 1.0, 1.0]] * 12
    assert find_outlier_clients(trials, "ratio", 0.02, 0.05) == ()
    assert [odd.client for odd in find_outlier_clients(trials, "ratio", 0.005, 0.05)] == [2]


def test_a_client_that_is_odd_in_half_of_the_trials_is_not() -> None:
    assert find_outlier_clients([[1.0, 1.0, share, 1.0, 1.0] for share in (0.5, 1.5) * 6], "ratio", 0.02, 0.05) == ()


def test_few_trials_say_nothing() -> None:
    trials = [[1.0, 1.0, 0.1]] * 6
    assert find_outlier_clients(trials, "ratio", 0.02, 0.05) == ()
    assert len(find_outlier_clients([*trials, trials[0]], "ratio", 0.02, 0.05)) == 1


@pytest.mark.parametrize("trials", [[], [[1.0, 0.1]] * 20, [[1.0]] * 20, [[0.0, 1.0, 1.0]] * 20])
def test_what_cannot_be_compared_is_passed_over(trials: list[list[float]]) -> None:
    assert find_outlier_clients(trials, "ratio", 0.02, 0.05) == ()


# ── In a run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def record(block: int, values: list[float], repeat: int = 0) -> TrialRecord:
    return TrialRecord(
        trial=TrialAddress(
            id=f"{block}-{repeat}",
            block=block,
            attempt=0,
            position=0,
            repeat=repeat,
            treatment={"environment": "host"},
            workload="tcp",
        ),
        site="local",
        boot=BootRecord(id="x", how="boot"),
        status=TrialStatus.OK,
        responses={
            "bandwidth": Response(
                value=sum(values),
                unit="bit/s",
                better="higher",
                by_client=tuple(values) if len(values) > 1 else None,
            )
        },
    )


def test_a_run_tells_them_with_the_evidence() -> None:
    records = [record(block, [1e6, 1e6 + block, 0.7e6, 1e6 - block, 1e6]) for block in range(9)]
    (warning,) = about_clients(arms_of(records, 1), {"tcp": "bandwidth"}, 0.02)
    assert warning.code == "odd-client"
    assert warning.text == (
        "environment=host, tcp: bandwidth of client 3 (of 1 to 5) was 30.0 % below the median client's, "
        "in 9 of 9 blocks"
    )


def test_repeats_within_a_boot_are_one_trial() -> None:
    records = [record(block, [1e6, 1e6, 0.7e6], repeat) for block in range(4) for repeat in range(5)]
    assert about_clients(arms_of(records, 5), {"tcp": "bandwidth"}, 0.02) == ()


def test_one_client_is_no_subject() -> None:
    records = [record(block, [1e6]) for block in range(9)]
    assert about_clients(arms_of(records, 1), {"tcp": "bandwidth"}, 0.02) == ()
