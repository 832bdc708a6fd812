"""What each request took in packets, what became of them, and how treatments differ in that: tables of the anatomy."""

from collections.abc import Iterator, Sequence

from nearmetal.analysis.attribution import attributed
from nearmetal.analysis.responses import pairs_of
from nearmetal.analysis.traits import OF_PACKETS
from nearmetal.report import figures, words
from nearmetal.report.anatomy import CapturedTreatment, has_several_clients
from nearmetal.report.blocks import LONG, Block, Column, Paragraph, Quantity, Table, Value
from nearmetal.report.reading import ReportInput
from nearmetal.report.table_parts import list_arm, make_columns
from nearmetal.report.why_figures import badge_difference, list_values, show_difference

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


_WORDS = (
    "Packets are counted as they leave, both ways; bytes with all headers, at the client's end; segments are the "
    "server's, ACKs the client's bare ones. A super-segment is longer than a packet of the wire. Joined are small "
    "writes that left in another's segment, by the captures, also where a card then cut that into packets of the wire; "
    "corked is how often the server's kernel says that it held one back. Sent again and late are segments by the "
    "captures, and beside them by both kernels' counters: the client's kernel queues all that comes behind a hole. A "
    "super-segment is one segment to captures, and to kernels as many as it becomes. Lost and overtaken are packets, "
    "between both ends: one that is not cut on the way is one."
)


def show_packets(found: Sequence[CapturedTreatment], report: ReportInput) -> Iterator[Block]:
    means = "means over trials and clients" if has_several_clients(found) else "means over trials"
    yield Paragraph(_WORDS)
    yield _make_table("anatomy-packets", f"What each request took, {means}", _EACH, 1, found, report)
    mishaps = f"What became of it, for each thousand requests, {means}"
    yield _make_table("anatomy-mishaps", mishaps, _MISHAPS, 1000, found, report)


def _make_table(
    name: str,
    caption: str,
    listed: Sequence[tuple[str, str]],
    of: int,
    found: Sequence[CapturedTreatment],
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


def _make_figure(one: CapturedTreatment, key: str, of: int) -> Value:
    """Counts of a whole trial are told for each request here."""
    if key not in one.figures:
        return None
    if key == "bytes":
        return Quantity(one.figures[key], "B")
    whole = one.figures["requests"] if of > 1 else 1
    return of * one.figures[key] / whole


def show_contrasts(report: ReportInput) -> Iterator[Table]:
    """How treatments differ in their packets, wherever the study asks for a verdict."""
    design = report.manifest.study.design
    rows: list[tuple[Value, ...]] = []
    for asked in (contrast for contrast in report.analysis.contrasts if contrast.primary):
        named = (words.name_workload(asked.workload), report.labels.name_versus(asked))
        pairs = pairs_of(report.arms, asked.treatment, asked.reference, asked.workload)
        rows += [
            (*named, one.trait.title, show_difference(one), *list_values(one), badge_difference(one))
            for one in attributed(pairs, design.alpha)
            if one.trait.name in OF_PACKETS
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
