"""A run's manifest: what was asked, what was planned, and with what. Written once, before anything is measured.

Treatments stand in it by parts: each distinct part once, and for each treatment the places of its parts. A plan of a
million trials fits in a few megabytes so.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from nearmetal import model
from nearmetal.store import damage
from nearmetal.store.calibration_document import Sizing
from nearmetal.store.facts import sift_facts
from nearmetal.study.levels import format_assignment

Part = Mapping[str, Any]
"""The first of its table whole; of each other only the keys in which it differs from the first."""

Row = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...]]
"""A treatment: the places of its environment, server, clients, link, observers, workloads and settings."""


class Treatments(model.Frozen):
    """All treatments of a plan. Each part that several of them have stands here once."""

    factors: tuple[str, ...]
    """In the order of the study: a treatment's levels are its environment and those that its settings name."""
    environments: tuple[Part, ...]
    servers: tuple[Part, ...]
    clients: tuple[Part, ...]
    links: tuple[Part, ...]
    observe: tuple[Part, ...]
    workloads: tuple[tuple[Part, ...], ...]
    """A table for each workload, in their order."""
    settings: tuple[Part, ...]
    services: Mapping[str, model.ResolvedService] = {}
    align: Literal["network", "off"] = "off"
    rows: tuple[Row, ...]


class PlanDocument(model.Frozen):
    """A `Plan` as the manifest has it. Blocks are not stored: `blocks.py` makes them from the rest."""

    study: str
    seed: int | None
    treatments: Treatments
    contrasts: tuple[tuple[str, int, int], ...]
    """Workload, and the places of treatment and reference among the rows: of primary responses."""
    headlines: Mapping[str, tuple[str, ...]] = {}
    """Workload to the other responses of which each of its contrasts is made."""
    primaries: Mapping[str, str]
    level: float
    looks: tuple[model.Look, ...] = ()
    blocks: int
    workloads: tuple[str, ...]
    repeats: int
    share_boot: bool
    order: Literal["drawn", "balanced"] = "drawn"
    kernel_table: model.KernelTable | None = None


_ALIKE = PlanDocument.model_fields.keys() - {"treatments", "contrasts", "headlines"}
"""What a plan and its document have in common."""


