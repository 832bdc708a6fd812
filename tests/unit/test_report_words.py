"""What the report says: the right words for a result, with as many digits as it has."""

import re

import pytest
from hypothesis import given, strategies
from rich.console import Console

from nearmetal.analysis.results import Analysis, LastLook, Pair, Verdict
from nearmetal.console.manual import read_entries
from nearmetal.model import Level, ResponseKind, TrialCounts, Warned
from nearmetal.report import figures, table_values, terminal, words
from nearmetal.report.words import Labels
from nearmetal.workloads import ping
from tests.contrast_examples import contrast

LABELS = Labels.from_treatments([{"environment": "host"}, {"environment": "docker"}])


def test_a_contrast_in_plain_words() -> None:
    assert words.write_sentence(contrast(), LABELS) == "docker carries 0.97 × the requests of host (0.95 to 0.99)"
    assert words.small_print(contrast()) == "98.75 % interval, p = 0.0078, 8 blocks"


def test_what_an_early_verdict_leaves_out() -> None:
    last = LastLook(look=6, blocks=40, estimate=0.985, interval=(0.98, 0.99))
    early = contrast(look=1, adjusted=0.98, last_look=last)
    assert words.list_looks(early) == [
        "decided at look 1",
        "0.98 × corrected for the looks",
        "0.985 × (0.980 to 0.990) in all 40 blocks",
    ]
    assert words.list_looks(contrast(look=1, adjusted=0.9701)) == ["decided at look 1"]
    assert words.list_looks(contrast(verdict=Verdict.UNDECIDED, look=2)) == []


def test_an_open_contrast_says_that_looks_are_futile() -> None:
    open_one = contrast(verdict=Verdict.UNDECIDED, look=4, is_futile=True, needs=310)
    assert words.list_degrees(open_one) == [
        "the blocks left would hardly decide it",
        "about 310 blocks would decide it",
    ]


def test_a_response_nobody_knows_keeps_its_own_name() -> None:
    said = words.write_sentence(contrast(response="frames_per_second"), LABELS)
    assert said == "docker has 0.97 × the frames per second of host (0.95 to 0.99)"


def labels_with(kind: ResponseKind, response: str = "frames_per_second") -> Labels:
    return Labels.from_treatments(
        [{"environment": "host"}, {"environment": "docker"}], {(contrast().workload, response): kind}
    )


def test_a_response_is_called_as_its_workload_calls_it() -> None:
    kind = ResponseKind(
        unit="1/s", better="higher", title="frame rate", clause="draws {ratio} × the frames of {reference}"
    )
    labels = labels_with(kind)
    assert labels.name_response(contrast().workload, "frames_per_second") == "frame rate"
    said = words.write_sentence(contrast(response="frames_per_second"), labels)
    assert said == "docker draws 0.97 × the frames of host (0.95 to 0.99)"
    assert labels.name_response("another", "frames_per_second") == "frames per second"


def test_a_title_without_a_clause_stands_in_the_usual_one() -> None:
    labels = labels_with(ResponseKind(unit="1/s", better="higher", title="frame rate"))
    said = words.write_sentence(contrast(response="frames_per_second"), labels)
    assert said == "docker has 0.97 × the frame rate of host (0.95 to 0.99)"


def test_a_name_that_another_workload_made_known_says_nothing_of_this_one() -> None:
    labels = labels_with(ResponseKind(unit="1/s", better="higher"), "throughput")
    assert words.write_sentence(contrast(response="throughput"), labels).startswith(
        "docker has 0.97 × the throughput of host"
    )


@pytest.mark.parametrize("clause", ["{0} {ratio.__class__} {", "{ratio!r:>99} }{", "\x1b[31m{nothing}"])
def test_a_clause_that_is_no_clause_breaks_no_report(clause: str) -> None:
    said = words.write_sentence(
        contrast(response="frames_per_second"), labels_with(ResponseKind(unit="", better="higher", clause=clause))
    )
    assert said.startswith("docker ") and "\x1b" not in said


@pytest.mark.parametrize("name", ping.RESPONSES)
def test_each_response_of_a_round_trip_has_words(name: str) -> None:
    assert not re.search("rtt|p50|p99|forward|backward", words.write_sentence(contrast(response=name), LABELS))


