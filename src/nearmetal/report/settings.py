"""What a treatment comes down to: what its factors set, else what the study fixes for every treatment. Pure."""

from dataclasses import dataclass

from nearmetal.model import Assignment, Level, Plan, Resolved


@dataclass(frozen=True)
class Settings:
    """As much of a treatment as a chapter about networks needs."""

    kind: str
    """Of environment, whatever the study calls it."""
    nic: str
    clients: int
    several_hosts: bool
    asked: Resolved

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


def settings(plan: Plan, treatment: Assignment) -> Settings:
    """Read them."""
    asked = plan.resolved_of(treatment)
    return Settings(
        kind=asked.environment.kind,
        nic=asked.server.nic,
        clients=asked.clients.count,
        several_hosts=asked.server.host != asked.clients.host,
        asked=asked,
    )


def without_clients(plan: Plan, treatment: Assignment) -> dict[str, Level]:
    """A treatment less the factor that sets the number of clients: what stays alike along a line over that number."""
    settings = {one.factor: one.key for one in plan.resolved_of(treatment).settings}
    return {name: level for name, level in treatment.items() if settings.get(name) != "clients.count"}
