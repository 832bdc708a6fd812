"""What gates are about, for other programs: Markdown for a comment, JUnit's XML for a table of tests.

Of a comparison of runs, or of the comparisons that one run makes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from nearmetal.analysis.gates import Case, GateOutcome
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Contrast, ContrastResult
from nearmetal.analysis.run_comparison import Comparison
from nearmetal.control_characters import strip_controls
from nearmetal.report import words
from nearmetal.report.blocks import Tone
from nearmetal.report.comparison import describe_change, describe_gates, describe_size, name_change, tell_verdict
from nearmetal.report.formats import escape_markdown
from nearmetal.report.gate_descriptions import describe_gate, describe_level, describe_outcome, describe_why
from nearmetal.report.words import SIGNS, Labels


@dataclass(frozen=True, slots=True)
class GateRow:
    """A comparison in words."""

    key: tuple[str, ...]
    verdict: str
    tone: Tone
    name: str
    """ "web, docker vs host"; without the workload where there is only one."""
    response: str
    size: str
    """Estimate and interval; "" if there are none."""
    rest: str
    """Why there is no verdict, and what else is told of it alone."""
    told: str
    """Size and all that is told of it."""
    level: str
    """"alpha 0.0125, confidence 98.75 %"."""


@dataclass(frozen=True, slots=True)
class GatePage:
    """What both formats are made of."""

    study: str
    heading: str
    """Over the sizes: "after against before"."""
    before: str
    """What a comparison is held against, in a sentence."""
    outcomes: Sequence[GateOutcome]
    lines: Sequence[str]
    """An outcome each."""
    rows: Sequence[GateRow]
    labels: Labels
    notes: Sequence[str] = field(default=())


def describe_compared(found: Comparison, labels: Labels, study: str) -> GatePage:
    """A comparison of runs."""
    rows = []
    for change in found.changes:
        size = describe_size(change) if change.ratio is not None or change.difference is not None else ""
        verdict, tone = tell_verdict(change)
        rest = describe_change(change, [warning.text for warning in change.warnings])
        rows.append(
            GateRow(
                key=_make_key(change),
                verdict=verdict,
                tone=tone,
                name=name_change(change, found, labels),
                response=labels.name_response(change.workload, change.response),
                size=size,
                rest=rest.removeprefix(size).removeprefix("; "),
                told=describe_change(change),
                level=describe_level(change.tested_at),
            )
        )
    names = [name_change(change, found, labels) for change in found.changes]
    told = dict.fromkeys(_tell_warnings(found.changes, names))
    told |= dict.fromkeys(f"{warning.run}: {warning.text}" for warning in found.warnings)
    told |= dict.fromkeys(
        f"not the same, {row.group}, {row.fact}: {row.values.get('before', 'not there')} → "
        f"{row.values.get('after', 'not there')}"
        for row in found.apart
    )
    lines = describe_gates(found)
    return GatePage(study, "after against before", "before", found.gates, lines, rows, labels, tuple(told))


def describe_judged(
    contrasts: Sequence[Contrast], outcomes: Sequence[GateOutcome], notes: Iterable[str], labels: Labels, study: str
) -> GatePage:
    """The comparisons of one run."""
    has_several = len({one.workload for one in contrasts}) > 1
    rows = []
    for one in contrasts:
        size = words.format_estimate(one) if one.ratio is not None or one.difference is not None else ""
        rest = "; ".join(filter(None, _list_details(one, labels)))
        badge = words.badge_verdict(one)
        rows.append(
            GateRow(
                key=_make_key(one),
                verdict=badge.text,
                tone=words.choose_tone(one),
                name=f"{f'{words.name_workload(one.workload)}, ' if has_several else ''}{labels.name_versus(one)}",
                response=labels.name_response(one.workload, one.response),
                size=size,
                rest=rest,
                told="; ".join(filter(None, (size, rest, *(warning.text for warning in one.warnings)))),
                level=describe_level(one.tested_at),
            )
        )
    told = dict.fromkeys((*notes, *_tell_warnings(contrasts, [row.name for row in rows])))
    heading, lines = "treatment against reference", describe_outcomes(outcomes)
    return GatePage(study, heading, "its reference", outcomes, lines, rows, labels, tuple(told))


def _list_details(contrast: Contrast, labels: Labels) -> list[str]:
    return [
        words.explain_undecided(contrast),
        *words.list_conditions(contrast),
        *words.list_degrees(contrast),
        *words.list_failures(contrast, labels),
    ]


def describe_outcomes(outcomes: Iterable[GateOutcome]) -> list[str]:
    """A sentence for each gate of one run."""
    return [describe_outcome(outcome, "comparison", "its reference") for outcome in outcomes]


def _tell_warnings(compared: Sequence[ContrastResult | Contrast], names: Sequence[str]) -> Iterator[str]:
    """Each with the comparisons that have it, unless all have."""
    having: dict[str, list[str]] = {}
    for one, name in zip(compared, names, strict=True):
        for text in dict.fromkeys(warning.text for warning in one.warnings):
            having.setdefault(text, []).append(name)
    for text, of in having.items():
        yield text if len(of) == len(compared) else f"{', '.join(dict.fromkeys(of))}: {text}"


def render_markdown(page: GatePage) -> str:
    """Gates, then a row for each comparison, then what it is warned of. GitHub and GitLab show it."""
    lines = [f"### nearmetal: {_escape_text(page.study)}", ""]
    for outcome, line in zip(page.outcomes, page.lines, strict=True):
        lines.append(f"- {'✅' if outcome.met else '❌'} {_escape_text(f'{line[:1].upper()}{line[1:]}.')}")
    if levels := _describe_levels(page.rows):
        lines += ["", _escape_text(levels)]
    lines += ["", f"| verdict | comparison | response | {page.heading} | |", "| --- | --- | --- | --- | --- |"]
    for row in page.rows:
        cells = (f"{SIGNS[row.tone]} {row.verdict}", row.name, row.response, row.size, row.rest)
        lines.append("| " + " | ".join(map(_escape_text, cells)) + " |")
    if page.notes:
        lines += ["", "<details><summary>What to know of it</summary>", ""]
        lines += [f"- {_escape_text(text)}" for text in page.notes]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _describe_levels(rows: Sequence[GateRow]) -> str:
    """At which levels the comparisons of a table are judged, in a sentence."""
    having: dict[str, list[str]] = {}
    for row in rows:
        having.setdefault(row.level, []).append(f"{row.response} of {row.name}")
    if len(having) == 1:
        return f"Each comparison is judged at {next(iter(having))}."
    return " ".join(f"Judged at {level}: {'; '.join(of)}." for level, of in having.items())


def _escape_text(text: str) -> str:
    """Also so that nobody is notified whose name stands behind an @."""
    return escape_markdown(text).replace("@", "@\N{WORD JOINER}")


def render_junit(page: GatePage) -> str:
    """A suite for each gate, in which each comparison is a test case."""
    root = ElementTree.Element("testsuites", name=strip_controls(f"nearmetal {page.study}"))
    rows = {row.key: row for row in page.rows}
    for outcome in page.outcomes:
        _add_suite(root, outcome, rows, page)
    _count_cases(root, [case for outcome in page.outcomes for case in outcome.cases])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_suite(
    root: ElementTree.Element, outcome: GateOutcome, rows: Mapping[tuple[str, ...], GateRow], page: GatePage
) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=strip_controls(describe_gate(outcome)))
    _count_cases(suite, outcome.cases)
    for case in outcome.cases:
        row = rows.get(_make_key(case))
        what = row.name if row else page.labels.name_treatment(case.treatment)
        response = page.labels.name_response(case.workload, case.response)
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname=strip_controls(f"{page.study}.{case.workload}"),
            name=strip_controls(f"{what}: {response}"),
        )
        told = strip_controls(row.told) if row else ""
        if case.why is not None:
            at = f" ({row.level})" if row else ""
            message = strip_controls(f"{response} of {what} {describe_why(case.why, page.before)}{at}.")
            ElementTree.SubElement(test, "failure", type=case.why, message=message).text = told
        elif told:
            ElementTree.SubElement(test, "system-out").text = f"{told} ({row.level})" if row else told


def _make_key(one: ContrastResult | Case) -> tuple[str, ...]:
    return one.workload, one.response, key_of(one.treatment), key_of(one.reference)


def _count_cases(element: ElementTree.Element, cases: Sequence[Case]) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.why is not None for case in cases)))