def test_a_round_trip_in_plain_words() -> None:
    said = words.write_sentence(contrast(response="rtt_p50"), LABELS)
    assert said == "docker takes 0.97 × as long as host there and back (0.95 to 0.99)"
    assert words.name_response("rtt_p99") == "99th percentile of round trips"


@pytest.mark.parametrize(
    ("response", "bounds", "remedy"),
    [
        ("saturation", ("right", None), "; raise `to` of the ramp"),
        ("saturation", (None, "left"), "; lower `from` of the ramp"),
        ("saturation", ("left", "right"), "; lower `from` and raise `to` of the ramp"),
        ("saturation", ("both", None), "; lower `from` and raise `to` of the ramp"),
        ("saturation", (None, None), ""),
        ("elapsed", ("right", None), ""),
    ],
)
def test_a_ramp_that_did_not_find_the_end_is_told_with_what_to_change(
    response: str, bounds: tuple[str | None, str | None], remedy: str
) -> None:
    pair = Pair(0, 0, 60, 60, *bounds)  # type: ignore[arg-type]
    found = contrast(response=response, reason="censored", pairs=(pair,))
    assert words.explain_undecided(found) == f"a value is only known to lie beyond what was tried{remedy}"
    gave_out = found.model_copy(update={"warnings": (Warned(code="generator-gave-out", text="it did"),)})
    assert words.explain_undecided(gave_out) == words.explain_undecided(found).replace("`to`", "`threads`")


def test_a_difference_in_plain_words() -> None:
    found = contrast(
        response="errors", unit="share", scale="difference", ratio=None, difference=0.002, interval=(0.001, 0.003)
    )
    assert words.write_sentence(found, LABELS) == "docker differs from host in errors by +0.2 points (+0.1 to +0.3)"


def test_nothing_to_go_by_is_said_plainly() -> None:
    found = contrast(ratio=None, interval=None, p=None, verdict=Verdict.UNDECIDED, reason="no-blocks", blocks=0)
    assert words.write_sentence(found, LABELS) == "docker cannot be compared with host in throughput"
    assert words.small_print(found) == "0 blocks, no block has a good trial of both"
    assert words.format_estimate(found) == "no estimate"


@pytest.mark.parametrize(
    ("changes", "text", "tone"),
    [
        ({}, "different, worse", "worse"),
        ({"better": "lower"}, "different, better", "better"),
        ({"ratio": 1.2}, "different, better", "better"),
        ({"verdict": Verdict.EQUIVALENT}, "equivalent", "same"),
        ({"verdict": Verdict.UNDECIDED}, "undecided", "unknown"),
        ({"scale": "difference", "ratio": None, "difference": 2.0, "better": "lower"}, "different, worse", "worse"),
        ({"scale": "difference", "ratio": None, "difference": -2.0, "better": "lower"}, "different, better", "better"),
        ({"primary": False}, "different, worse", "plain"),
    ],
)
def test_a_verdict_says_better_or_worse_only_where_there_is_a_difference(
    changes: dict[str, object], text: str, tone: str
) -> None:
    badge = words.badge_verdict(contrast(**changes))
    assert (badge.text, badge.tone) == (text, tone)


def test_treatments_are_named_by_what_tells_them_apart() -> None:
    host: dict[str, Level] = {"environment": "host", "offload": True, "workers": 4}
    e1000: dict[str, Level] = {"environment": "qemu", "offload": True, "workers": 4, "nic": "e1000"}
    virtio: dict[str, Level] = {**e1000, "nic": "virtio-net"}
    labels = Labels.from_treatments([host, {**host, "offload": False}, e1000, virtio])
    assert labels.name_treatment(e1000) == "qemu, offload on, nic e1000"
    against_host = contrast(treatment=e1000, reference=host)
    assert labels.name_sides(against_host) == ("qemu, nic e1000", "host", "offload on")
    offload = contrast(treatment={**host, "offload": False}, reference=host)
    assert labels.name_versus(offload) == "offload off vs offload on (host)"


