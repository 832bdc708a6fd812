"""The report as one self-contained page: no font, nothing from the network, and one script, which may be missing."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from nearmetal.report import figures, palette, table_values, words
from nearmetal.report.blocks import Section
from nearmetal.report.drawing import Picture
from nearmetal.report.page_filter import make_filter
from nearmetal.report.report_input import ReportInput

_FOLDED = ("exploratory", "method", "study-file")
"""Chapters that are closed until somebody asks for them."""


PictureKey = tuple[str, str, bool]
"""Chart's name, panel's name, whether it is the narrow one."""

_PLACE = re.compile("\0([^\0]*)\0")
"""Of a picture in a page; no text of a page has this character."""


def render_html(report: ReportInput, sections: Sequence[Section], pictures: Iterable[PictureKey]) -> str:
    """The page, with a place for each of the pictures, which `put_pictures` fills."""
    return (
        make_environment()
        .get_template("report.html.j2")
        .render(
            manifest=report.manifest,
            blocks=report.blocks,
            trials=report.analysis.trials,
            sections=sections,
            legend=report.colours,
            folded=_FOLDED,
            drawings={key: Markup(f"\0{json.dumps(key)}\0") for key in pictures},
            style=Markup(render_style()),
            page_filter=make_filter(report),
            script=Markup(read_script()),
            policy=make_policy(),
        )
    )


def put_pictures(rendered: str, pictures: Mapping[PictureKey, Picture]) -> str:
    """The page with its pictures, which are escaped when drawn."""
    by_place = {json.dumps(key): picture.svg for key, picture in pictures.items()}
    return _PLACE.sub(lambda place: by_place[place[1]], rendered)


def make_environment(*packages: str) -> Environment:
    """Templates of these packages, and the report's: whatever they write is escaped, unless it is markup of ours."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "nearmetal.report")]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_make_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["people"] = table_values.show_value
    found.filters["breakable"] = make_breakable
    found.filters["prose"] = keep_units
    found.globals |= {
        "shown": table_values.list_columns,
        "repeated": table_values.count_repeated,
        "count": figures.format_count,
    }
    return found


def _make_harmless(value: object) -> object:
    """Whatever the template writes: text from a study without characters that steer or reorder."""
    return words.strip_controls(value) if type(value) is str else value


def make_breakable(text: str) -> Markup:
    """A name or a path of more than 20 characters is broken behind its marks where it does not fit, not in a word."""
    names = re.split(r"(\S{21,})", str(escape(words.strip_controls(text))))
    names[1::2] = [re.sub(r"(?<=\w)[_./](?=[A-Za-z])", r"\g<0><wbr>", name) for name in names[1::2]]
    return Markup("".join(names))  # escaped


_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|×|[nµm]?s|min|h|(?:[KMGT]i)?B|[kMG]?bit)(?!\w))")


def keep_units(text: object) -> object:
    """Text of which no line begins with the unit of a figure that ends the line above."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text) if type(text) is str else text


def render_style() -> str:
    """The style sheet, with a rule for each colour that means something else in the dark."""
    rules = [
        f'.picture [{attribute}="{colour}"]{{{attribute}:var(--{role})}}'
        for role, colour in palette.ROLES.items()
        for attribute in ("fill", "stroke")
    ]
    return read_template("nearmetal.report", "report.css") + "\n".join(rules)


def read_script() -> str:
    """The page's only script: it works on the pictures, which are complete without it."""
    return read_template("nearmetal.report", "report.js")


def make_policy() -> str:
    """What a browser lets the page do: it loads nothing, and runs no script but ours, known by its hash."""
    digest = b64encode(hashlib.sha256(read_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def read_template(package: str, name: str) -> str:
    return (files(package) / "templates" / name).read_text("utf-8")
