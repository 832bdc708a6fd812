"""What is written down of each machine that is kept up: one file per name, claimed by its keeper."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.errors import BadInput
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import liveness
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.networks import network
from nearmetal.model import Frozen, Handle, MachineSpec
from nearmetal.system import files

_NAME = re.compile(r"(?!-)[A-Za-z0-9._-]{1,64}")


class MachineExit(Exception):
    """A machine ended by itself."""


class KeptMachine(Frozen):
    """A machine that is up, or about to be: `handle` is there once it answers."""

    name: str
    environment: str
    token: str
    """Of its lab: in the names of all that was made for it."""
    keeper: int
    keeper_started: int
    """In clock ticks since the kernel did: with its number it tells the keeper from every other process."""
    made: str
    spec: MachineSpec
    cpus: str = ""
    address: str = ""
    handle: Handle | None = None

    @property
    def accel(self) -> str | None:
        """What its monitor told of, where it has one: that asked for may be "auto"."""
        return self.handle.hardware.accel if self.handle and self.handle.hardware else None

    @property
    def switch(self) -> str | None:
        """The network namespace of the lab's switch, where the machine hangs on it."""
        port = self.handle.port if self.handle else None
        return network.name_namespace(port) if port else None

    async def has_keeper(self) -> bool:
        return await FirstProcess(self.keeper, self.keeper_started).is_alive(LocalSite())

    async def is_lost(self) -> bool:
        return not await self.has_keeper() or (self.handle is not None and not await liveness.is_alive(self.handle))


def folder() -> Path:
    return Paths.default().state / "up"


def log(name: str) -> Path:
    """What a keeper has to say that nobody was there to hear."""
    return folder() / f"{name}.log"


def ssh_config(name: str) -> Path:
    """How OpenSSH's programs reach a machine."""
    return folder() / f"{name}.ssh_config"


def _file(name: str) -> Path:
    return folder() / f"{name}.json"


def check_name(name: str) -> None:
    """BadInput for what cannot be a machine's name."""
    if not _NAME.fullmatch(name):
        remedy = "use letters, digits, '.', '_' and, not first, '-', at most 64"
        raise BadInput(f"{name[:100]!r} cannot be a machine's name", remedy=remedy)


def everything() -> list[KeptMachine]:
    """All that is written down, by name; also of keepers that died."""
    found: list[KeptMachine] = []
    for file in sorted(folder().glob("*.json"), key=lambda file: file.stem):
        try:
            found.append(KeptMachine.model_validate_json(file.read_bytes()))
        except FileNotFoundError:
            continue  # it went down just now
        except ValueError as error:
            raise BadInput(f"this cannot be read: {error}", str(file), "nearmetal clean, then remove it") from None
    return found


def find(name: str) -> KeptMachine:
    """BadInput, naming those that are up, when there is none of this name."""
    check_name(name)
    known = {machine.name: machine for machine in everything()}
    if name in known:
        return known[name]
    remedy = f"choose one of those that are up: {', '.join(known)}" if known else "nothing is up"
    raise BadInput(f"no machine {name!r} is up", remedy=remedy)


def save(kept: KeptMachine) -> None:
    """Replace what is written down, at once and whole."""
    files.replace_file(_file(kept.name), kept.model_dump_json().encode())


def forget(name: str) -> None:
    """Idempotent."""
    files.remove_file(_file(name))
    log(name).unlink(missing_ok=True)
    ssh_config(name).unlink(missing_ok=True)


@contextmanager
def claimed(kept: KeptMachine, *, named: bool) -> Iterator[KeptMachine]:
    """Hold a name while the machine is up. One that a person chose must be free; else NAME-2 and so on are tried."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in count(1):
        candidate = kept if number == 1 else kept.model_copy(update={"name": f"{kept.name}-{number}"})
        if files.claim_file(_file(candidate.name), candidate.model_dump_json().encode()):
            break
        if named:
            remedy = f"choose another --name, or end that one: nearmetal down {kept.name}"
            raise BadInput(f"there is a machine {kept.name!r} already", remedy=remedy)
    try:
        yield candidate
    except MachineExit:
        raise  # it stays written down, without a keeper
    except BaseException:
        forget(candidate.name)
        raise
    forget(candidate.name)


async def forget_dead() -> None:
    """Forget the machines whose keeper is dead. For after what they left has been removed."""
    for machine in everything():
        if not await machine.has_keeper():
            forget(machine.name)