def test_true_and_one_are_different_levels() -> None:
    labels = Labels.from_treatments([{"environment": "host", "x": True}, {"environment": "host", "x": 1}])
    assert labels.telling == ("environment", "x")


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.97, (0.95, 0.99), "0.97 × (0.95 to 0.99)"),
        (0.9703, (0.9652, 0.9811), "0.970 × (0.965 to 0.981)"),
        (0.1, (0.0987, 0.1012), "0.100 × (0.099 to 0.101)"),
        (8.34, (6.65, 9.49), "8.3 × (6.7 to 9.5)"),
        (0.69, (0.55, 1.204), "0.69 × (0.55 to 1.20)"),
        (9.99, (9.91, 10.1), "9.99 × (9.91 to 10.10)"),
        (12.34, (11.0, 14.0), "12.3 × (11.0 to 14.0)"),
        (10.7, (9.8, 12.2), "10.7 × (9.8 to 12.2)"),
        (1.08, (0.88, 1.34), "1.08 × (0.88 to 1.34)"),
        (9.5, (9.2, 9.8), "9.5 × (9.2 to 9.8)"),
        (1234.5, (1100.2, 1400.0), "1,234 × (1,100 to 1,400)"),
        # No more than anyone can use, however narrow the interval.
        (6.9965, (6.9948, 6.9965), "6.997 × (6.995 to 6.997)"),
        (0.70001, (0.7, 0.70001), "0.700 × (0.700 to 0.700)"),
        (0.0000412, (0.0000301, 0.0000504), "0.000041 × (0.000030 to 0.000050)"),
        # No end is written as 1, or 0, that is not.
        (1.04, (1.0013, 1.06), "1.040 × (1.001 to 1.060)"),
        (1.04, (1.0, 1.06), "1.04 × (1.00 to 1.06)"),
        (1.00023, (1.00011, 1.00035), "1.0002 × (1.0001 to 1.0004)"),
        (1.00006, (1.00002, 1.00044), "1.00006 × (1.00002 to 1.00044)"),
        (1.001, (1.00002, 1.0034), "1.00100 × (1.00002 to 1.00340)"),
        (0.98, (0.93, 0.999997), "0.980000 × (0.930000 to 0.999997)"),
        (1.0000002, (1.0000001, 1.0000004), "1.0000002 × (1.0000001 to 1.0000004)"),
        (0.3, (0.04, 2.0), "0.30 × (0.04 to 2.00)"),
        (1.0, (1.0, 1.0), "1.000 × (1.000 to 1.000)"),
        # Nor where the interval spans more than anyone can write with one number of decimals.
        (0.4623, (0.0314, 2589.4), "0.46 × (0.031 to 2,589)"),
        (0.06, (4.9e-9, 17.44), "0.06 × (4.9e-09 to 17.44)"),
        (3e-7, (2e-8, 50000.0), "3e-07 × (2e-08 to 50,000)"),
        (0.5, (0.0, 17.44), "0.5 × (unbounded to 17.4)"),
        (0.5, None, "0.50 ×"),
        (2.834, None, "2.83 ×"),
        (60.52, None, "60.5 ×"),
        (1e300, None, "1e+300 ×"),
        (5e-324, None, "4.94e-324 ×"),
    ],
)
def test_a_ratio_and_its_interval_have_the_digits_that_the_interval_deserves(
    value: float, spread: tuple[float, float] | None, text: str
) -> None:
    assert words.format_estimate(contrast(ratio=value, interval=spread)) == text


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        ((0.9788, 1.0246), "1.000 × (0.979 to 1.025)"),
        ((0.9810, 1.0150), "1.000 × (0.981 to 1.015)"),
        ((0.9912, 1.0089), "1.000 × (0.991 to 1.009)"),
        ((0.95, 1.09), "1.00 × (0.95 to 1.09)"),
        ((0.98, 1.03), "1.00 × (0.98 to 1.03)"),
        ((0.979996, 0.9996), "1.0000 × (0.9800 to 0.9996)"),  # of 1 rather than of the margin, if not of both
    ],
)
def test_an_interval_tells_on_which_side_of_the_margin_it_ends(spread: tuple[float, float], text: str) -> None:
    bounds = (0.98, 1 / 0.98)
    assert words.format_estimate(contrast(ratio=1.0, interval=spread, equivalence=bounds)) == text
    assert text.partition("(")[2].rstrip(")") in words.write_sentence(
        contrast(ratio=1.0, interval=spread, equivalence=bounds), words.Labels(("environment",))
    )


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (3.70213, (1.00007, 10.3333), "3.70 × (1.00007 to 10.33)"),
        (3.70213, (0.99993, 10.3333), "3.70 × (0.99993 to 10.33)"),
        (1.0002, (1.00000036, 1.0011), "1.0002 × (1.0000004 to 1.001)"),
        (1.00002, (1.00000038, 1.00047), "1.00002 × (1.0000004 to 1.0005)"),
        (0.99983, (0.99964, 0.99999994), "0.9998 × (0.9996 to 0.99999994)"),
        (1.00000001, (0.9, 1.2), "1.00 × (0.90 to 1.20)"),  # an estimate tells nothing that its interval does not
        (2.0, (1.0, 10.3333), "2.0 × (1.0 to 10.3)"),
    ],
)
def test_an_end_that_lies_beyond_1_is_written_so(value: float, spread: tuple[float, float], text: str) -> None:
    assert words.format_size(value, spread, "ratio", "") == text