class _Table:
    """Collects distinct parts, each with its place."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._first: Mapping[str, Any] = {}
        self._by_object: dict[int, int] = {}
        self._by_content: dict[str, int] = {}
        self._kept: list[model.Frozen] = []

    def place_part(self, part: model.Frozen) -> int:
        if id(part) not in self._by_object:
            content = part.model_dump_json()
            if content not in self._by_content:
                self._by_content[content] = len(self.parts)
                whole = part.model_dump(mode="json")
                self._first = self._first or whole
                first = self._first if self.parts else {}
                self.parts.append({k: v for k, v in whole.items() if k not in first or first[k] != v})
            self._by_object[id(part)] = self._by_content[content]
            self._kept.append(part)  # as long as it lives, no other has its id
        return self._by_object[id(part)]


def pack_plan(plan: model.Plan) -> PlanDocument:
    tables = {name: _Table() for name in ("environments", "servers", "clients", "links", "observe", "settings")}
    workloads = [_Table() for _ in plan.workloads]
    rows = tuple(
        (
            tables["environments"].place_part(one.environment),
            tables["servers"].place_part(one.server),
            tables["clients"].place_part(one.clients),
            tables["links"].place_part(one.link),
            tables["observe"].place_part(one.observe),
            tuple(table.place_part(workload) for table, workload in zip(workloads, one.workloads, strict=True)),
            tuple(map(tables["settings"].place_part, one.settings)),
        )
        for one in plan.resolved
    )
    first = plan.resolved[0]
    headlines: dict[str, dict[str, None]] = {}
    for contrast in plan.contrasts:
        if contrast.response is not None:
            headlines.setdefault(contrast.workload, {})[contrast.response] = None
    parts: dict[str, Any] = {name: tuple(one.parts) for name, one in tables.items()}
    treatments = Treatments.model_construct(
        factors=tuple(dict.fromkeys(name for one in plan.resolved for name in one.assignment)),
        workloads=tuple(tuple(one.parts) for one in workloads),
        services=first.services,
        align=first.align,
        rows=rows,
        **parts,
    )
    return PlanDocument.model_construct(
        treatments=treatments,
        contrasts=tuple(
            (one.workload, plan.place_of(one.treatment), plan.place_of(one.reference))
            for one in plan.contrasts
            if one.response is None
        ),
        headlines={workload: tuple(responses) for workload, responses in headlines.items()},
        **{name: getattr(plan, name) for name in _ALIKE},
    )


def unpack_plan(document: PlanDocument) -> model.Plan:
    """A plan as it was written. pydantic's errors when a part cannot be read, or a place is none."""
    parts = document.treatments
    environments = _join_parts(parts.environments, model.ResolvedEnvironment)
    servers = _join_parts(parts.servers, model.MachineSpec)
    clients = _join_parts(parts.clients, model.ResolvedClients)
    links = _join_parts(parts.links, model.LinkSpec)
    observe = _join_parts(parts.observe, model.ObserveSpec)
    workloads = [_join_parts(table, model.ResolvedWorkload) for table in parts.workloads]
    settings = _join_parts(parts.settings, model.Setting)
    try:
        resolved = []
        for row in parts.rows:
            environment, set_by = (
                _find_part(environments, row[0]),
                tuple(_find_part(settings, place) for place in row[6]),
            )
            levels = {one.factor: one.level for one in set_by if one.factor is not None}
            levels["environment"] = environment.level
            resolved.append(
                model.Resolved.model_construct(
                    assignment={name: levels[name] for name in parts.factors if name in levels},
                    environment=environment,
                    server=_find_part(servers, row[1]),
                    clients=_find_part(clients, row[2]),
                    link=_find_part(links, row[3]),
                    observe=_find_part(observe, row[4]),
                    services=parts.services,
                    align=parts.align,
                    workloads=tuple(_find_part(table, place) for table, place in zip(workloads, row[5], strict=True)),
                    settings=set_by,
                )
            )
        if {workload for workload, *_ in document.contrasts} - document.primaries.keys():
            raise IndexError("a contrast of no workload")
        contrasts = tuple(
            model.ContrastPlan.model_construct(
                workload=workload,
                treatment=_find_part(resolved, treatment).assignment,
                reference=_find_part(resolved, reference).assignment,
                response=response,
            )
            for workload, treatment, reference in document.contrasts
            for response in (None, *document.headlines.get(workload, ()))
        )
    except (IndexError, ValueError):
        raise PydanticCustomError(damage.UNLIKE, "names a part that is not there") from None
    return model.Plan.model_construct(
        resolved=tuple(resolved),
        contrasts=contrasts,
        **{name: getattr(document, name) for name in _ALIKE},
    )


T = TypeVar("T", bound=model.Frozen)


def _join_parts(parts: Sequence[Part], kind: type[T]) -> list[T]:
    first = parts[0] if parts else {}
    return [kind.from_json({**first, **part}) for part in parts]


def _find_part(parts: Sequence[Any], place: int) -> Any:
    """A negative place would count from the end: it is damage, too."""
    if place < 0:
        raise IndexError(place)
    return parts[place]


def _read_plan(value: object) -> model.Plan:
    return value if isinstance(value, model.Plan) else unpack_plan(PlanDocument.model_validate(value))


def check_plan(plan: model.Plan, info: ValidationInfo) -> model.Plan:
    """A plan of the study, which is read before: whoever counts its trials relies on that."""
    study: model.Study | None = info.data.get("study")
    if study is not None:
        design = study.design
        named = tuple(workload.name for workload in study.workloads)
        planned = (plan.blocks, plan.repeats, plan.share_boot, plan.workloads)
        if planned != (design.most_blocks, design.repeats, design.share_boot, named):
            raise PydanticCustomError(damage.UNLIKE, "does not go with `study`")
    return plan


WrittenPlan = Annotated[
    model.Plan,
    PlainSerializer(pack_plan, return_type=PlanDocument),
    PlainValidator(_read_plan),
    AfterValidator(check_plan),
]


