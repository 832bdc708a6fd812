"""A study measured from a script: `nearmetal.run_study(study)`."""

import asyncio
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearmetal.errors import BadInput, HostCannot
from nearmetal.model import Study
from nearmetal.opened_run import Run
from nearmetal.planning import noise_evidence
from nearmetal.planning import plan as planning
from nearmetal.planning.opened_study import OpenedStudy, open_text, read_study
from nearmetal.progress_messages import ignore_text
from nearmetal.run import study_execution
from nearmetal.run.versions import makes_machines
from nearmetal.study.resolve import resolve_treatments
from nearmetal.system.interrupts import until_interrupted


def render_toml(document: Mapping[str, object]) -> str:
    """TOML of strings, booleans, numbers, sequences and mappings. BadInput, with the key's name, of anything else."""
    return "".join(f"{_quote(name)} = {_render_value(value, name)}\n" for name, value in document.items())


def _render_value(value: object, name: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case float() if not math.isfinite(value):
            return f"{value:f}"  # "inf" and "nan", as TOML has them
        case int() | float():
            return repr(value)
        case Mapping():
            inside = (f"{_quote(key)} = {_render_value(one, f'{name}.{key}')}" for key, one in value.items())
            return f"{{ {', '.join(inside)} }}"
        case Sequence() if not isinstance(value, bytes | bytearray):
            return f"[{', '.join(_render_value(one, name) for one in value)}]"
    raise BadInput(
        f"{name}: a study has no value such as {value!r:.60}", "", "give text, a number, a list or a mapping"
    )


def _quote(text: object) -> str:
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.60} is not the name of a key", "", "a study's keys are text")
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def run_study(
    study: str | Path | Mapping[str, Any], output: str | Path | None, blocks: int | None, seed: int | None, quick: bool
) -> Run:
    """As `nearmetal.run_study`, which has the words for it."""
    _refuse_event_loop()
    if isinstance(study, Mapping):
        opened = open_text(render_toml(study), "the study", Path(), (), blocks, seed, quick)
    else:
        opened = read_study(str(study), blocks=blocks, seed=seed, quick=quick)
    _refuse_ordinary_user(opened.study)
    request = _make_request(opened, output)
    if not until_interrupted(study_execution.start_run(request, ignore_text, ()), ignore_text):
        raise KeyboardInterrupt
    return Run(request.folder)


def _refuse_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise HostCannot("a study cannot be run inside an event loop, as a notebook has one", remedy="nearmetal run STUDY")


def _refuse_ordinary_user(study: Study) -> None:
    """The command line would enter a user namespace. A caller's process would never come out of it, its files and its
    user would be others, and the kernel lets no process in that has threads."""
    if os.geteuid() != 0 and makes_machines(study):
        what = "machines cannot be made: a Python program of an ordinary user does not enter a user namespace"
        remedy = "nearmetal run STUDY, then nearmetal.open_run(RUN); or run the program as root"
        raise HostCannot(what, study.name, remedy)


def _make_request(opened: OpenedStudy, output: str | Path | None) -> study_execution.RunRequest:
    study = noise_evidence.open_number(opened.study)
    folder = Path(output) if output is not None else study_execution.default_folder(study)
    request = study_execution.RunRequest(
        opened.study, opened.source, opened.overrides, opened.quick, folder, available=False, files=opened.files
    )
    if opened.study.design.blocks != "auto":
        return request
    plan = planning.make_plan(study, [], resolve_treatments(study, opened.files))
    place = opened.place_of(("design", "blocks"))
    return request.with_blocks(
        *noise_evidence.fix_blocks(opened.study, plan, noise_evidence.gather_evidence(study), place)
    )
