"""Workloads and their parameters, for every combination of levels that is written into them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, starmap

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.model import COSTS, OF_THE_BOOT, Identity, Level, Study, Workload, WorkloadSpec, identify_assignment
from nearmetal.spelling import did_you_mean
from nearmetal.study import factors as words
from nearmetal.study.error_messages import (
    StudyText,
    check_each,
    describe_error,
    find_top_place,
    join_mistakes,
    keys_of,
    show_value,
)
from nearmetal.study.key_suggestions import find_workload_hint
from nearmetal.study.levels import fill_placeholders, find_placeholders, format_assignment
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.plugin_answers import validate_parameters
from nearmetal.study.resolve import build_workload, collect_ports, collect_services, lengthen_load

_MANUAL = "docs/workloads.md says what each kind takes"


def check_workloads(study: Study, where: StudyText) -> None:
    seen: set[str] = set()
    for index, workload in enumerate(study.workloads):
        path: KeyPath = ("workloads", index)
        if workload.name in seen:
            raise where.make_error((*path, "name"), f"two workloads are called {workload.name!r}", "rename one")
        seen.add(workload.name)
        kinds = plugins.list_names("workloads")
        if workload.kind not in kinds:
            what = f"there is no kind of workload {show_value(workload.kind)}"
            raise where.make_error((*path, "kind"), what, did_you_mean(workload.kind, kinds, "kinds"))
        _check_placeholders(index, workload, study, where)


def check_loads(study: Study, where: StudyText) -> None:
    """A workload is measured under the load of another one that makes any, for as long as it is asked, beside it."""
    named = {workload.name: workload for workload in study.workloads}
    for index, workload in enumerate(study.workloads):
        if workload.under is None:
            continue
        path: KeyPath = ("workloads", index, "under")
        load = named.get(workload.under)
        if load is None:
            what = f"there is no workload {workload.under!r} to be under"
            raise where.make_error(path, what, did_you_mean(workload.under, named, "workloads"))
        if load.under is not None or load is workload:
            what = (
                f"{load.name!r} is itself measured under a load"
                if load is not workload
                else "no workload is under itself"
            )
            raise where.make_error(path, what, "name a workload that is under no other")
        names = list(dict.fromkeys(name for one in (workload, load) for name in find_placeholders(one.parameters)))
        for levels in _combine_levels(names, study):
            _check_pair(_fill_workload(workload, levels), _fill_workload(load, levels), levels, path, study, where)


def _check_pair(
    measured: WorkloadSpec,
    load: WorkloadSpec,
    levels: Mapping[str, Level],
    path: KeyPath,
    study: Study,
    where: StudyText,
) -> None:
    """The one goes on for as long as the other is measured, and each has a port of its own in the server."""
    with_levels = f" (with {format_assignment(levels)})" if levels else ""
    if lengthen_load(load, 1) is None:
        what = f"{load.name!r}{with_levels} makes no load that goes on for as long as is wanted"
        raise where.make_error(path, what, "name one of kind iperf3 or httperf, or http that is no ramp")
    parameters = [(one.kind, validate_parameters(one)) for one in (measured, load)]
    own, services = starmap(collect_ports, parameters), starmap(collect_services, parameters)
    of_services = [{study.services[name].port for name in some if name in study.services} for some in services]
    (one, other), (its, others) = map(set, own), of_services
    if both := sorted(one & other or one & others or its & other, key=str):
        what = f"{measured.name!r} and {load.name!r}{with_levels} each start a server on port {both[0]}"
        raise where.make_error(path, what, 'give one of them another server: server = "probe", or a service')


def _fill_workload(workload: WorkloadSpec, levels: Mapping[str, Level]) -> WorkloadSpec:
    return WorkloadSpec.model_validate(fill_placeholders(workload.model_dump(), levels))


def _check_placeholders(index: int, workload: WorkloadSpec, study: Study, where: StudyText) -> None:
    for key, value in workload.parameters.items():
        for name in find_placeholders(value):
            path = ("workloads", index, key)
            if name not in study.factors:
                what = f"the placeholder {{{name}}} has no factor"
                raise where.make_error(path, what, did_you_mean(name, study.factors, "factors"))
            if not words.is_everywhere(study.factors, name):
                what = f"the placeholder {{{name}}} has no level where the `when` of `{name}` does not hold"
                raise where.make_error(path, what, f"give `{name}` a level everywhere: remove its `when`")


def check_workload_parameters(study: Study, where: StudyText) -> None:
    """Every workload, filled with every combination of the levels that stand in it, must make sense."""
    check_each(lambda one: _check_filled(*one, study, where), enumerate(study.workloads))


def _check_filled(index: int, workload: WorkloadSpec, study: Study, where: StudyText) -> None:
    for levels, spec in iterate_filled(workload, study):
        built = _check_parameters(index, spec, levels, where)
        _check_judged(index, spec, built, study.design.share_boot, where)


def iterate_filled(workload: WorkloadSpec, study: Study) -> Iterator[tuple[dict[str, Level], WorkloadSpec]]:
    """A workload with each combination of the levels that stand in it."""
    names = list(dict.fromkeys(find_placeholders(workload.parameters)))
    for levels in _combine_levels(names, study):
        yield levels, _fill_workload(workload, levels)


def _combine_levels(names: Sequence[str], study: Study) -> Iterator[dict[str, Level]]:
    """Each combination of the levels of these factors that some treatment has."""
    if study.design.crossing == "full":
        for levels in product(*(study.factors[name].levels for name in names)):
            yield dict(zip(names, levels, strict=True))
        return
    seen: set[Identity] = set()
    for treatment in words.treatments_of(study):
        found = {name: treatment[name] for name in names}
        if identify_assignment(found) not in seen:
            seen.add(identify_assignment(found))
            yield found


def _check_parameters(index: int, spec: WorkloadSpec, levels: dict[str, Level], where: StudyText) -> Workload:
    known = keys_of(plugins.load("workloads", spec.kind).Parameters)

    def refuse_key(key: str) -> None:
        what = f"unknown key `{key}` in a workload of kind {spec.kind}"
        path: KeyPath = ("workloads", index, key)
        hint = find_workload_hint(spec.kind, key) or find_top_place(path, where)
        known_keys = ["name", "kind", "primary", "headlines", *known]
        raise where.make_error(path, what, hint or did_you_mean(key, known_keys, "known keys"))

    check_each(refuse_key, (key for key in spec.parameters if key not in known))
    try:
        return build_workload(spec)
    except ValidationError as error:
        # A number of texts and tables may be tried for one key: the first says what is wrong.
        firsts = {str(one["loc"][:1]): one for one in reversed(error.errors(include_url=False))}
        told = [_wrong_parameter(one, index, spec, levels, where) for one in reversed(firsts.values())]
        raise join_mistakes(told) from None


def _check_judged(index: int, spec: WorkloadSpec, workload: Workload, share_boot: bool, where: StudyText) -> None:
    """The primary response and the headlines: each once, and each one that the workload has."""
    if spec.primary is not None:
        _check_response(spec.primary, ("workloads", index, "primary"), spec, workload, share_boot, where)
    told = {spec.primary or workload.primary}
    for name in spec.headlines:
        at = ("workloads", index, "headlines")
        _check_response(name, at, spec, workload, share_boot, where)
        if name in told:
            what = f"workload {spec.name!r} has {name!r} as its primary response, or twice as a headline"
            raise where.make_error(at, what, "name each response once")
        told.add(name)


def _check_response(
    name: str, at: KeyPath, spec: WorkloadSpec, workload: Workload, share_boot: bool, where: StudyText
) -> None:
    """One of the workload's own, or of what every trial has; but what several workloads have of one boot is of none."""
    responses = (*workload.responses, *(cost for cost in COSTS if not (share_boot and cost in OF_THE_BOOT)))
    if name in responses:
        return
    if name in OF_THE_BOOT:
        what = f"with share_boot {name!r} is of a boot, and of no workload"
        remedy = "set design.share_boot to false, or choose another response"
    else:
        what = f"workload {spec.name!r} ({spec.kind}) has no response {name!r}"
        remedy = did_you_mean(name, responses, "responses")
    raise where.make_error(at, what, remedy)


def _wrong_parameter(
    first: ErrorDetails, index: int, spec: WorkloadSpec, levels: dict[str, Level], where: StudyText
) -> BadInput:
    name = str(first["loc"][0]) if first["loc"] else ""
    with_levels = f" (with {format_assignment(levels)})" if levels else ""
    subject = f"workload {spec.name!r}{with_levels}" + (f", `{name}`" if name else "")
    if first["type"] == "missing":
        return where.make_error(("workloads", index), f"{subject} is missing", _MANUAL)
    return where.make_error(("workloads", index, name), *describe_error(subject, first, _MANUAL))