@pytest.mark.parametrize(
    ("level", "text"), [(0.05, "95 %"), (0.05 / 4, "98.75 %"), (0.05 / 18, "99.72 %"), (0.001 / 20, "99.995 %")]
)
def test_no_interval_is_at_all_of_100_percent(level: float, text: str) -> None:
    assert figures.format_percent(1 - level) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(44_820.3, "44,820"), (1234.5, "1,234"), (12.3456, "12.35"), (0.00025, "0.00025"), (0.00002, "< 0.0001")],
)
def test_plain_numbers_of_a_table_have_no_exponent(value: float, text: str) -> None:
    assert table_values.show_value(value) == text
    assert float(table_values.write_value(value)) == value


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "not a number"), (float("inf"), "unbounded")])
def test_what_is_no_number_is_said_in_words(value: float, text: str) -> None:
    assert figures.format_ratio(value) == text
    assert figures.format_interval(1.0, (0.5, value)) == f"0.50 to {text}"


@given(
    value=strategies.floats(min_value=1e-12, max_value=1e12),
    below=strategies.floats(min_value=1e-9, max_value=1),
    above=strategies.floats(min_value=1, max_value=1e9),
)
def test_an_interval_has_two_digits_of_its_width_at_most_unless_it_ends_beside_0_or_1(
    value: float, below: float, above: float
) -> None:
    low, high = value * below, value * above
    said = figures.format_interval(value, (low, high))
    written = said.split(" to ")
    assert not {end for end in written if not float(end.replace(",", ""))}
    # An end that is small beyond all proportion has two digits, and one that is hard by 1 tells its side, whatever the
    # other has.
    of_low, of_high = (len(end.partition(".")[2]) for end in written)
    is_usual = of_low == of_high or round(low, of_high) in (0, 1)
    assert is_usual or round(high, of_low) == 1
    places = of_high if is_usual else of_low
    width = (high - low) * 10**places
    coarser = [round(end, places - 1) for end in (low, high)]
    assert places == 0 or width < 100 * (1 + 1e-9) or {0.0, 1.0} & set(coarser)


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([39.0, 37.47], 2),
        ([17.0, 39.0], 0),
        ([112.0, 45.75], 1),
        ([2400.0, 0.5], 2),
        ([2400.5, 1800.0], 0),
        ([1.0, 0.0, 0.00004], 3),
        ([0.0], 0),
        ([], 0),
    ],
)
def test_rates_below_each_other_have_one_precision(values: list[float], decimals: int) -> None:
    assert figures.common_decimals(values) == decimals
    assert figures.format_quantity(1037.0, "1/s", 2) == "1,037.00/s"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12345.6, "1/s", "12,346/s"),
        (9992.0, "", "9,992"),
        (96_512.4, "", "96,512"),
        (96_512_400.0, "", "96.5 M"),
        (0.0012, "s", "1.2 ms"),
        (37.4e-6, "s", "37.4 µs"),
        (512 * 2**20, "B", "512 MiB"),
        (0.021, "share", "2.1 %"),
        (float("inf"), "1/s", "without limit"),
        (1e300, "1/s", "1e+300/s"),
        (-1.7e308, "", "−1.7e+308"),
        (1e300, "B", "1e+300 B"),
        (1e308, "share", "1e+308 share"),
    ],
)
def test_quantities_have_a_unit_that_fits(value: float, unit: str, text: str) -> None:
    assert figures.format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "spread", "unit", "text"),
    [
        (6_239_027.2, (6_060_769.3, 6_459_228.2), "B", "+6.0 MiB (+5.8 to +6.2)"),
        (0.0, (0.0, 0.0), "share", "0 points (0 to 0)"),
        (-0.5, None, "s", "−500 ms"),
        (float("inf"), (0.001, float("inf")), "share", "unbounded (+0.1 to unbounded)"),
        (-979e-6, (-1.104e-3, -835e-6), "s", "−979 µs (−1,104 to −835)"),
        (3.4, (3.27, 3.55), "", "+3.4 (+3.3 to +3.5)"),
        (3.0, (0.04, 6.1), "", "+3.00 (+0.04 to +6.10)"),
        (0.0, (-0.00025, 0.0005), "", "0 (−0.0003 to +0.0005)"),
        (-1.0, (-1.0, -1.0), "", "−1 (−1 to −1)"),
        (-3.8e-6, (-2.76e-5, 3.5e-5), "share", "−0.0004 points (−0.0028 to +0.0035)"),
        (0.4623, (0.0314, 2589.4), "", "+0.46 (+0.031 to +2,589)"),
        (-6.0, (-17.4, -4.9e-9), "", "−6.0 (−17.4 to −4.9e−09)"),
        (1e-9, (-17.4, 17.4), "", "0 (−17 to +17)"),
        (float("nan"), None, "", "+nan"),
        (1e308, (9e307, 1.5e308), "", "+1e+308 (+9e+307 to +1.5e+308)"),
        (-1e200, (-1e300, 0.0), "1/s", "−1e+200 per second (−1e+300 to 0)"),
        (1.7e308, None, "share", "+1.7e+308 share"),
        (1e-300, (5e-324, 2e-300), "", "+1e−300 (+4.94e−324 to +2e−300)"),
    ],
)
def test_differences_name_their_unit_once(
    value: float, spread: tuple[float, float] | None, unit: str, text: str
) -> None:
    assert figures.format_difference(value, spread, unit) == text


