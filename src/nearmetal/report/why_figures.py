"""How an attributed figure is written: its change in words, and whether it differs. Pure."""

from nearmetal.analysis.attribution import TraitContrast
from nearmetal.report import figures, words
from nearmetal.report.blocks import Badge, Value
from nearmetal.report.table_parts import list_ends


def show_difference(one: TraitContrast) -> str:
    """ "2.1 × (1.9 to 2.3)", "+0.4 (+0.2 to +0.5)"."""
    return words.format_size(one.estimate, one.interval, one.scale, one.trait.unit)


def write_clause(one: TraitContrast) -> str:
    """ "2.1 × the packets for each request (1.9 to 2.3)", "+0.4 super-segments for each request (+0.2 to +0.5)"."""
    change, bracket, spread = show_difference(one).partition(" (")
    if one.scale == "ratio":
        what = f"the {one.trait.title}"
    else:
        what = f"in the {one.trait.title}" if one.trait.unit else one.trait.title
    return f"{change} {what}{bracket}{spread}"


def list_values(one: TraitContrast) -> tuple[Value, ...]:
    """For programs: estimate, low and high end of the interval, scale, unit, blocks."""
    return *list_ends(one.estimate, one.interval), one.scale, one.trait.unit, one.blocks


def by_chance(level: float) -> str:
    """What intervals that are not corrected for their number do to a table of many."""
    return f"where nothing differs, up to {figures.format_percent(level)} of the figures look as if they did"


def count_by_chance(compared: int, level: float) -> str:
    """How many of so many comparisons look different if none is, each by an interval of its own."""
    return f"by chance alone {compared * level:.2g} would on average, at most"


def badge_difference(one: TraitContrast) -> Badge:
    if one.interval is None:
        return Badge("too few blocks")
    if one.is_same:
        return Badge(words.SAME)
    return Badge("hardly differs" if one.is_slight else "differs" if one.differs else "undecided")
