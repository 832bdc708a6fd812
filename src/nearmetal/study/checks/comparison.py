"""What is compared with what, and how much it is."""

from itertools import islice

from nearmetal.model import Study
from nearmetal.study import factors as words
from nearmetal.study.checks.factors import is_among, list_levels
from nearmetal.study.checks.treatments import LOOKED_AT
from nearmetal.study.levels import is_same_level
from nearmetal.study.lines import KeyPath
from nearmetal.study.text import MOST_TRIALS, StudyText, did_you_mean, show_value
from nearmetal.units import show_share


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
