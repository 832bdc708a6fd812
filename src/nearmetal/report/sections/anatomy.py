"""A request, packet by packet: the typical one of each treatment as a ladder, and what its packets were like."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from nearmetal.analysis.attribution import attributed
from nearmetal.analysis.covariates import OF_PACKETS
from nearmetal.analysis.responses import pairs_of
from nearmetal.report import anatomy, figures, words
from nearmetal.report.blocks import LONG, Badge, Block, Chart, Column, Notice, Panel, Paragraph, Quantity, Table, Value
from nearmetal.report.charts.ladder import draw_ladder
from nearmetal.report.charts.segment_sizes import Bucket, draw_sizes
from nearmetal.report.explanations import badge_difference, list_values, show_difference
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_arm, make_columns

_DRAWN = 12
"""Of more treatments and workloads than this the tables tell alone."""

_LEAD = (
    "What the packets of both ends say of each request: taken from before the measured load begins until after it has "
    "ended. Taking them has itself cost something."
)
_COUNTS = (
    ("segments of the request", "each_request", "request_segments"),
    ("segments of the reply", "each_request", "response_segments"),
    ("ACKs of the reply", "each_request", "response_acks"),
    ("bytes of the reply", "each_request", "response_bytes"),
)
_COUNTED = "Segments and acknowledgements of a request, at the client's end"
_TIMED = "Time of each phase of a request"
_TYPICAL = "one typical trial of each treatment"
_PHASES = (
    ("connecting", "each_request", "connect_ns"),
    ("sending the request", "each_request", "send_ns"),
    ("waiting for the reply", "each_request", "wait_ns"),
    ("receiving the reply", "each_request", "transfer_ns"),
    ("all of it", "each_request", "total_ns"),
    ("of it: on the way, there and back", "joined", "network_ns"),
    ("of it: the server thinks", "joined", "server_ns"),
)


_OVERTAKEN = "packets overtaken"
_SHARES = (("packets lost", "loss", "lost"), (_OVERTAKEN, "reorder", "overtaken"))
_CONFIRMED = Badge("yes", "same")
_FEWER, _MORE = Badge("fewer", "unknown"), Badge("more", "unknown")
_ANOTHER_SIZE = Badge("of another size", "unknown")
_TOLERANCE = 0.02
"""By such a share of the writes that were asked for may the mean be others."""


@dataclass(frozen=True)
class _Held:
    """What was asked of one treatment, held against what was seen. An interval there is of shares alone."""

    arm: tuple[str, str]
    """Names of the workload and of the treatment."""
    what: str
    asked: Value
    seen: Value
    confirmed: Badge
    interval: tuple[Value, ...] = ()


def show_injected(found: Sequence[anatomy.CapturedTreatment], report: ReportInput) -> Iterator[Table | Paragraph]:
    """A table, if any treatment asked for such a thing: of requests, and of streams."""
    alpha = report.manifest.study.design.alpha
    shares = [held for one in found for held in _of_link(one, report, alpha)]
    writes = [held for one in found for held in _of_writes(one, report)]
    if not shares and not writes:
        return
    bounds = ("low", "high") if shares else ()
    caption = "Asked of the link or the server, and seen in both captures"
    if shares:
        caption += f", with Wilson's {figures.format_percent(1 - alpha)} interval over all packets of both directions"
    columns = (
        *make_columns("workload", "treatment", "what"),
        *(Column(title, numeric=True) for title in ("asked", "seen", *bounds)),
        Column("confirmed"),
    )
    rows = tuple(
        (*held.arm, held.what, held.asked, held.seen, *(held.interval or (None,) * len(bounds)), held.confirmed)
        for held in (*shares, *writes)
    )
    yield Table("anatomy-injected", caption, columns, rows)
    fewer = [held.arm[1] for held in shares if held.what == _OVERTAKEN and held.confirmed is _FEWER]
    if fewer:
        yield Paragraph(
            f"Of the packets of {figures.join_listing(dict.fromkeys(fewer))} fewer overtook each other than was asked "
            "for. Some always do: a frame that is held back while none follows it, or together with those that follow, "
            "is overtaken by none."
        )


def _of_link(one: anatomy.CapturedTreatment, report: ReportInput, alpha: float) -> Iterator[_Held]:
    link = report.asked(one.treatment).link
    # Means are over those that have it: not all may.
    crossed = one.figures.get("crossed", 0.0) * one.crossing
    for what, name, figure in _SHARES:
        asked = getattr(link, name)
        if asked is None or not crossed or figure not in one.figures:
            continue
        count = one.figures[figure] * one.crossing
        low, high = wilson_interval(count, crossed, alpha)
        confirmed = _CONFIRMED if low <= asked <= high else _MORE if asked < low else _FEWER
        share, seen, *interval = (Quantity(share, "share") for share in (asked, count / crossed, low, high))
        yield _Held(list_arm(one.workload, one.treatment, report), what, share, seen, confirmed, tuple(interval))


def _of_writes(one: anatomy.CapturedTreatment, report: ReportInput) -> Iterator[_Held]:
    asked = report.parameter(one.treatment, one.workload, "writes")
    if not isinstance(asked, str) or asked.startswith("1x"):
        return
    count, size = one.figures.get("writes"), one.figures.get("write_size")
    if count is None or size is None:
        seen, confirmed = "none told apart", Badge("not seen", "unknown")
    else:
        seen = f"{count:.4g}x{size:.0f}"
        asked_count, _, asked_size = asked.partition("x")
        confirmed = _of_replies(count, int(asked_count)) if round(size) == int(asked_size) else _ANOTHER_SIZE
    yield _Held(
        list_arm(one.workload, one.treatment, report), "writes of a reply, and their bytes", asked, seen, confirmed
    )


def _of_replies(count: float, asked: int) -> Badge:
    """Of the mean of many: where a segment is sent again, its writes are not told apart."""
    if abs(count - asked) <= _TOLERANCE * asked:
        return _CONFIRMED
    return _MORE if count > asked else _FEWER


def wilson_interval(count: float, whole: float, alpha: float) -> tuple[float, float]:
    """The score interval of a share (E. B. Wilson 1927): honest also where the share is 0."""
    z = NormalDist().inv_cdf(1 - alpha / 2)
    share = count / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    # Of nothing, and of all, the end is exact; computed, it is beside it.
    return max(0.0, middle - half) if count else 0.0, min(1.0, middle + half) if count < whole else 1.0


def _render(report: ReportInput) -> Contents | None:
    if not anatomy.is_observed(report):
        return None
    found = anatomy.list_captured(report)
    missing = list(anatomy.list_problems(report))
    blocks: list[Block] = [Notice(text, "warning") for text in anatomy.without_requests(report, found)]
    asked = list(show_injected([*found, *anatomy.list_streams(report)], report))
    if not found and not missing and not blocks and not asked:
        return None
    if missing:
        text = (
            f"{figures.format_count(len(missing), 'capture is', 'captures are')} not whole, for example: {missing[0]}"
        )
        uncounted = [
            f"{' with '.join(list_arm(one.workload, one.treatment, report))} in {one.uncounted} of "
            f"{figures.format_count(len(report.trials(one.workload, one.treatment)), 'trial')}"
            for one in found
            if one.uncounted
        ]
        if uncounted:
            text += f". What kernels counted is left out of {', of '.join(uncounted)}: they went on counting"
        blocks.append(Notice(words.strip_controls(text), "warning"))
    if found:
        blocks += [*_draw_ladders(found, report), *_show_packets(found, report)]
    blocks += asked
    if found:
        blocks += [*_show_contrasts(report), *_show_distributions(found, report)]
    return _LEAD, blocks


def _draw_ladders(found: Sequence[anatomy.CapturedTreatment], report: ReportInput) -> Iterator[Chart]:
    drawn = [one for one in found if len(one.events) > 1]
    if not drawn or len(found) > _DRAWN:
        return
    panels = tuple(
        Panel(
            f"{one.workload}-{report.labels.name_treatment(one.treatment)}",
            draw_ladder(
                report.labels.name_treatment(one.treatment),
                f"{words.name_workload(one.workload)}: {figures.format_quantity(whole, 's')} from top to bottom",
                report.colour(one.treatment),
                one.events,
            ),
        )
        for one in drawn
        for whole in (max(one.events.values()) - min(one.events.values()),)
    )
    caption = (
        "The typical request of each treatment: the median of each event, over all requests and then over trials. Each "
        "picture has a scale of its own. A slanted line is a message on its way, a thin bar the server at work, a wide "
        "pale one the time from a message's first byte to its last, and a dashed arrow a packet whose time at the "
        "other end is not told; the server's times are set to the client's clock by the packets that both captures "
        "have. A virtual machine's end "
        "is its tap, unless its packets were taken inside: what its monitor does then counts as the server's work."
    )
    description = "For each treatment the times at which a request and its reply left and arrived; tables have figures."
    yield Chart("anatomy", caption, description, panels)


def _show_distributions(found: Sequence[anatomy.CapturedTreatment], report: ReportInput) -> Iterator[Block]:
    """Of the typical trials alone, whose documents are read."""
    told = [(one, told) for one in found if (told := anatomy.read_document(one.typical, report)) is not None]
    if not told:
        return
    if len(found) <= _DRAWN:
        yield from _show_sizes(told, report)
    yield _make_spreads("anatomy-segments", "what", "most", _COUNTS, _COUNTED, told, report)
    yield _make_spreads("anatomy-phases", "phase", "longest", _PHASES, _TIMED, told, report)


def _show_sizes(
    told: Sequence[tuple[anatomy.CapturedTreatment, Mapping[str, Any]]], report: ReportInput
) -> Iterator[Block]:
    """Segments by size; where all are of one, a sentence: a picture would be a single bar."""
    buckets = [(one, [Bucket(b["from"], b["to"], b["count"]) for b in trace["server"]["sizes"]]) for one, trace in told]
    spans = sorted({(bucket.first, bucket.last) for _, some in buckets for bucket in some})
    if not spans:
        return
    (first, last), (largest, _) = spans[0], spans[-1]
    which = _TYPICAL + (", to its first client alone" if anatomy.has_several_clients([one for one, _ in told]) else "")
    if first == largest:
        yield Paragraph(f"All segments of servers carry {first:,} to {last:,} bytes, in {which}.")
        return
    domain = [2**power for power in range(20) if first <= 2**power <= largest]
    panels = tuple(
        Panel(f"{one.workload}-{name}", draw_sizes(name, workload, report.colour(one.treatment), some, domain))
        for one, some in buckets
        if some
        for workload, name in (list_arm(one.workload, one.treatment, report),)
    )
    caption = f"Segments of servers by the bytes that they carry, in {which}."
    yield Chart("anatomy-sizes", caption, "Shares of segments by size; each treatment has a picture.", panels)


def _make_spreads(
    name: str,
    what: str,
    largest: str,
    listed: Sequence[tuple[str, str, str]],
    caption: str,
    told: Sequence[tuple[anatomy.CapturedTreatment, Mapping[str, Any]]],
    report: ReportInput,
) -> Table:
    """Of each treatment's typical trial the distributions over its requests."""
    columns = (
        *make_columns("workload", "treatment"),
        Column(what),
        *(Column(title, numeric=True) for title in ("median", "90 %", "99 %", largest, "requests")),
    )
    rows: list[tuple[Value, ...]] = []
    for one, trace in told:
        for title, part, key in listed:
            spreads = trace[part] if part == "each_request" else (trace[part] or {}).get("each_request", {})
            spread = spreads.get(key)
            if spread and spread["count"]:
                values = (_make_value(spread[at], key) for at in ("median", "p90", "p99", "max"))
                rows.append((*list_arm(one.workload, one.treatment, report), title, *values, spread["count"]))
    alone = ", its first client's alone" if anatomy.has_several_clients([one for one, _ in told]) else ""
    caption = f"{caption}, over the requests of {_TYPICAL}{alone}"
    return Table(name, caption, columns, tuple(rows), folded=len(rows) > LONG)


