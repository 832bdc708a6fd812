"""A study file: TOML to `Study`, with errors that name file, line and remedy. Pure: the text is passed in."""

import difflib
import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic import ValidationError

from nearmetal import factors as words
from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.lines import KeyPath, line_of, locate
from nearmetal.model import EnvironmentSpec, Level, Provision, Study, Workload, WorkloadSpec
from nearmetal.units import AS_WRITTEN

MOST_TRIALS = 1_000_000
_STRENGTH: Sequence[Provision] = ("boot", "restart", "restore", "reuse")


class StudyText:
    """The text of a study file, and how to point at a place in it."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._lines = locate(text)

    def wrong(self, path: KeyPath, what: str, remedy: str) -> BadInput:
        return BadInput(what, f"{self.file}:{line_of(self._lines, path)}", remedy)


def read(text: str, file: str, overrides: Sequence[str] = (), quick: bool = False) -> Study:
    """The study that a file describes. BadInput for whatever could not be carried out as written.

    `overrides` are `table.key=value` as `--set` takes them; `quick` applies the file's own [quick] table.
    """
    where = StudyText(text, file)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = next(iter(_numbers_after("line ", str(error))), 1)
        raise BadInput(f"this is not TOML: {error}", f"{file}:{line}", "see https://toml.io for the syntax") from None
    scaled_down = raw.pop("quick", None)
    if quick:
        if not isinstance(scaled_down, dict):
            raise where.wrong((), "--quick, but the study has no [quick] table", "say in [quick] what a quick run sets")
        _merge(raw, scaled_down)
    for override in overrides:
        _merge(raw, _override(override))
    return _checked(raw, where)


def digest(study: Study) -> str:
    """sha256 of what the study asks for, whatever its file looks like."""
    return hashlib.sha256(study.model_dump_json().encode()).hexdigest()


def _numbers_after(marker: str, text: str) -> Iterable[int]:
    for piece in text.split(marker)[1:]:
        digits = piece.split(",")[0].split(")")[0]
        if digits.isdigit():
            yield int(digits)


def _merge(raw: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Lay one table over another; [[workloads]] are met by name."""
    for key, value in over.items():
        if key == "workloads" and isinstance(value, list) and isinstance(raw.get(key), list):
            for entry in value:
                same = [old for old in raw[key] if isinstance(entry, dict) and old.get("name") == entry.get("name")]
                if same:
                    same[0].update(entry)
                else:
                    raw[key].append(entry)
        elif isinstance(value, dict) and isinstance(raw.get(key), dict):
            _merge(raw[key], value)
        else:
            raw[key] = value


