"""What a combination of levels asks for, as the study writes it. Pure: the names that plugins add are passed in.

`resolve.py` makes a `Resolved` of it, with what environments, treatments and workloads say; an old manifest is
upgraded from it without them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearmetal import model
from nearmetal.study.factors import KnownNames, NoTarget, Target, find_aims, list_placeholders
from nearmetal.study.levels import fill_placeholders
from nearmetal.units import AS_WRITTEN


@dataclass(frozen=True)
class TreatmentRequest:
    environment: str
    machine: model.MachineSpec
    clients: model.ClientsSpec
    """With the level of `environment` that they have, also where the study says that it is the servers'."""
    is_same: bool
    """Whether the study says so."""
    client: model.MachineSpec | None
    """What each client is given, before treatments shape it. None: nothing that the study writes."""
    link: model.LinkSpec
    observe: model.ObserveSpec
    treatments: Mapping[str, model.Level]
    """Treatment name to level: those of [machine], overridden by the combination's."""
    workloads: tuple[model.WorkloadSpec, ...]
    """With placeholders filled."""
    settings: tuple[model.Setting, ...]


class TreatmentRequests:
    """Puts combinations into a study. Each table is validated once for each set of levels that it gets."""

    def __init__(self, study: model.Study, targets: Mapping[str, tuple[Target, ...]]) -> None:
        self._study = study
        self._targets = targets
        self._tables: dict[tuple[object, ...], Any] = {}
        fixed: Mapping[model.SettingTarget, Mapping[str, model.Level]] = {
            "treatment": study.machine.settings,
            "sysctl": study.kernel.sysctl,
        }
        self._fixed = tuple(
            model.Setting(factor=None, target=kind, key=key, level=level)
            for kind, levels in fixed.items()
            for key, level in levels.items()
        )
        self._settings: dict[tuple[str, type, model.Level], tuple[model.Setting, ...]] = {}
        self._filling = list_placeholders(study)  # also of factors that set a key beside

    def ask_treatment(self, assignment: model.Assignment) -> TreatmentRequest:
        """What a combination asks for. pydantic's ValidationError when a level does not fit the key it sets."""
        levels: dict[str, dict[str, model.Level]] = {"machine": {}, "clients": {}, "link": {}, "observe": {}}
        chosen = dict(self._study.machine.settings)
        for name, level in assignment.items():
            for its in self._targets[name]:
                if its.kind in levels:
                    levels[its.kind][its.key] = level
                elif its.kind == "treatment":
                    chosen[its.key] = level
        study = self._study
        clients = self._make_once("clients", levels["clients"], lambda of: set_levels(study.clients, of))
        machine = self._make_once("machine", levels["machine"], lambda of: set_levels(study.machine, of))
        is_same = clients.environment == model.SAME
        if is_same:
            levels["clients"]["environment"] = assignment["environment"]
            clients = self._make_once("clients", levels["clients"], lambda of: set_levels(study.clients, of))
        both = {"same": is_same} | {
            f"{table}.{key}": level for table in ("machine", "clients") for key, level in levels[table].items()
        }
        filling = {name: level for name, level in assignment.items() if name in self._filling}
        return TreatmentRequest(
            environment=str(assignment["environment"]),
            machine=machine,
            clients=clients,
            is_same=is_same,
            client=self._make_once("client", both, lambda _: ask_client(machine, clients, is_same)),
            link=self._make_once("link", levels["link"], lambda of: set_levels(study.link, of)),
            observe=self._make_once("observe", levels["observe"], lambda of: _make_observe(study, of)),
            treatments=chosen,
            workloads=self._make_once("workloads", filling, self._fill_workloads),
            settings=self._settings_of(assignment),
        )

    def _make_once(self, table: str, levels: Mapping[str, model.Level], make: Any) -> Any:
        key = (table, *((name, type(level), level) for name, level in levels.items()))
        if key not in self._tables:
            self._tables[key] = make(levels)
        return self._tables[key]

    def _fill_workloads(self, levels: model.Assignment) -> tuple[model.WorkloadSpec, ...]:
        return tuple(
            model.WorkloadSpec.model_validate(fill_placeholders(workload.model_dump(), levels))
            for workload in self._study.workloads
        )

    def _settings_of(self, assignment: model.Assignment) -> tuple[model.Setting, ...]:
        found: list[model.Setting] = []
        for name, level in assignment.items():
            if name == "environment":
                continue
            key = (name, type(level), level)
            if key not in self._settings:
                self._settings[key] = tuple(_make_setting(name, its, level) for its in self._targets[name])
            found += self._settings[key]
        overridden = {(one.target, one.key) for one in found}
        return (*(one for one in self._fixed if (one.target, one.key) not in overridden), *found)