def _make_value(value: float, key: str) -> Value:
    if key.endswith("_ns"):
        return Quantity(value / 1e9, "s")
    return Quantity(value, "B") if key.endswith("_bytes") else value


_EACH = (
    ("packets", "packets"),
    ("bytes", "bytes"),
    ("segments", "segments"),
    ("ACKs", "acks"),
    ("super-segments", "coalesced"),
    ("joined", "joined_writes"),
    ("corked", "corked"),
)
_MISHAPS = (
    ("sent again", "retransmitted"),
    ("by kernels", "kernel_retransmitted"),
    ("late", "reordered"),
    ("queued", "kernel_out_of_order"),
    ("lost", "lost"),
    ("overtaken", "overtaken"),
)


_HOW_COUNTED = (
    "Packets are counted as they leave, both ways; bytes with all headers, at the client's end; segments are the "
    "server's, ACKs the client's bare ones. A super-segment is longer than a packet of the wire. Joined are small "
    "writes that left in another's segment, by the captures, also where a card then cut that into packets of the wire; "
    "corked is how often the server's kernel says that it held one back. Sent again and late are segments by the "
    "captures, and beside them by both kernels' counters: the client's kernel queues all that comes behind a hole. A "
    "super-segment is one segment to captures, and to kernels as many as it becomes. Lost and overtaken are packets, "
    "between both ends: one that is not cut on the way is one."
)


