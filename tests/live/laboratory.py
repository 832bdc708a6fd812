"""A lab of a test's own, as a run has it, and studies on real machines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.stage import LabStage
from nearmetal.model import EnvironmentSpec, LinkSpec, Machine, MachineSpec, Role, TrialRecord
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU
from tests.order import mock_run

from .leftovers import stays


@asynccontextmanager
async def laboratory() -> AsyncIterator[Lab]:
    """A lab; nothing of it may remain."""
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, Sites({}))
    try:
        yield lab
    finally:
        left = await lab.close()
        ledger.close()
    assert left == []
    assert stays(token) == []


def spec(**settings: object) -> MachineSpec:
    """Small, and what every host can run."""
    return MachineSpec.model_validate({"memory": "256MiB", "accel": "tcg", **settings})


async def machine(
    lab: Lab, kind: str, spec: MachineSpec, role: Role = "server", cpus: str = str(OWN_CPU), logins: bool = False
) -> Machine:
    site = await lab.site("local")
    environment = resolve_alone(EnvironmentSpec(kind=kind), spec)
    return await lab.attach(await lab.create(environment, spec, role, cpus, site, logins=logins))


def stage(server: Machine, *clients: Machine) -> LabStage:
    return LabStage((server,), clients, {}, MachineSpec(), LinkSpec(), "shared", {})


async def study(folder: Path, text: str) -> list[TrialRecord]:
    """Run a study to the end in this process; its records."""
    _, records = await mock_run.run(folder, text)
    return records