def _override(text: str) -> dict[str, Any]:
    """`machine.nic=e1000` as nested tables. The value is TOML where it reads as TOML, else text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise BadInput(f"--set {text!r} is not KEY=VALUE", remedy="write it like --set machine.nic=e1000")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for part in reversed(path.strip().split(".")):
        parsed = {part: parsed}
    return parsed  # type: ignore[no-any-return]


def _checked(raw: dict[str, Any], where: StudyText) -> Study:
    given = raw.get("factors")
    if not isinstance(given, dict) or "environment" not in given:
        raise where.wrong(
            ("factors",) if isinstance(given, dict) else (),
            "the study has no factor `environment`",
            'say where to measure: [factors] environment = ["host", "docker"]',
        )
    raw["factors"] = {name: value if isinstance(value, dict) else {"levels": value} for name, value in given.items()}
    try:
        study = Study.model_validate(raw, context=AS_WRITTEN)
    except ValidationError as error:
        raise _explained(error, raw, where) from None
    for check in (_factors, _environments, _workloads, _targets, _reference, _size, _combinations):
        check(study, where)
    return study


# ── What the file's shape can get wrong ───────────────────────────────────────────────────────────────────────────

_UNION_MARKS = ("bool", "int", "float", "str", "SequentialBlocks", "CaptureSpec", "tuple[", "function-", "constrained-")


def _explained(error: ValidationError, raw: Mapping[str, Any], where: StudyText) -> BadInput:
    """The first thing that is wrong, in our words. pydantic tries each type of a union: the last one is told."""
    first = error.errors()[0]
    path: KeyPath = tuple(
        part for part in first["loc"] if not (isinstance(part, str) and part.startswith(_UNION_MARKS))
    )
    name = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        return where.wrong(path, f"unknown key `{name}`", _known_keys(path, raw))
    if first["type"] == "missing":
        return where.wrong(path, f"`{name}` is missing", f"add it: {_EXAMPLES.get(path[-1], f'{path[-1]} = …')}")
    if path[:1] == ("factors",) and "levels" in path:
        factor = path[1]
        if first["type"] == "too_short":
            return where.wrong(path, f"the factor `{factor}` has no levels", "give it at least one")
        return where.wrong(
            path, f"the levels of `{factor}` must be a list of numbers, texts or booleans", f'{factor} = ["a", "b"]'
        )
    message = first["msg"].removeprefix("Value error, ")
    shown = first["input"] if not isinstance(first["input"], dict | list) else "this table"
    return where.wrong(path, f"`{name}` cannot be {shown!r}: {message}", "see the study file reference in the manual")


_EXAMPLES: dict[str | int, str] = {
    "name": 'name = "my-study"',
    "workloads": '[[workloads]] name = "web", kind = "http"',
    "kind": 'kind = "http"',
    "levels": 'levels = ["a", "b"]',
}


def _known_keys(path: KeyPath, raw: Mapping[str, Any]) -> str:
    from nearmetal import model

    tables: dict[str | int, Any] = {
        "clients": model.ClientsSpec,
        "link": model.LinkSpec,
        "observe": model.ObserveSpec,
        "design": model.DesignSpec,
        "factors": model.FactorSpec,
        "hosts": model.HostSpec,
    }
    keys = list((tables.get(path[0], Study) if len(path) > 1 else Study).model_fields)
    return _did_you_mean(str(path[-1]), keys, "known keys")


def _did_you_mean(word: str, choices: Iterable[str], what: str) -> str:
    choices = list(choices)
    near = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean `{near[0]}`?" if near else f"{what}: {', '.join(choices)}"


# ── What it can get wrong although its shape is right ─────────────────────────────────────────────────────────────


def _factors(study: Study, where: StudyText) -> None:
    name_pattern = r"letters, digits and . _ - only"
    for name, factor in study.factors.items():
        if not _is_name(name):
            raise where.wrong(("factors", name), f"{name!r} cannot be a factor's name", name_pattern)
        for position, level in enumerate(factor.levels):
            if any(words.same(level, other) for other in factor.levels[:position]):
                raise where.wrong(
                    ("factors", name, "levels"), f"the factor `{name}` has the level {level!r} twice", "remove one"
                )
        for other, levels in words.conditions(factor).items():
            path = ("factors", name, "when")
            if other not in study.factors:
                raise where.wrong(
                    path,
                    f"`when` of `{name}` names {other!r}, which is no factor",
                    _did_you_mean(other, study.factors, "factors"),
                )
            for level in levels:
                if not any(words.same(level, known) for known in study.factors[other].levels):
                    raise where.wrong(
                        path,
                        f"`when` of `{name}` never holds: {other} is never {level!r}",
                        f"levels of {other}: {', '.join(map(repr, study.factors[other].levels))}",
                    )
    try:
        words.in_order(study.factors)
    except ValueError as error:
        raise where.wrong(("factors",), str(error), "let the outer factor be free of conditions") from None


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 100 and all(character.isalnum() or character in "._-" for character in text)


def _environments(study: Study, where: StudyText) -> None:
    kinds = plugins.names("environments")
    for name, spec in study.environments.items():
        if not _is_name(name):
            raise where.wrong(
                ("environments", name), f"{name!r} cannot be an environment's name", "letters, digits and . _ - only"
            )
        if spec.kind not in kinds:
            raise where.wrong(
                ("environments", name, "kind"),
                f"there is no kind of environment {spec.kind!r}",
                _did_you_mean(spec.kind, kinds, "kinds"),
            )
    for level in study.factors["environment"].levels:
        if not isinstance(level, str) or (level not in study.environments and level not in kinds):
            raise where.wrong(
                ("factors", "environment"),
                f"there is no environment {level!r}",
                _did_you_mean(str(level), [*study.environments, *kinds], "environments"),
            )
        _provision(study, level, where)
    if study.clients.environment not in (*study.environments, *kinds):
        raise where.wrong(
            ("clients", "environment"),
            f"there is no environment {study.clients.environment!r} for clients",
            _did_you_mean(study.clients.environment, [*study.environments, *kinds], "environments"),
        )
    for table, host in (("machine", study.machine.host), ("clients", study.clients.host)):
        if host != "local" and host not in study.hosts:
            raise where.wrong(
                (table, "host"), f"[{table}] is placed on {host!r}, which is no host", f"declare it: [hosts.{host}]"
            )


def _provision(study: Study, level: str, where: StudyText) -> None:
    spec = study.environment(level)
    can: Sequence[Provision] = plugins.load("environments", spec.kind).provisions
    wanted = provision_of(study, spec)
    if wanted not in can:
        path: KeyPath = ("environments", level) if level in study.environments else ("design", "provision")
        raise where.wrong(
            path,
            f"{level!r} cannot be provisioned by {wanted!r}: {spec.kind} can {', '.join(can)}",
            f'say so for it alone: [environments.{level}] kind = "{spec.kind}", provision = "{can[0]}"',
        )


def provision_of(study: Study, spec: EnvironmentSpec) -> Provision:
    """How an environment's machines are provisioned: as it says itself, else as the design says."""
    return spec.provision or study.design.provision


