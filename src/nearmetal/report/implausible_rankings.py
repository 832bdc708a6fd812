"""Rankings that are not plausible by themselves, a virtual machine ahead of its host: what to check, what was seen."""

from collections.abc import Iterator, Sequence

from nearmetal.analysis.attribution import CovariateContrast
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.model import Assignment, Description
from nearmetal.report import figures, words
from nearmetal.report.blocks import Notice
from nearmetal.report.explanation_notes import describe_clocks, is_seen
from nearmetal.report.explanations import show_difference
from nearmetal.report.report_input import ReportInput
from nearmetal.store import version_1

_PACKETS = ("packets", "super_segments", "acks", "autocorked", "retransmitted")
_TOLD = 3
_AT_ITS_LIMIT = frozenset({"client-limited", "generator-late", "cpus-shared", "cores-shared"})
_OTHERS = frozenset({"busy-host", "disks-unlike", "host-cache"})


def is_implausible(contrast: Contrast, report: ReportInput) -> bool:
    """Whether a guest surely does better than the metal, or a container on the metal, that may carry it."""
    if contrast.verdict is not Verdict.DIFFERENT:
        return False
    ahead, behind = contrast.treatment, contrast.reference
    if words.choose_tone(contrast) != "better":
        ahead, behind = behind, ahead
    return is_guest(ahead, report) and _name_bound(behind, report) != ""


def is_guest(treatment: Assignment, report: ReportInput) -> bool:
    """Whether its machines have virtual hardware: what they do, some host has to do too."""
    return _describe_treatment(treatment, report).family == "guest"


def _describe_treatment(treatment: Assignment, report: ReportInput) -> Description:
    return version_1.describe_environment(report.manifest.plan.resolved_of(treatment).environment)


def _name_bound(treatment: Assignment, report: ReportInput) -> str:
    """What a guest cannot plausibly be ahead of; "" for anything else."""
    described = _describe_treatment(treatment, report)
    if described.family == "metal":
        return "its host"
    if described.family == "container" and described.kernel == "host":
        return "a container, which has the host's own kernel"
    return ""


def make_box(contrast: Contrast, found: Sequence[CovariateContrast], report: ReportInput) -> Notice:
    said = words.write_sentence(contrast, report.labels)
    behind = _name_bound(contrast.reference, report) or _name_bound(contrast.treatment, report)
    text = f"A virtual machine is ahead of {behind}, which is not plausible by itself: {said}."
    return Notice(f"{text} What to check, and what was seen:", "warning", tuple(_list_checks(contrast, found, report)))


def _list_checks(
    contrast: Contrast, found: Sequence[CovariateContrast], report: ReportInput
) -> Iterator[tuple[str, str]]:
    """Each question and its answer, as far as there is one."""
    sides = report.labels.name_sides(contrast)[:2]
    warned = [(one.code, one.text) for one in contrast.warnings]
    if _has_clients(contrast, report):
        yield (
            "Was the client at its limit?",
            " ".join(text for code, text in warned if code in _AT_ITS_LIMIT) or "no trial warns of it",
        )
        yield (
            "Do both sides carry the same packets?",
            _describe_packets(found, sides) or _explain_unseen(contrast, report),
        )
    yield (
        "Does the guest's clock keep time?",
        describe_clocks(contrast, report) or "no difference is known between the clocks that both kernels read",
    )
    yield (
        "Was the host as free for both, and the guest's disk as durable?",
        " ".join(text for code, text in warned if code in _OTHERS)
        or "no trial warns of it; “Differences besides the factors” has the disks",
    )
    differing = [f"{one.covariate.title}, {show_difference(one)}" for one in found if one.differs][:_TOLD]
    yield "What differs most?", "; ".join(differing) or "no difference shows in what was observed"


def _has_clients(contrast: Contrast, report: ReportInput) -> bool:
    workloads = report.manifest.plan.resolved_of(contrast.treatment).workloads
    return all(one.has_clients for one in workloads if one.name == contrast.workload)


def _describe_packets(found: Sequence[CovariateContrast], sides: tuple[str, ...]) -> str:
    """What was seen of them on either side; "" where nothing was on both."""
    figured = {one.covariate.name: one for one in found}
    return "; ".join(
        f"{one.covariate.title}, {figures.format_quantity(one.treatment, one.covariate.unit)} with {sides[0]} and "
        f"{figures.format_quantity(one.reference, one.covariate.unit)} with {sides[1]}"
        for name in _PACKETS
        if (one := figured.get(name))
    )


def _explain_unseen(contrast: Contrast, report: ReportInput) -> str:
    """Why no packets were seen on both sides."""
    both = (contrast.treatment, contrast.reference)
    lacking = [
        name
        for side, name in zip(both, report.labels.name_sides(contrast), strict=False)
        if not is_seen(contrast.workload, side, report)
    ]
    if not lacking:
        return "not known: their captures do not hold all packets, or no request"
    if any(is_seen(contrast.workload, side, report) for side in report.manifest.plan.treatments):
        return f"not observed with {figures.join_listing(lacking)}: a comparison of two sides that are captured tells"
    return "not observed: capture = true in [observe] tells; “Differences besides the factors” has the offloads"
