"""Which CPUs of a site go to the machines under test and which to the clients. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


def parse(text: str) -> list[int]:
    """CPUs of a list in the kernel's notation: "0-2,4" is [0, 1, 2, 4]. ValueError when it is none."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.extend(range(int(first), int(last or first) + 1))
    return sorted(set(cpus))


def show(cpus: Iterable[int]) -> str:
    """The kernel's notation of a list of CPUs, runs joined: [0, 1, 2, 4] is "0-2,4"."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass(frozen=True)
class Share:
    """Cpuset of each server, and of all clients, in the kernel's notation."""

    servers: tuple[str, ...]
    clients: str


def share(available: list[int], vcpus: int, servers: int, server_cpus: str | None, client_cpus: str | None) -> Share:
    """Servers get the highest CPUs, each its own while there are enough; clients get what is left.

    The first CPU serves most of the host's interrupts, so it goes to a server last. With fewer CPUs than are asked
    for, servers overlap, and clients share with them: the record of the trial shows it and the analysis warns.
    """
    free = sorted(available, reverse=True)
    sets: list[list[int]] = []
    for index in range(servers):
        if server_cpus is not None:
            sets.append(parse(server_cpus))
        elif (index + 1) * vcpus <= len(free):
            sets.append(free[index * vcpus : (index + 1) * vcpus])
        else:
            sets.append(free[:vcpus])
    taken = {cpu for cpus in sets for cpu in cpus}
    rest = [cpu for cpu in available if cpu not in taken]
    clients = parse(client_cpus) if client_cpus is not None else (rest or available)
    return Share(tuple(show(cpus) for cpus in sets), show(clients))