def test_control_characters_never_pass() -> None:
    assert "\x1b" not in words.strip_controls("\x1b[31mred\x07\u202e")
    assert words.strip_controls("line\n\tnext") == "line\n\tnext"


# ── The terminal ──────────────────────────────────────────────────────────────────────────────────────────────────


def printed(analysis: Analysis, width: int) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal.verdict_table(analysis, width))
        console.print(terminal.counts_line(analysis.trials))
    return capture.get()


@pytest.mark.parametrize("width", [80, 60])
def test_verdicts_fit_the_terminal_and_need_no_colour(width: int) -> None:
    long = {"environment": "qemu", "nic": "virtio-net-with-a-long-name", "offload": True, "workers": 16}
    contrasts = (
        contrast(),
        contrast(treatment=long, reference={**long, "offload": False}, verdict=Verdict.EQUIVALENT),
        contrast(workload="primes", verdict=Verdict.UNDECIDED, reason="too-few-blocks", interval=None, p=None),
    )
    out = printed(Analysis(trials=TrialCounts(ok=24, lost=1), contrasts=contrasts, cells=()), width)
    assert max(map(len, out.splitlines())) <= width
    flat = " ".join(out.split())
    for said in ("web", "primes", "different, worse", "equivalent", "undecided", "24 trials ok, 1 lost", "98.75 %"):
        assert said in flat


def test_the_terminal_tells_what_was_withdrawn_before_any_verdict() -> None:
    withdrawn = Warned(code="withdrawn", text="environment=qemu was withdrawn\x1b[31m")
    other = Warned(code="blocks-repeated", text="2 blocks were repeated")
    analysis = Analysis(trials=TrialCounts(), contrasts=(contrast(),), cells=(), warnings=(other, withdrawn))
    text = printed(analysis, 60)
    assert text.startswith("! environment=qemu was withdrawn")
    assert "\x1b" not in text
    assert "repeated" not in text


def test_a_busy_host_is_told_once_and_before_any_verdict() -> None:
    busy = contrast(warnings=(Warned(code="busy-host", text="in 2 of 2 trials: the host spent 60 % elsewhere"),))
    all_of_it = Warned(code="busy-host", text="the host spent 60 % elsewhere, in all 2 trials: repeat the run")
    assert "1 of 1 comparison: in all 2 trials: the host spent" in printed(
        Analysis(trials=TrialCounts(), contrasts=(busy,), cells=()), 200
    )
    out = printed(Analysis(trials=TrialCounts(), contrasts=(busy,), cells=(), warnings=(all_of_it,)), 200)
    assert out.startswith("! the host spent 60 % elsewhere, in all 2 trials: repeat the run")
    assert out.count("elsewhere") == 1
    assert out.count("nearmetal explain busy-host\n") == 1