def _show_packets(found: Sequence[anatomy.CapturedTreatment], report: ReportInput) -> Iterator[Block]:
    means = "means over trials and clients" if anatomy.has_several_clients(found) else "means over trials"
    yield Paragraph(_HOW_COUNTED)
    yield _make_table("anatomy-packets", f"What each request took, {means}", _EACH, 1, found, report)
    mishaps = f"What became of it, for each thousand requests, {means}"
    yield _make_table("anatomy-mishaps", mishaps, _MISHAPS, 1000, found, report)


def _make_table(
    name: str,
    caption: str,
    listed: Sequence[tuple[str, str]],
    of: int,
    found: Sequence[anatomy.CapturedTreatment],
    report: ReportInput,
) -> Table:
    there = [(title, key) for title, key in listed if any(key in one.figures for one in found)]
    columns = (
        *make_columns("workload", "treatment"),
        Column("requests", numeric=True),
        *(Column(title, numeric=True) for title, _ in there),
    )
    rows = tuple(
        (
            *list_arm(one.workload, one.treatment, report),
            one.figures["requests"],
            *(_make_figure(one, key, of) for _, key in there),
        )
        for one in found
    )
    return Table(name, caption, columns, rows, folded=len(rows) > LONG)


def _make_figure(one: anatomy.CapturedTreatment, key: str, of: int) -> Value:
    """Counts of a whole trial are told for each request here."""
    if key not in one.figures:
        return None
    if key == "bytes":
        return Quantity(one.figures[key], "B")
    whole = one.figures["requests"] if of > 1 else 1
    return of * one.figures[key] / whole