def _workloads(study: Study, where: StudyText) -> None:
    seen: set[str] = set()
    for index, workload in enumerate(study.workloads):
        path: KeyPath = ("workloads", index)
        if workload.name in seen:
            raise where.wrong((*path, "name"), f"two workloads are called {workload.name!r}", "rename one")
        seen.add(workload.name)
        if workload.kind not in plugins.names("workloads"):
            raise where.wrong(
                (*path, "kind"),
                f"there is no kind of workload {workload.kind!r}",
                _did_you_mean(workload.kind, plugins.names("workloads"), "kinds"),
            )
    for name in sorted(words.placeholders(study) - study.factors.keys()):
        index = next(i for i, workload in enumerate(study.workloads) if f"{{{name}}}" in workload.model_dump_json())
        raise where.wrong(
            ("workloads", index),
            f"the placeholder {{{name}}} has no factor",
            _did_you_mean(name, study.factors, "factors"),
        )


def _targets(study: Study, where: StudyText) -> None:
    treatments = plugins.names("treatments")
    taken: dict[words.Target, str] = {}
    for name, factor in study.factors.items():
        try:
            aim = words.target(name, factor, study, treatments)
        except words.NoTarget as error:
            raise where.wrong(("factors", name), str(error), 'say what it sets: sets = "machine.nic"') from None
        if aim in taken:
            raise where.wrong(
                ("factors", name), f"`{name}` and `{taken[aim]}` both set {aim.key}", "make them one factor"
            )
        taken[aim] = name
        if aim.kind == "treatment":
            for level in factor.levels:
                _treatment(("factors", name), aim.key, level, where)
    for name, level in study.machine.settings.items():
        if name not in treatments:
            known = [*type(study.machine).model_fields, *treatments]
            raise where.wrong(
                ("machine", name), f"unknown key `machine.{name}`", _did_you_mean(name, known, "known keys")
            )
        _treatment(("machine", name), name, level, where)


def _treatment(path: KeyPath, name: str, level: Level, where: StudyText) -> None:
    problem = plugins.load("treatments", name).problem(level)
    if problem:
        raise where.wrong(path, f"{name} cannot be {level!r}", problem)


def _reference(study: Study, where: StudyText) -> None:
    for name, level in study.reference.items():
        if name not in study.factors:
            raise where.wrong(
                ("reference", name),
                f"the reference names {name!r}, which is no factor",
                _did_you_mean(name, study.factors, "factors"),
            )
        if not any(words.same(level, known) for known in study.factors[name].levels):
            raise where.wrong(
                ("reference", name),
                f"the reference has {name} = {level!r}, which is none of its levels",
                f"levels: {', '.join(map(repr, study.factors[name].levels))}",
            )


