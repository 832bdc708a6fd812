"""What is compared with what, and how much it is."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from nearmetal.model import FactorSpec, Level, Study
from nearmetal.spelling import did_you_mean
from nearmetal.study import factors as words
from nearmetal.study.checks.treatments import LOOKED_AT
from nearmetal.study.error_messages import MOST_TRIALS, StudyText, as_name, show_value
from nearmetal.study.levels import identify_level, is_same_level
from nearmetal.study.line_numbers import KeyPath
from nearmetal.units import show_share

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_names(study: Study, where: StudyText) -> None:
    for table in ("factors", "environments", "services"):
        for name in getattr(study, table):
            if not NAME.fullmatch(name):
                raise where.make_error(
                    (table, name), f"{show_value(name)} cannot be a name in [{table}]", as_name(name)
                )


def check_factors(study: Study, where: StudyText) -> None:
    for name, factor in study.factors.items():
        path = ("factors", name, "levels")
        seen: set[tuple[str, Level]] = set()
        for level in factor.levels:
            if isinstance(level, str) and (len(level) > 200 or any(c in level for c in "\t\r\n")):
                raise where.make_error(
                    path, f"{show_value(level)} cannot be a level of `{name}`", "at most 200 characters, on one line"
                )
            if identify_level(level) in seen:
                raise where.make_error(
                    path, f"the factor `{name}` has the level {show_value(level)} twice", "remove one"
                )
            seen.add(identify_level(level))
    outer = study.factors["environment"]
    if outer.when or outer.sets:
        key = "when" if outer.when else "sets"
        raise where.make_error(
            ("factors", "environment", key), f"the factor `environment` cannot have `{key}`", f"remove `{key}`"
        )


def check_conditions(study: Study, where: StudyText) -> None:
    for name, factor in study.factors.items():
        _check_named(name, factor, study, where)
    try:
        words.in_order(study.factors)
    except ValueError as error:
        raise where.make_error(("factors",), str(error), "let the outer factor be free of conditions") from None
    for name, factor in study.factors.items():
        if factor.when and not all(words.list_demands(study.factors, name).values()):
            raise where.make_error(
                ("factors", name, "when"),
                f"the `when` of `{name}` never holds: what it asks for and what that asks for exclude each other",
                "name levels that can be had together",
            )


def _check_named(name: str, factor: FactorSpec, study: Study, where: StudyText) -> None:
    """Whether what a `when` names is there: factors, and levels of theirs."""
    path = ("factors", name, "when")
    for other, levels in words.list_conditions(factor).items():
        if other not in study.factors:
            what = f"`when` of `{name}` names {show_value(other)}, which is no factor"
            raise where.make_error(path, what, did_you_mean(other, study.factors, "factors"))
        if not levels:
            raise where.make_error(path, f"`when` of `{name}` never holds: it names no level of {other}", "name one")
        known = study.factors[other].levels
        unknown = next((level for level in levels if not is_among(level, known)), None)
        if unknown is not None:
            what = f"`when` of `{name}` never holds: {other} is never {show_value(unknown)}"
            raise where.make_error(path, what, f"levels of {other}: {list_levels(known)}")


def is_among(level: Level, levels: Iterable[Level]) -> bool:
    return any(is_same_level(level, known) for known in levels)


def list_levels(levels: Sequence[Level]) -> str:
    return ", ".join(show_value(level) for level in levels[:20]) + (", …" if len(levels) > 20 else "")


def check_reference(study: Study, where: StudyText) -> None:
    for name, level in study.reference.items():
        if name not in study.factors:
            what = f"the reference names {show_value(name)}, which is no factor"
            raise where.make_error(("reference", name), what, did_you_mean(name, study.factors, "factors"))
        if not is_among(level, study.factors[name].levels):
            what = f"the reference has {name} = {show_value(level)}, which is none of its levels"
            raise where.make_error(("reference", name), what, f"levels: {list_levels(study.factors[name].levels)}")


_BLOCKS = ("design", "blocks")


def check_aim(study: Study, where: StudyText) -> None:
    """That the number of blocks has one aim, and one that can be reached."""
    design = study.design
    if design.detect is not None and design.precision is not None:
        set_later = "detect" if ("design", "detect") in where.overrides else "precision"
        what = "`detect` and `precision` are two aims for one number of blocks"
        raise where.make_error(("design", set_later), what, "leave one of the two out")
    if design.detect is not None and design.detect <= design.margin:
        what = f"a difference of {show_share(design.detect)} lies within the margin of {show_share(design.margin)}"
        remedy = "it counts as equivalent: set `detect` above `margin`, or a smaller `margin`"
        raise where.make_error(("design", "detect"), what, remedy)
    if design.blocks == "auto" and design.detect is None and design.precision is None:
        what = 'blocks = "auto" has no aim'
        remedy = (
            'say which difference is to be found (detect = "5%"), or how narrow intervals are to be (precision = "2%")'
        )
        raise where.make_error(_BLOCKS, what, remedy)


def check_size(study: Study, where: StudyText) -> None:
    blocks = study.design.blocks
    if blocks == "auto":
        blocks = 1  # how many there will be is checked when it is known
    if not isinstance(blocks, int):
        if blocks.min > blocks.max:
            what = f"min = {blocks.min} is more than max = {blocks.max}"
            set_alone = (end for end in ("min", "max") if (*_BLOCKS, end) in where.overrides)
            raise where.make_error((*_BLOCKS, *islice(set_alone, 1)), what, "swap the two, or change one")
        blocks = blocks.max
    each = blocks * study.design.repeats * len(study.workloads)
    most = MOST_TRIALS // each
    if words.number_of_treatments(study, most) > most:
        path: KeyPath = ("factors",) if most > 0 else ("design",)
        what = f"the study has more than {MOST_TRIALS:,} trials"
        rest = 'or repeats, or crossing = "one-at-a-time"'
        remedy = f"fewer levels, blocks {rest}"
        of_a_block = words.number_of_treatments(study, MOST_TRIALS) * study.design.repeats * len(study.workloads)
        if most_blocks := MOST_TRIALS // of_a_block:
            path, remedy = _BLOCKS, f"at most {most_blocks:,} blocks; or fewer levels {rest}"
        raise where.make_error(path, what, remedy)


def check_counterparts(study: Study, where: StudyText) -> None:
    """Where a comparison with the reference brings a factor in, the reference must name its level.

    Only factors that have to do with a `when` can come in or go, so the others stand for themselves by one level.
    """
    nested = {name for name, factor in study.factors.items() if factor.when}
    decisive = {outer for factor in study.factors.values() for outer in factor.when} | nested
    if not nested:
        return
    few = {
        name: factor if name in decisive else factor.model_copy(update={"levels": factor.levels[:1]})
        for name, factor in study.factors.items()
    }
    skeleton = study.model_copy(update={"factors": few})
    for name, level in words.reference_of(study).items():
        if name not in decisive:
            continue
        for treatment in islice(words.treatments_of(skeleton), LOOKED_AT):
            if name in treatment and not is_same_level(treatment[name], level):
                try:
                    words.find_counterpart(study, treatment, name)
                except words.UnnamedLevel as error:
                    raise where.make_error(("reference",), str(error), error.remedy) from None
