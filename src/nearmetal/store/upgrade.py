"""Manifests of version 1, read as those of version 2: for reports, queries and comparisons, without any plugin.

Version 1 kept the study and every block, and what a treatment meant was derived again by each reader. What only the
plugins of that time knew is not there any more: the families of machines are None, and workloads name no responses.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from nearmetal import model
from nearmetal.store import version_1
from nearmetal.store.manifest import Manifest
from nearmetal.study.blocks import checksum_trial_ids, plan_block
from nearmetal.study.treatment_request import TreatmentRequest, TreatmentRequests, find_targets_of_run

_UNDESCRIBED = model.Description(family=None, kernel=None, placement=None)

_HOST_OF_ITS_OWN = "ssh"
"""The kind of environment whose machines version 1 placed on a host called as their level."""


class PlanV1(model.Frozen):
    study: str
    seed: int | None
    treatments: tuple[Mapping[str, model.Level], ...]
    contrasts: tuple[model.ContrastPlan, ...]
    primaries: Mapping[str, str]
    level: float
    looks: tuple[model.Look, ...] = ()
    blocks: tuple[model.BlockPlan, ...]


class ManifestV1(model.Frozen):
    """What is other than in version 2; the rest is read as that has it."""

    model_config = ConfigDict(extra="allow")

    schema_: Annotated[Literal["manifest.v1"], Field(alias="schema")]
    study: model.Study
    plan: PlanV1


def upgrade_v1(document: object) -> Manifest:
    """A manifest of version 1 as one of version 2. pydantic's ValidationError when it is damaged."""
    old: ManifestV1 = ManifestV1.from_json(document)
    plan = _upgrade_plan(old.study, old.plan)
    # Nothing can go on with it, unless the blocks that it kept are those that are made of its plan.
    are_alike = all(plan_block(plan, index) == block for index, block in enumerate(old.plan.blocks))
    ids = checksum_trial_ids(plan) if are_alike else None
    return Manifest.model_validate({**(old.model_extra or {}), "study": old.study, "plan": plan, "trial_ids": ids})


def _upgrade_plan(study: model.Study, old: PlanV1) -> model.Plan:
    asking = TreatmentRequests(study, find_targets_of_run(study))
    return model.Plan(
        study=old.study,
        seed=old.seed,
        resolved=tuple(
            _resolve_treatment(study, treatment, asking.ask_treatment(treatment)) for treatment in old.treatments
        ),
        contrasts=old.contrasts,
        primaries=old.primaries,
        level=old.level,
        looks=old.looks,
        blocks=len(old.blocks),
        workloads=tuple(workload.name for workload in study.workloads),
        repeats=study.design.repeats,
        share_boot=study.design.share_boot,
    )


def _resolve_treatment(study: model.Study, assignment: model.Assignment, asked: TreatmentRequest) -> model.Resolved:
    server, client = (_resolve_environment(study, level) for level in (asked.environment, asked.clients.environment))
    return model.Resolved(
        assignment=assignment,
        environment=server,
        server=asked.machine.model_copy(update={"host": _name_host(study, server, asked.machine.host)}),
        clients=model.ResolvedClients(
            environment=client,
            count=asked.clients.count,
            connect=asked.clients.connect,
            cpus=asked.clients.cpus,
            host=_name_host(study, client, asked.clients.hosts[0]),
        ),
        link=asked.link,
        observe=asked.observe,
        workloads=tuple(
            model.ResolvedWorkload(
                name=spec.name,
                kind=spec.kind,
                parameters=spec.parameters,
                primary=spec.primary,
                responses={},
                has_clients=version_1.has_clients(spec.kind, spec.parameters),
                variant=version_1.describe_variant(spec.kind, spec.parameters),
            )
            for spec in asked.workloads
        ),
        settings=asked.settings,
    )


def _resolve_environment(study: model.Study, level: str) -> model.ResolvedEnvironment:
    spec = study.environment(level)
    return model.ResolvedEnvironment(
        level=level,
        kind=spec.kind,
        options=spec.options,
        provision=study.provision_of(spec),
        description=_UNDESCRIBED,
    )


def _name_host(study: model.Study, environment: model.ResolvedEnvironment, written: str) -> str:
    is_declared = environment.level in study.environments
    return environment.level if is_declared and environment.kind == _HOST_OF_ITS_OWN else written