def treatments_of(study: Study) -> Iterable[dict[str, Level]]:
    """Every combination that the design asks for, lazily."""
    if study.design.crossing == "one-at-a-time":
        return words.one_at_a_time(study)
    return words.combinations(study.factors)


def _size(study: Study, where: StudyText) -> None:
    blocks = study.design.blocks
    if not isinstance(blocks, int):
        if blocks.min > blocks.max:
            raise where.wrong(
                ("design", "blocks"), f"min = {blocks.min} is more than max = {blocks.max}", "swap the two"
            )
        blocks = blocks.max
    each = blocks * study.design.repeats * len(study.workloads)
    most = MOST_TRIALS // each
    if sum(1 for _ in islice(treatments_of(study), most + 1)) > most:
        raise where.wrong(
            ("factors",),
            f"the study has more than {MOST_TRIALS:,} trials",
            'fewer levels or blocks, or crossing = "one-at-a-time"',
        )


def _combinations(study: Study, where: StudyText) -> None:
    """Every level, put in its place, must make sense there; each level is tried once."""
    treatments = plugins.names("treatments")
    tried: set[tuple[str, str]] = set()
    held: set[str] = set()
    for assignment in treatments_of(study):
        held |= assignment.keys()
        fresh = {(name, repr(level)) for name, level in assignment.items()} - tried
        if not fresh:
            continue
        tried |= fresh
        try:
            asked = words.ask(study, assignment, treatments)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(next((name for name, _ in fresh if name == first["loc"][0]), next(iter(fresh))[0]))
            raise where.wrong(
                ("factors", name),
                f"{first['input']!r} cannot be a level of `{name}`: {first['msg'].removeprefix('Value error, ')}",
                "give every level its unit, like 512MiB or 60s, where the key has one",
            ) from None
        for index, workload in enumerate(asked.workloads):
            _parameters(index, workload, where)
    for name in study.factors.keys() - held:
        raise where.wrong(("factors", name, "when"), f"the `when` of `{name}` never holds", "name levels that meet")


def workload_of(spec: WorkloadSpec) -> Workload:
    """Build a workload from its entry. pydantic's ValidationError when a parameter does not fit."""
    kind = plugins.load("workloads", spec.kind)
    built: Workload = kind(kind.Parameters.model_validate(spec.parameters, context=AS_WRITTEN))
    return built


def primaries(study: Study) -> dict[str, str]:
    """Workload name to the response its verdicts are about."""
    first = next(iter(treatments_of(study)))
    asked = words.ask(study, first, plugins.names("treatments"))
    return {spec.name: spec.primary or workload_of(spec).primary for spec in asked.workloads}


def _parameters(index: int, spec: WorkloadSpec, where: StudyText) -> None:
    try:
        workload = workload_of(spec)
    except ValidationError as error:
        raise _wrong_parameter(error, index, spec, where) from None
    if spec.primary is not None and spec.primary not in workload.responses:
        raise where.wrong(
            ("workloads", index, "primary"),
            f"workload {spec.name!r} ({spec.kind}) has no response {spec.primary!r}",
            _did_you_mean(spec.primary, workload.responses, "responses"),
        )


def _wrong_parameter(error: ValidationError, index: int, spec: WorkloadSpec, where: StudyText) -> BadInput:
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    path: KeyPath = ("workloads", index, name)
    if first["type"] == "extra_forbidden":
        keys = ["name", "kind", "primary", *plugins.load("workloads", spec.kind).Parameters.model_fields]
        what = f"unknown key `{name}` in a workload of kind {spec.kind}"
        return where.wrong(path, what, _did_you_mean(name, keys, "known keys"))
    message = first["msg"].removeprefix("Value error, ")
    subject = f"`{name}` is wrong: " if name else ""
    return where.wrong(path, f"workload {spec.name!r}: {subject}{message}", "see docs/workloads.md")