def _show_contrasts(report: ReportInput) -> Iterator[Table]:
    """How treatments differ in their packets, wherever the study asks for a verdict."""
    design = report.manifest.study.design
    rows: list[tuple[Value, ...]] = []
    for asked in (contrast for contrast in report.analysis.contrasts if contrast.primary):
        named = (words.name_workload(asked.workload), report.labels.name_versus(asked))
        pairs = pairs_of(report.arms, asked.treatment, asked.reference, asked.workload)
        rows += [
            (*named, one.covariate.title, show_difference(one), *list_values(one), badge_difference(one))
            for one in attributed(pairs, design.alpha)
            if one.covariate.name in OF_PACKETS
        ]
    if not rows:
        return
    columns = (
        *make_columns("workload", "comparison", "what"),
        Column("change", where="page"),
        *make_columns("estimate", "low", "high", numeric=True, where="data"),
        *make_columns("scale", "unit", where="data"),
        Column("blocks", numeric=True, where="data"),
        Column("verdict"),
    )
    caption = (
        f"How treatments differ in their packets: ratios, or differences of what may well be none, with "
        f"{figures.format_percent(1 - design.alpha)} intervals over blocks, not corrected for how many they are"
    )
    yield Table("anatomy-contrasts", caption, columns, tuple(rows), folded=len(rows) > LONG)


plugin = BuiltInSection("anatomy", "Anatomy of a request", 37, _render)
