"""A lab file: the hosts of a room or rack, as [hosts] of a study has them, for any study.

Its tables are laid over those of a study as if the command line had set them. So a run's manifest has them, and the run
can go on without the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nearmetal.errors import BadInput
from nearmetal.model import Frozen, HostSpec
from nearmetal.spelling import did_you_mean
from nearmetal.study.checks.hosts import check_hosts
from nearmetal.study.error_messages import StudyText, explain_error, refuse_what_nothing_takes
from nearmetal.units import AS_WRITTEN


class _Hosts(Frozen):
    hosts: Mapping[str, HostSpec]


def read_lab_file(path: Path) -> str:
    """The text of a lab file. BadInput."""
    remedy = "name a file with the lab's [hosts]: docs/hosts.md"
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput("this is not a text file", str(path), remedy) from None
    except OSError as error:
        raise BadInput(f"the lab file cannot be read: {error.strerror}", str(path), remedy) from None


def read_lab(text: str, file: str) -> Mapping[str, HostSpec]:
    """The hosts that a lab file describes, by name, in its order. BadInput."""
    where = StudyText(text, file)
    return _read_hosts(where)


def _read_hosts(where: StudyText) -> Mapping[str, HostSpec]:
    raw = where.raw
    refuse_what_nothing_takes(where, raw)
    for key in raw:
        if key != "hosts":
            remedy = f"{did_you_mean(key, ['hosts'], 'known tables')}; all else belongs into the study"
            raise where.make_error((key,), f"unknown key `{key}` in a lab file", remedy)
    if not raw.get("hosts"):
        raise where.make_error((), "the lab has no host", 'describe each: [hosts.c1] ssh = "user@10.0.0.2"')
    try:
        hosts: Mapping[str, HostSpec] = _Hosts.model_validate(raw, context=AS_WRITTEN).hosts
    except ValidationError as error:
        raise explain_error(error, raw, where) from None
    check_hosts(hosts, where)
    return hosts


def build_overrides(text: str, file: str) -> list[str]:
    """A lab's hosts as words of `--set`. BadInput."""
    where = StudyText(text, file)
    return [f"hosts.{_quote(name)}={_write_inline(where.raw['hosts'][name])}" for name in _read_hosts(where)]


def _write_inline(table: Mapping[str, Any]) -> str:
    """A table on one line of TOML. JSON's texts and lists are TOML's too."""
    return "{" + ", ".join(f"{_quote(key)} = {_quote(value)}" for key, value in table.items()) + "}"


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
