"""Which CPUs of a site go to the machines under test and which to the clients. Pure."""

from dataclasses import dataclass

from nearmetal.cpu_lists import parse, show


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
