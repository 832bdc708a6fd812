"""How it was done, in words a stranger can check, and the command that does it again."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from nearmetal.analysis.verdict_rules import count_spare
from nearmetal.report import figures, words
from nearmetal.report.block_count import about_sizing
from nearmetal.report.blocks import Block, Column, Notice, Source, Table, Terms
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.store.runs import count_earlier_runs

_PROVISIONS = {
    "boot": "every boot is a machine made from nothing",
    "restart": "every boot restarts the same machine",
    "restore": "every boot is the same machine restored from a snapshot, so conclusions hold for that machine",
    "reuse": "the same machine is used throughout, so conclusions hold for that machine",
}

_KEPT_FREE = (
    "When the run began, `nearmetal isolate` kept CPU {} of this host free of all that was not started on it. Machines "
    "and load shared the other CPUs; a host without that has more to give."
)


def _render(report: ReportInput) -> Contents:
    manifest = report.manifest
    lead = (
        "Every treatment ran every workload once in each block, in random order. Within a block, treatment and "
        "reference are compared; what all blocks say together is the verdict."
        + (" All, that is, up to the look that decides it." if manifest.plan.looks else "")
    )
    blocks: list[Block] = [Terms(_describe_design(report))]
    if manifest.kept_free:
        blocks.append(Notice(_KEPT_FREE.format(manifest.kept_free), "warning"))
    versions = tuple(
        (words.strip_controls(name), words.strip_controls(version)) for name, version in manifest.versions.items()
    )
    blocks.append(Table("versions", "Versions", (Column("what"), Column("version")), versions))
    blocks.append(Source(_write_commands(report)))
    return lead, blocks


def _tell_sizing(report: ReportInput) -> Iterable[str]:
    """How the number was fixed, and how many blocks may disagree."""
    manifest = report.manifest
    if manifest.sizing is not None:
        k = f"; k = {count_spare(manifest.plan)} of them may lie the other way by little, and a difference be found"
        yield f"{words.strip_controls(about_sizing(manifest.sizing, manifest.study.design))}{k}."


def _describe_design(report: ReportInput) -> tuple[tuple[str, str], ...]:
    manifest = report.manifest
    design, plan = manifest.study.design, manifest.plan
    contrasts = len(plan.contrasts)
    # The host in one line, from the probe's facts; the manifest has them all.
    facts = report.manifest.host
    memory = _find_fact(facts, "memory", "total_bytes")
    told = [
        _find_fact(facts, "processor", "model"),
        figures.format_quantity(float(memory), "B") if isinstance(memory, int) else None,
        _find_fact(facts, "kernel", "release"),
        _find_fact(facts, "kernel", "architecture"),
        _find_fact(facts, "clock", "source"),
    ]
    names = ("processor", "memory", "kernel", "architecture", "clock")
    known = [
        f"{name} {words.strip_controls(str(fact))}" for name, fact in zip(names, told, strict=True) if fact is not None
    ]
    return (
        ("Run", f"{words.strip_controls(manifest.run)}, made {words.strip_controls(manifest.created)}"),
        ("Blocks", f"{report.blocks}. The unit of statistics is the boot: {_PROVISIONS[design.provision]}."),
        *(("Number of blocks", text) for text in _tell_sizing(report)),
        *(("Earlier runs", text) for text in _tell_earlier_runs(report)),
        *(("Looks", text) for text in _describe_looks(report)),
        (
            "Order",
            f"random within each block, from seed {plan.seed}; "
            + (
                "all workloads of a treatment share a boot."
                if design.share_boot
                else "each workload has a boot of its own."
            ),
        ),
        (
            "Estimate",
            "the pseudomedian (Hodges and Lehmann) of the block differences, on the logarithm where the response has a "
            "ratio scale; interval and test are the signed-rank statistic's own, so they never disagree.",
        ),
        (
            "Level",
            f"{design.alpha:g} for the whole study, shared by {figures.format_count(contrasts, 'primary contrast')}: "
            f"{plan.level:.4g} each, so {_describe_intervals(plan.level, design.alpha)}."
            + (_STEPS if contrasts > 1 and not plan.looks else ""),
        ),
        (
            "Verdicts",
            f"equivalent: the interval lies within the margin of {figures.format_percent(design.margin)}; different: "
            "it excludes the reference; undecided: neither. Undecided is not the same as no difference.",
        ),
        ("Host", ", ".join(known) or "told nothing of itself."),
    )


def _tell_earlier_runs(report: ReportInput) -> Iterable[str]:
    earlier = count_earlier_runs(report.folder)
    if earlier:
        yield (
            f"{figures.format_count(earlier, 'run')} of this study on this host began before this one, by the folders "
            "beside it. The level is that of one run: whoever repeats a study until it shows a difference finds one."
        )


_STEPS = (
    " Once some are found different, the others share the level among them (Holm's steps): one that only its step "
    "finds has the interval of that step."
)


def _describe_intervals(level: float, alpha: float) -> str:
    """At what intervals are: those of primary contrasts share the study's level, all others have it each."""
    if level == alpha:
        return f"every interval is at {figures.format_percent(1 - alpha)}"
    return (
        f"their intervals are at {figures.format_percent(1 - level)}; those of exploratory comparisons, and of one "
        f"treatment by itself, do not share it and are at {figures.format_percent(1 - alpha)}"
    )


def _describe_looks(report: ReportInput) -> Iterable[str]:
    """When a sequential run looked, and what a look had to see."""
    looks = report.manifest.plan.looks
    if not looks:
        return
    known = [look for look in looks if look.boundary is not None]
    if not known:
        yield f"one at the end, and with at most {looks[-1].blocks} blocks it cannot decide anything."
        return
    after = figures.join_listing(f"{look.blocks} (|W+ − W−| ≥ {look.boundary}, p ≤ {look.level:.2g})" for look in known)
    yield (
        f"fixed before the run, after these numbers of planned blocks: {after}. The study ends when every primary "
        "comparison is decided; one that is decided keeps what it said then. Boundaries spend the level evenly over "
        "the blocks, and intervals hold at all looks together, so that to stop early does not pay; p is of its look "
        "alone, and held against that look's own bound. Comparisons that were not fixed beforehand, and intervals of "
        "one treatment by itself, use all blocks and know of no looks: they only describe."
    )


def _find_fact(facts: Mapping[str, Any], group: str, name: str) -> object:
    """One of the probe's facts, or None: an older or a cut record may lack it."""
    found = facts.get(group)
    return found.get(name) if isinstance(found, Mapping) else None


def _write_commands(report: ReportInput) -> str:
    manifest = report.manifest
    command = [
        "nearmetal",
        "run",
        f"{manifest.study.name}.toml",
        *(word for override in manifest.overrides for word in ("--set", override)),
        *(["--quick"] if manifest.quick else []),
        "-o",
        f"{manifest.run}-again",
    ]
    return f"# save the study file below as {manifest.study.name}.toml, then\n{shlex.join(command)}"


plugin = BuiltInSection("method", "Method", 70, _render)
