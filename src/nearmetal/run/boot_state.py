"""The task of a boot, and its state while it is made, measured and taken down."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmetal import cpu_lists, model
from nearmetal.lab.cpus.layout import UNKNOWN, Layout
from nearmetal.lab.stage import LabStage
from nearmetal.run.blame import Invalid
from nearmetal.run.boot_surroundings import BootSurroundings
from nearmetal.run.kernel_alignment import NO_KERNELS, Kernels
from nearmetal.run.liveness import Liveness
from nearmetal.run.services import ServiceSet


@dataclass(frozen=True)
class BootTask:
    plan: str
    """The digest of the plan's study: trial seeds come from it."""
    resolved: model.Resolved
    """What its treatment asks for."""
    block: int
    attempt: int
    boot: model.BootPlan
    trials: tuple[model.TrialPlan, ...]
    """Those that are not done yet."""
    artifacts: Path
    kernel_table: model.KernelTable | None = None
    """What kernels are aligned to; None if the study does not align them."""
    files: Path = Path()
    """The folder of the files that its machines are given, each called by its SHA-256."""
    made_of: str | None = None
    """What its treatment's earlier boots were made of, where there were any that told."""
    resumed: bool = False
    """An interruption fell into this block: what is left of it runs later, and says so."""
    request: str = ""
    """The file by which the run is asked to pause; "" if nobody can ask."""


@dataclass
class ProvisionedBoot:
    """What a boot has become so far; filled in step by step, so that a record can tell how far it came."""

    asked: model.Resolved
    phases: dict[str, int] = field(default_factory=dict)
    handles: list[model.Handle] = field(default_factory=list)
    cpusets: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    """By a host's name: how its CPUs lie, if machines of ours were given some of them."""
    stage: LabStage | None = None
    surroundings: BootSurroundings = field(default_factory=BootSurroundings)
    readback: dict[str, Any] = field(default_factory=dict)
    warnings: list[model.Warned] = field(default_factory=list)
    services: ServiceSet = field(default_factory=lambda: ServiceSet({}, Path(), {}))
    liveness: Liveness | None = None
    """What its machines have, and what was last seen of them and of the way between them."""
    kernels: Kernels = NO_KERNELS
    """What was set in its machines' kernels."""
    observed_family: model.Family | None = None
    responses: dict[str, model.Response] = field(default_factory=dict)
    """Of the boot itself: what it took to get ready, and the memory it costs."""

    def name_cpu_kinds(self, machine: model.Machine) -> tuple[str, ...]:
        """The kinds of CPU that it may use, if its host has several."""
        cpus = cpu_lists.parse(self.cpusets[machine.name])
        return tuple(self.layouts.get(machine.site.name, UNKNOWN).name_kinds(cpus))

    @property
    def spec(self) -> model.MachineSpec:
        return self.asked.server

    def find_handle(self, machine: model.Machine) -> model.Handle:
        return next(handle for handle in self.handles if handle.name == machine.name)

    def note_interruption(self) -> None:
        """Have its trials from now on say that their block is not of one piece."""
        if all(warned.code != "interrupted" for warned in self.warnings):
            text = "the run was interrupted or paused within this boot's block"
            self.warnings.append(model.Warned(code="interrupted", text=text))

    def note_readback(self, name: str, readback: model.Readback) -> None:
        """Keep what was read back. Invalid when it is not as declared."""
        self.readback[name] = dict(readback.values)
        self.warnings += readback.warnings
        if not readback.ok:
            raise Invalid(f"{name}: {readback.reason}")