def check_moment(text: str) -> str:
    """One that can be compared with others: with its offset from UTC, and in a year that UTC has as well."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment.astimezone(datetime.UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if moment.tzinfo is None:
        raise ValueError("it has no offset from UTC")
    return text


def check_left_out(reasons: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """As many as treatments were left out, which is read before."""
    if len(reasons) != len(info.data.get("left_out", reasons)):
        raise PydanticCustomError(damage.UNLIKE, "does not have one for each of `left_out`")
    return reasons


class MachineFacts(model.Frozen):
    """The probe's `facts.v1` of one machine, as found in the first boot of a treatment."""

    treatment: Mapping[str, model.Level]
    role: Literal["server", "client"]
    facts: Mapping[str, Any]


class Manifest(model.Document):
    """What was asked, what was planned, and with what: `manifest.json`."""

    schema_: Annotated[Literal["manifest.v2"], Field(alias="schema")] = "manifest.v2"
    run: str
    created: Annotated[str, AfterValidator(check_moment)]
    study: model.Study
    source: str
    """The study file's text."""
    overrides: tuple[str, ...] = ()
    """What the command line set over it, as `--set` takes it."""
    quick: bool = False
    """Whether the file's own scaled-down version was asked for."""
    plan: WrittenPlan
    trial_ids: str | None = None
    """`blocks.checksum_trial_ids` of the plan; None where a manifest of version 1 had blocks that are not made so."""
    plugins: tuple[model.PluginVersion, ...] = ()
    """What the plan was made with; none in one of version 1."""
    left_out: tuple[Mapping[str, model.Level], ...] = ()
    """Treatments that this host cannot run and that `--available` left out, each with a `reason` in `left_out_why`."""
    left_out_why: Annotated[tuple[str, ...], AfterValidator(check_left_out), Field(validate_default=True)] = ()
    versions: Mapping[str, str]
    images: Mapping[str, str] = {}
    """Of ours that machines are made of: names to digests. All its boots have these, whatever is built meanwhile."""
    packages: Mapping[str, Mapping[str, model.DebianPackage]] = {}
    """Of Debian, that these images were made of, by name of image and package; none of an image of the user's own."""
    host: Mapping[str, Any]
    """The probe's `facts.v1` of the host."""
    kept_free: str = ""
    """CPUs of the host that `nearmetal isolate` kept from the run when it began, in the kernel's notation."""
    rootless: tuple[str, ...] = ()
    """What machines of ours lacked on this host because an ordinary user made them, in words; nothing if root did."""
    sizing: Sizing | None = None
    """How the number of blocks was fixed, of a study that said `blocks = "auto"`."""
    gates: tuple[str, ...] = ()
    """What the command line asked of the run's comparisons, as `--gate` takes it: `resume` and `show` ask it again."""
    fairness: Annotated[tuple[MachineFacts, ...], Field(exclude=True)] = ()
    """What the machines turned out to be. The journal has that (`FactsSeen`); a manifest of version 1 had it itself."""

    malformed: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """What is left out of these facts, and of the host's, for it is not as facts are: see `with_facts`."""

    def with_facts(self, events: Iterable[Mapping[str, Any]]) -> "Manifest":
        """With the facts that these events of its journal tell, of each machine the first, and of all facts, the host's
        too, what can be read: machines may tell anything."""
        host, problems = sift_facts(self.host)
        malformed = dict.fromkeys((*self.malformed, *_prefix_problems("the host", problems)))
        told = (
            MachineFacts.from_json({name: event[name] for name in MachineFacts.model_fields})
            for event in events
            if event["event"] == "FactsSeen"
        )
        known: dict[object, MachineFacts] = {}
        for one in (*self.fairness, *told):
            key = (model.identify_assignment(one.treatment), one.role)
            if key not in known:
                facts, problems = sift_facts(one.facts)
                known[key] = one.model_copy(update={"facts": facts})
                who = f"the {one.role} of {format_assignment(one.treatment)}"
                malformed |= dict.fromkeys(_prefix_problems(who, problems))
        return self.model_copy(update={"host": host, "fairness": tuple(known.values()), "malformed": tuple(malformed)})


def _prefix_problems(who: str, problems: Sequence[str]) -> tuple[str, ...]:
    return (f"{who}: {', '.join(problems)}",) if problems else ()