CLIENT_MEMORY = 2**30
"""Bytes that a client may take: no study is about them, so it is as much as a load generator could ever need."""


def ask_client(server: model.MachineSpec, clients: model.ClientsSpec, is_same: bool) -> model.MachineSpec | None:
    """What a study asks each client to be; None if it says nothing of that."""
    if is_same:
        # Not theirs: where the server is placed, what only makes sense of a machine under test, levels of treatments.
        others = server.model_dump(exclude={"cpus", "alone", "neighbours", "host", *server.settings})
        return model.MachineSpec.model_validate({**others, "host": clients.hosts[0], **clients.own_keys})
    if not clients.own_keys:
        return None
    beside = model.MachineSpec(image=image_beside(server), memory=CLIENT_MEMORY, host=clients.hosts[0])
    return beside.model_copy(update=clients.own_keys)


def image_beside(spec: model.MachineSpec) -> str:
    """What whatever else takes part is made of: the servers' image, but for one of the user's own."""
    return model.MachineSpec().image if spec.brings_image else spec.image


def find_targets(study: model.Study, known: KnownNames) -> Mapping[str, tuple[Target, ...]]:
    """What each factor sets. NoTarget."""
    return {name: find_aims(name, factor, study, known) for name, factor in study.factors.items()}


def find_targets_of_run(study: model.Study) -> Mapping[str, tuple[Target, ...]]:
    """What each factor of a study that was run sets, whatever is installed now.

    A factor that sets no key of a table and fills no placeholder was a treatment: no other kind is left.
    """
    targets: dict[str, tuple[Target, ...]] = {}
    for name, factor in study.factors.items():
        try:
            targets[name] = find_aims(name, factor, study, KnownNames((), ()))
        except NoTarget:
            # Version 1 had no lists.
            targets[name] = (Target("treatment", str(factor.sets or name).removeprefix("machine.")),)
    return targets


_SETTING_TARGETS: Mapping[str, model.SettingTarget] = {
    "machine": "table",
    "clients": "table",
    "link": "table",
    "observe": "observer",
    "treatment": "treatment",
    "placeholder": "placeholder",
    "sysctl": "sysctl",
}


def _make_setting(factor: str, its: Target, level: model.Level) -> model.Setting:
    where = _SETTING_TARGETS[its.kind]
    key = f"{its.kind}.{its.key}" if where == "table" else its.key
    return model.Setting(factor=factor, target=where, key=key, level=level)


def put_level(study: model.Study, aim: Target, level: model.Level) -> Any:
    """What a level becomes in the table that it sets. pydantic's ValidationError when it does not fit there."""
    if aim.is_how_captured:
        return set_levels(study.observe.capture or model.CaptureSpec(), {_of_capture(aim.key): level})
    return getattr(set_levels(getattr(study, aim.kind), {aim.key: level}), aim.key)


def _make_observe(study: model.Study, levels: Mapping[str, model.Level]) -> model.ObserveSpec:
    """What is listened in with, and how captures are made where there are any."""
    whether = {name: level for name, level in levels.items() if name not in model.CAPTURE_KEYS}
    how = {_of_capture(name): level for name, level in levels.items() if name in model.CAPTURE_KEYS}
    # A level says whether: one that is true leaves an observer that [observe] sets up as it is there.
    others = {name: level for name, level in whether.items() if level is not True or name not in study.observe.chosen}
    observe: model.ObserveSpec = set_levels(study.observe, others)
    if observe.capture is None or not how:
        return observe
    return observe.model_copy(update={"capture": set_levels(observe.capture, how)})


def _of_capture(key: str) -> str:
    return key.removeprefix("capture.")


def set_levels(spec: Any, levels: Mapping[str, model.Level]) -> Any:
    """A table with some keys set to levels as the study file writes them ("1GiB"), validated as if they stood there."""
    if not levels:
        return spec
    parsed = type(spec).model_validate(dict(levels), context=AS_WRITTEN)
    return spec.model_copy(update={key: getattr(parsed, key) for key in levels})
