"""On whose disk a workload's files lie: where both sides have disks of their own, these are compared too. Pure."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Contrast
from nearmetal.model import Warned
from nearmetal.store.manifest import Manifest


@dataclass(frozen=True)
class Disks:
    workloads: Set[str]
    """By name, those that read and write files."""
    lies_on: Mapping[Key, str]
    """By treatment, what the server's disk lies on, where that is known."""

    def about(self, contrast: Contrast) -> Iterator[Warned]:
        if contrast.workload not in self.workloads:
            return
        mine, theirs = (self.lies_on.get(key_of(side)) for side in (contrast.treatment, contrast.reference))
        if mine and theirs and mine != theirs:
            text = f"its files lie on {mine}, the reference's on {theirs}: that alone may be what makes the difference"
            yield Warned(code="disks-unlike", text=text)


def disks_of(manifest: Manifest) -> Disks:
    told = (
        (one.treatment, one.facts.get("disk", {}).get("lies_on")) for one in manifest.fairness if one.role == "server"
    )
    workloads = manifest.study.workloads
    of_files = (one for one in workloads if one.kind == "sysbench" and one.parameters.get("test") == "fileio")
    on_disks = {key_of(treatment): str(disk) for treatment, disk in told if disk}
    return Disks(frozenset(one.name for one in of_files), on_disks)
