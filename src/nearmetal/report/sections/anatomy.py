"""A request, packet by packet: the typical one of each treatment as a ladder, and what its packets were like."""

from collections.abc import Iterator, Sequence

from nearmetal.analysis.responses import arms_of
from nearmetal.report import figures, words
from nearmetal.report.anatomy import Seen, document, is_observed, problems, seen
from nearmetal.report.anatomy_injected import injected
from nearmetal.report.blocks import Block, Chart, Column, Notice, Panel, Quantity, Section, Table, Value
from nearmetal.report.charts.ladder import ladder
from nearmetal.report.charts.sizes import Bucket, sizes
from nearmetal.report.reading import ReportInput

_DRAWN = 12
"""Of more treatments and workloads than this the tables tell alone."""

_LEAD = (
    "What the packets of both ends say of each request: taken from before the measured load begins until after it has "
    "ended. Taking them has itself cost something."
)
_EACH = (
    ("packets", "packets"),
    ("bytes", "bytes"),
    ("segments", "segments"),
    ("ACKs", "acks"),
    ("super-segments", "coalesced"),
    ("writes joined", "joined_writes"),
)
_OF_THOUSAND = (
    ("retransmitted", "retransmitted"),
    ("reordered", "reordered"),
    ("lost", "lost"),
    ("overtaken", "overtaken"),
)
_PHASES = (
    ("connecting", "each_request", "connect_ns"),
    ("sending the request", "each_request", "send_ns"),
    ("waiting for the reply", "each_request", "wait_ns"),
    ("receiving the reply", "each_request", "transfer_ns"),
    ("all of it", "each_request", "total_ns"),
    ("of it: on the way, there and back", "joined", "network_ns"),
    ("of it: the server thinks", "joined", "server_ns"),
)


class Anatomy:
    name = "anatomy"
    title = "Anatomy of a request"
    order = 37

    def render(self, report: ReportInput) -> Section | None:
        if not is_observed(report):
            return None
        found = seen(report, arms_of(report.records, report.manifest.study.design.repeats))
        missing = list(problems(report))
        if not found and not missing:
            return None
        blocks: list[Block] = []
        if missing:
            text = f"{figures.count(len(missing), 'capture is', 'captures are')} not whole, for example: {missing[0]}"
            blocks.append(Notice(words.plain(text), "warning"))
        if found:
            blocks += [*_ladders(found, report), _packets(found, report), *injected(found, report)]
            blocks += _distributions(found, report)
        return Section(self.name, self.title, _LEAD, tuple(blocks))


def _ladders(found: Sequence[Seen], report: ReportInput) -> Iterator[Chart]:
    drawn = [one for one in found if len(one.events) > 1]
    if not drawn or len(found) > _DRAWN:
        return
    panels = tuple(
        Panel(
            f"{one.workload}-{report.labels.treatment(one.treatment)}",
            ladder(
                report.labels.treatment(one.treatment),
                f"{words.workload(one.workload)}: {figures.quantity(_whole(one), 's')} from top to bottom",
                report.colour(one.treatment),
                one.events,
            ),
        )
        for one in drawn
    )
    caption = (
        "The typical request of each treatment: the median of each event, over all requests and then over trials. Each "
        "picture has a scale of its own. A slanted line is a message on its way, a thin dark bar the server at work, a "
        "wide pale one the time from a message's first byte to its last, and a dashed arrow a packet whose time at the "
        "other end is not told; the server's times are set to the client's clock by the packets that both captures "
        "have. A virtual machine's end "
        "is its tap, unless its packets were taken inside: what its monitor does then counts as the server's work."
    )
    description = "For each treatment the times at which a request and its reply left and arrived; tables have figures."
    yield Chart("anatomy", caption, description, panels)


def _whole(one: Seen) -> float:
    return max(one.events.values()) - min(one.events.values())


def _named(one: Seen, report: ReportInput) -> tuple[Value, Value]:
    return words.workload(one.workload), report.labels.treatment(one.treatment)


def _packets(found: Sequence[Seen], report: ReportInput) -> Table:
    thousand = [(title, key) for title, key in _OF_THOUSAND if any(key in one.figures for one in found)]
    each = [(title, key) for title, key in _EACH if any(key in one.figures for one in found)]
    columns = (
        Column("workload"),
        Column("treatment"),
        Column("requests", numeric=True),
        *(Column(title, numeric=True) for title, _ in each),
        *(Column(f"{title} ‰", numeric=True) for title, _ in thousand),
    )
    rows = tuple(
        (
            *_named(one, report),
            round(one.figures["requests"]),
            *(_rounded(one.figures.get(key)) for _, key in each),
            *(_of_thousand(one, key) for _, key in thousand),
        )
        for one in found
    )
    caption = (
        "What each request took, by the sender's end: packets and bytes both ways, the server's segments, the client's "
        "bare ACKs, super-segments (longer than a packet of the wire), small writes that were held back and joined; "
        "and of a thousand requests (‰) what was sent again, came late, or was lost or overtaken between both ends"
    )
    return Table("anatomy-packets", caption, columns, rows, folded=len(rows) > 40)


def _rounded(value: float | None) -> float | int | None:
    return None if value is None else round(value) if value >= 1000 else round(value, 3)


def _of_thousand(one: Seen, key: str) -> float | int | None:
    return _rounded(1000 * one.figures[key] / one.figures["requests"]) if key in one.figures else None


def _distributions(found: Sequence[Seen], report: ReportInput) -> Iterator[Block]:
    """Of the typical trials alone, whose documents are read."""
    told = [(one, told) for one in found if (told := document(one.typical, report)) is not None]
    if not told:
        return
    if len(found) <= _DRAWN:
        buckets = [
            (one, [Bucket(b["from"], b["to"], b["count"]) for b in told["server"]["sizes"]]) for one, told in told
        ]
        firsts = {bucket.first for _, some in buckets for bucket in some}
        domain = [2**power for power in range(20) if min(firsts, default=1) <= 2**power <= max(firsts, default=1)]
        panels = tuple(
            Panel(
                f"{one.workload}-{report.labels.treatment(one.treatment)}",
                sizes(
                    report.labels.treatment(one.treatment),
                    words.workload(one.workload),
                    report.colour(one.treatment),
                    some,
                    domain,
                ),
            )
            for one, some in buckets
            if some
        )
        if panels:
            caption = "Segments of servers by the bytes that they carry, in one typical trial of each treatment."
            yield Chart("anatomy-sizes", caption, "Shares of segments by size; each treatment has a picture.", panels)
    columns = (
        Column("workload"),
        Column("treatment"),
        Column("phase"),
        *(Column(name, numeric=True) for name in ("median", "90 %", "99 %", "longest", "requests")),
    )
    rows: list[tuple[Value, ...]] = []
    for one, trace in told:
        for title, part, key in _PHASES:
            spreads = trace[part] if part == "each_request" else (trace[part] or {}).get("each_request", {})
            spread = spreads.get(key)
            if spread and spread["count"]:
                times = (Quantity(spread[at] / 1e9, "s") for at in ("median", "p90", "p99", "max"))
                rows.append((*_named(one, report), title, *times, spread["count"]))
    caption = "Time of each phase of a request, over the requests of one typical trial of each treatment"
    yield Table("anatomy-phases", caption, columns, tuple(rows), folded=len(rows) > 40)


plugin = Anatomy()
