"""What a treatment comes down to: what its factors set, else what the study fixes for every treatment. Pure."""

from dataclasses import dataclass

from nearmetal import factors, plugins
from nearmetal.model import Assignment, Level, Study


@dataclass(frozen=True)
class Settings:
    """As much of a treatment as a chapter about networks needs."""

    kind: str
    """Of environment, whatever the study calls it."""
    nic: str
    clients: int
    several_hosts: bool
    asked: factors.Asked

    def treatment(self, name: str, default: Level) -> Level:
        """The level of a treatment such as `offload`."""
        return self.asked.treatments.get(name, default)

    def parameter(self, workload: str, name: str) -> object:
        """What a workload is given, placeholders filled; None where the study leaves it to the workload."""
        for spec in self.asked.workloads:
            if spec.name == workload:
                return spec.parameters.get(name)
        return None

    def kind_of(self, workload: str) -> str:
        """The kind of a workload; "" where the study has none of that name."""
        return next((spec.kind for spec in self.asked.workloads if spec.name == workload), "")


def settings(study: Study, treatment: Assignment) -> Settings:
    """Read them."""
    asked = factors.ask(study, treatment, plugins.names("treatments"))
    return Settings(
        kind=study.environment(asked.environment).kind,
        nic=asked.machine.nic,
        clients=asked.clients.count,
        several_hosts=asked.machine.host != asked.clients.host,
        asked=asked,
    )


def without_clients(study: Study, treatment: Assignment) -> dict[str, Level]:
    """A treatment less the factor that sets the number of clients: what stays alike along a line over that number."""
    counting = factors.Target("clients", "count")
    known = plugins.names("treatments")
    return {name: level for name, level in treatment.items() if factors.aim(name, study, known) != counting}
