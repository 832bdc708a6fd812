"""Studies that a campaign kills, by the environment that they are in, with what must run beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_HEAD = """
name = "chaos"
reference = {{ environment = "{reference}" }}
{environments}
[factors]
environment = [{names}]
[machine]
memory = "256MiB"
accel = "tcg"
[design]
blocks = {blocks}
"""
_WORK = """
[observe]
capture = true
usage = true
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "0.5s"
"""
_FILES = """
[[workloads]]
name = "files"
kind = "sysbench"
test = "fileio"
total_size = "16MiB"
duration = "1s"
"""
_MOCK = """
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
"""
_TABLES = {
    "mock": '[environments.base]\nkind = "mock"\n[environments.slow]\nkind = "mock"\nspeed = 0.5\n',
    "ssh": '[environments.metal]\nkind = "ssh"\naddress = "{far}"\nprovision = "reuse"\n',
    "vagrant": """
[environments.new]
kind = "vagrant"
folder = "{vagrant}"
machine = "new"
[environments.off]
kind = "vagrant"
folder = "{vagrant}"
machine = "off"
provision = "reuse"
[environments.theirs]
kind = "vagrant"
folder = "{vagrant}"
machine = "theirs"
provision = "reuse"
""",
    "vmware": """
[environments.off]
kind = "vmware"
server = "{vcenter}"
user = "{user}"
ca_file = "{certificate}"
vm = "off"
[environments.clone]
kind = "vmware"
server = "{vcenter}"
user = "{user}"
ca_file = "{certificate}"
template = "golden"
[environments.theirs]
kind = "vmware"
server = "{vcenter}"
user = "{user}"
ca_file = "{certificate}"
vm = "theirs"
provision = "reuse"
""",
}
_NAMES = {
    "mock": ("base", "slow"),
    "host": ("host",),
    "ssh": ("metal",),
    "vagrant": ("new", "off", "theirs"),
    "vmware": ("off", "clone", "theirs"),
}


@dataclass(frozen=True)
class Place:
    name: str
    longest: float
    """Seconds between two kills at most: about as long as a block lasts."""
    blocks: int
    """0: no run, but a machine that is kept up."""
    share: int
    """How often it is chosen, among all."""
    services: tuple[str, ...] = ()
    """What must run beside it, whose processes may be killed too."""
    hosts: int = 0
    """On so many of the hosts that SSH leads to it is, whose processes may be killed too."""
    patience: float = 280.0
    """Seconds for a command that nobody kills any more."""


PLACES = {
    place.name: place
    for place in (
        Place("mock", 1.0, 40, 4),
        Place("host", 4.0, 2, 6),
        Place("docker", 5.0, 2, 6, ("docker",)),
        Place("podman", 6.0, 2, 3, ("podman",)),
        Place("qemu", 20.0, 1, 3),
        Place("libvirt", 20.0, 1, 3, ("libvirt",)),
        Place("ssh", 5.0, 3, 4, hosts=1),
        Place("vagrant", 40.0, 1, 1, ("vagrant",), patience=900.0),
        Place("vmware", 8.0, 1, 3, hosts=2),
        Place("up", 4.0, 0, 4, ("docker",)),
    )
}


def write_study(place: Place, options: Mapping[str, str] = MappingProxyType({})) -> str:
    """As TOML; `options` are those of the machines that there are."""
    names = _NAMES.get(place.name, ("host", place.name))
    head = _HEAD.format(
        reference=names[0],
        environments=_TABLES.get(place.name, "").format(**options),
        names=", ".join(f'"{name}"' for name in names),
        blocks=place.blocks,
    )
    # Each trial of Vagrant's takes a boot of a minute.
    works = {"mock": _MOCK, "vagrant": _WORK}
    return head + works.get(place.name, _WORK + _FILES)
