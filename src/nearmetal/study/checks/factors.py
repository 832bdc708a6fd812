"""Names, and factors with their levels and conditions."""

import re
from collections.abc import Iterable, Sequence

from nearmetal.model import FactorSpec, Level, Study
from nearmetal.study import factors as words
from nearmetal.study.levels import identify_level, is_same_level
from nearmetal.study.text import StudyText, as_name, did_you_mean, show_value

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
