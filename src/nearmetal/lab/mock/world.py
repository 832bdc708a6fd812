"""A pretended world for the mock environment: machines as JSON files in a folder, shared by all processes.

It stands in for hardware in tests of nearmetal and of other people's plugins: what is created, changed, rebooted and
destroyed is kept on disk, so that a controller that is killed leaves behind just what a real one would.
"""

import base64
import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nearmetal.config import Paths
from nearmetal.system import files

State = dict[str, Any]

_SYSCTLS = {
    "kernel.timer_migration": "1",
    "kernel.sched_rt_runtime_us": "950000",
    "kernel.numa_balancing": "1",
    "kernel.hung_task_timeout_secs": "120",
    "vm.stat_interval": "1",
    "net.ipv4.tcp_autocorking": "1",
    "net.ipv4.tcp_congestion_control": "cubic",
}
_FEATURES = {
    "rx-checksumming": "on",
    "tx-checksumming": "on",
    "scatter-gather": "on",
    "tcp-segmentation-offload": "on",
    "generic-segmentation-offload": "on",
    "generic-receive-offload": "on",
    "large-receive-offload": "off [fixed]",
}
"""Of the data NIC, by the names that `ethtool -k` has for them."""


class World:
    def __init__(self, site: str) -> None:
        self._folder = Paths.default().state / "mock" / site

    def make(self, name: str, address: str = "", **facts: Any) -> State:
        """A new machine, running. Its boot_id follows from its name and how often it was made.

        Unless it is given an address, it has one that no other machine has.
        """
        with self._alone():
            state: State = {
                "name": name,
                "address": address or self._free_address(),
                "alive": True,
                "boots": 0,
                "count": self._count(facts.get("environment", name)),
                "arguments": [],
                "sysctls": dict(_SYSCTLS),
                "features": dict(_FEATURES),
                "files": {},
                "serving": [],
                "placed": {},
                **facts,
            }
            self.boot(state)
        return state

    def boot(self, state: State) -> None:
        """What a boot does: a new boot_id, and the kernel arguments that were configured by then."""
        state["boots"] += 1
        state["serving"] = []
        state["placed"] = {}
        identity = f"{state['name']} {state['count']} {state['boots']}"
        state["boot_id"] = hashlib.sha256(identity.encode()).hexdigest()[:32]
        state["running_arguments"] = [*state["arguments"], *state.get("boot_loader", [])]
        self.save(state)

    def read(self, name: str) -> State | None:
        with suppress(FileNotFoundError):
            return dict(json.loads(self._file(name).read_text()))
        return None

    def save(self, state: State) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        files.replace_file(self._file(state["name"]), json.dumps(state).encode())

    def remove(self, name: str) -> None:
        files.remove_file(self._file(name))

    def kill(self, name: str) -> None:
        """What a power cut does to one machine."""
        state = self.read(name)
        if state is not None:
            self.save({**state, "alive": False})

    def machines(self) -> Iterator[State]:
        for file in sorted(self._folder.glob("*.json")):
            with suppress(FileNotFoundError):  # another process may have removed it meanwhile
                yield json.loads(file.read_text())

    def at_address(self, address: str) -> State | None:
        return next((state for state in self.machines() if state["address"] == address and state["alive"]), None)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other process makes a machine here."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _free_address(self) -> str:
        taken = {state["address"] for state in self.machines()}
        return next(address for number in range(1, 65000) if (address := f"mock-{number}") not in taken)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _count(self, environment: str) -> int:
        """How many machines of this environment there have been, this one included."""
        counter = self._folder / f"{environment}.count"
        count = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(count))
        return count


def write(state: State, path: str, content: bytes, mode: int = 0o644) -> None:
    """Put a file into a machine, which is still to be saved."""
    state["files"][path] = {"content": base64.b64encode(content).decode(), "mode": mode}


def read(state: State, path: str) -> bytes | None:
    """A machine's file; None where it has none."""
    found = state["files"].get(path)
    return base64.b64decode(found["content"]) if found else None