def test_each_warning_that_is_shown_can_be_looked_up() -> None:
    known = {word for entry in read_entries() for word in entry.words}
    busy = contrast(warnings=(Warned(code="busy-host", text="busy"), Warned(code="steal", text="denied")))
    pretended = Warned(code="pretended", text="a pretended machine")
    analysis = Analysis(trials=TrialCounts(), contrasts=(busy,), cells=(), warnings=(pretended,))
    assert "what each ! means: nearmetal explain pretended (or busy-host, steal)\n" in printed(analysis, 200)
    assert {"pretended", "busy-host", "steal"} <= known
    assert "explain" not in printed(Analysis(trials=TrialCounts(), contrasts=(contrast(),), cells=()), 200)


def test_a_warning_of_one_side_here_and_of_both_there_is_told_once() -> None:
    cut = [
        contrast(warnings=(Warned(code="interrupted", text=f"in {trials}: the run was interrupted"),))
        for trials in ("1 of 16 trials (the reference's)", "2 of 16 trials")
    ]
    out = printed(Analysis(trials=TrialCounts(ok=24), contrasts=tuple(cut), cells=()), 200)
    assert "! 2 of 2 comparisons: in 1 to 2 of 16 trials: the run was interrupted\n" in out
    assert out.count("the run was interrupted") == 1


def test_a_reason_is_not_warned_of_once_more() -> None:
    why = "a value is only known to lie beyond what was tried"
    warnings = (Warned(code="censored", text=f"{why}, so it is left undecided"), Warned(code="drift", text="it drifts"))
    undecided = {"verdict": Verdict.UNDECIDED, "ratio": None, "interval": None, "p": None, "reason": "censored"}
    found = contrast(**undecided, warnings=warnings)
    out = printed(Analysis(trials=TrialCounts(ok=16), contrasts=(found, contrast()), cells=()), 200)
    assert out.count(why) == 1
    assert "1 of 2 comparisons: it drifts" in out


def test_hostile_names_do_not_steer_the_terminal() -> None:
    name = "[bold]x[/bold]\x1b[2J"
    hostile = contrast(treatment={"environment": name}, workload="[red]w")
    out = printed(Analysis(trials=TrialCounts(ok=1), contrasts=(hostile,), cells=()), 80)
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out
    assert "[red]w" in out


def test_a_run_without_contrasts_says_so() -> None:
    assert "Nothing was compared" in printed(Analysis(trials=TrialCounts(), contrasts=(), cells=()), 80)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["host"], "host"),
        (["host", "docker", "qemu"], "host, docker and qemu"),
        (["host, capture on"], "host, capture on"),
        (["38,000 × 2xx", "2 × 4xx"], "38,000 × 2xx and 2 × 4xx"),
        (["8 (32, 0.02)", "12 (54, 0.03)"], "8 (32, 0.02) and 12 (54, 0.03)"),
        (
            ["host, capture on", "docker, capture on", "qemu"],
            "host, capture on; docker, capture on; and qemu",
        ),
    ],
)
def test_names_that_have_commas_are_told_apart(names: list[str], text: str) -> None:
    assert figures.join_listing(names) == text


def test_next_to_nothing_is_told_without_a_power_of_ten() -> None:
    assert [table_values.show_value(value) for value in (0.0, 0.00005, 0.0002)] == ["0", "< 0.0001", "0.0002"]


def test_of_what_is_the_same_in_all_blocks_nothing_is_undecided() -> None:
    none = {"response": "errors", "unit": "share", "scale": "difference", "ratio": None, "difference": 0.0}
    pairs = [{"block": block, "attempt": 0, "treatment": 0.0, "reference": 0.0} for block in range(8)]
    undecided = {**none, "verdict": Verdict.UNDECIDED, "reason": "no-margin", "pairs": pairs, "primary": False}
    assert words.badge_verdict(contrast(**undecided)).text == "the same in all blocks"
    assert words.badge_verdict(contrast(**{**undecided, "primary": True})).text == "undecided"
    apart = [{**pairs[0], "treatment": 0.001}, *pairs[1:]]
    assert words.badge_verdict(contrast(**{**undecided, "pairs": apart})).text == "undecided"
