"""A comparison of runs with its gates, for other programs: Markdown for a comment, JUnit's XML for a table of tests."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from nearmetal.analysis.changes import Change
from nearmetal.analysis.gates import Case, GateOutcome
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.two_runs import Compared
from nearmetal.plain import plain
from nearmetal.report.comparison import describe_change, describe_gates, describe_size, name_change, tell_verdict
from nearmetal.report.formats import escape_markdown
from nearmetal.report.gate_words import describe_gate, describe_why
from nearmetal.report.words import Labels

_SIGNS = {"better": "▲", "worse": "▼", "same": "=", "unknown": "?", "plain": " "}


def render_markdown(found: Compared, labels: Labels, study: str) -> str:
    """Gates, then a row for each comparison, then what it is warned of. GitHub and GitLab show it."""
    lines = [f"### nearmetal: {_escape(study)}", ""]
    for outcome, line in zip(found.gates, describe_gates(found), strict=True):
        lines.append(f"- {'✅' if outcome.met else '❌'} {_escape(line)}")
    lines += ["", "| verdict | comparison | response | after against before | |", "| --- | --- | --- | --- | --- |"]
    for change in found.changes:
        verdict, tone = tell_verdict(change)
        has_size = change.ratio is not None or change.difference is not None
        cells = (
            f"{_SIGNS[tone]} {verdict}",
            name_change(change, found, labels),
            labels.response(change.workload, change.response),
            describe_size(change) if has_size else "",
            describe_change(change, [warning.text for warning in change.warnings]).removeprefix(
                describe_size(change) if has_size else ""
            ),
        )
        lines.append("| " + " | ".join(_escape(cell.removeprefix("; ")) for cell in cells) + " |")
    told = dict.fromkeys(_tell_warnings(found, labels))
    told |= dict.fromkeys(f"{warning.run}: {warning.text}" for warning in found.warnings)
    told |= dict.fromkeys(
        f"not the same, {row.group}, {row.fact}: {row.values.get('before', 'not there')} → "
        f"{row.values.get('after', 'not there')}"
        for row in found.apart
    )
    if told:
        lines += ["", "<details><summary>What to know of it</summary>", ""]
        lines += [f"- {_escape(text)}" for text in told]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _tell_warnings(found: Compared, labels: Labels) -> Iterator[str]:
    """Each with the comparisons that have it, unless all have."""
    having: dict[str, list[str]] = {}
    for change in found.changes:
        for text in dict.fromkeys(warning.text for warning in change.warnings):
            having.setdefault(text, []).append(name_change(change, found, labels))
    for text, names in having.items():
        yield text if len(names) == len(found.changes) else f"{', '.join(dict.fromkeys(names))}: {text}"


def _escape(text: str) -> str:
    """Also so that nobody is notified whose name stands behind an @."""
    return escape_markdown(text).replace("@", "@\N{WORD JOINER}")


def render_junit(found: Compared, labels: Labels, study: str) -> str:
    """A suite for each gate, in which each comparison is a test case."""
    root = ElementTree.Element("testsuites", name=plain(f"nearmetal {study}"))
    changes = {_key(change): change for change in found.changes}
    for outcome in found.gates:
        _add_suite(root, outcome, changes, found, labels, study)
    _count(root, [case for outcome in found.gates for case in outcome.cases])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_suite(
    root: ElementTree.Element,
    outcome: GateOutcome,
    changes: dict[tuple[str, ...], Change],
    found: Compared,
    labels: Labels,
    study: str,
) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=plain(describe_gate(outcome)))
    _count(suite, outcome.cases)
    for case in outcome.cases:
        change = changes.get(_key(case))
        what = name_change(change, found, labels) if change else labels.treatment(case.treatment)
        response = labels.response(case.workload, case.response)
        test = ElementTree.SubElement(
            suite, "testcase", classname=plain(f"{study}.{case.workload}"), name=plain(f"{what}: {response}")
        )
        told = plain(describe_change(change)) if change else ""
        if case.why is not None:
            message = plain(f"{what}: {describe_why(case.why, 'before')}")
            ElementTree.SubElement(test, "failure", type=case.why, message=message).text = told
        elif told:
            ElementTree.SubElement(test, "system-out").text = told


def _key(one: Change | Case) -> tuple[str, ...]:
    return one.workload, one.response, key_of(one.treatment), key_of(one.reference)


def _count(element: ElementTree.Element, cases: Sequence[Case]) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.why is not None for case in cases)))
