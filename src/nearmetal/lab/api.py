"""What plugins of other packages may rely on besides `nearmetal.model` and `nearmetal.errors`.

A name here keeps its meaning and its signature; a change of one is in the changelog. All else of nearmetal may change
from one release to the next.

limits, options    Limits, LIMITS · Bytes, Seconds, BitRate, Share · parse_cpus, show_cpus · Say, meanwhile
findings           make_finding, check_programs, check_provided, check_image, check_limits, check_isolation
commands           run_checked, build_launch, put_file, read_file · NamedCommands, MACHINE_ENVIRONMENT
the probe          PROBE_INSIDE, find_probe, ensure_probe
the ledger         make_handle, FirstProcess
control groups     create_group, find_group, read_group_cost, remove_group
the switch         DATA_INTERFACE, NETWORK_TOOLS, plug_veth, plug_tap, move_tap, unplug, name_peer
the lab's image    Image, find_image, place_root
a root to run in   make_scratch, start_holder, find_first_process, build_held_door, HeldMachine, SharedKernelMachine
logging in         LabKeys, KeyPair, load_lab_keys
guests by SSH      BehindSsh, GuestBehindSsh, check_inside, check_permitted

The last four are imported when they are first asked for, because an SSH client takes long to import.
"""

from typing import TYPE_CHECKING, Any

from nearmetal.config import LIMITS, Limits
from nearmetal.cpu_lists import parse as parse_cpus
from nearmetal.cpu_lists import show as show_cpus
from nearmetal.lab.cgroup import create_group, find_group, read_group_cost, remove_group
from nearmetal.lab.cpus.limits import check_limits
from nearmetal.lab.host_checks import check_programs, check_provided
from nearmetal.lab.host_checks import finding as make_finding
from nearmetal.lab.image.image import Image
from nearmetal.lab.image.transfer import place_root
from nearmetal.lab.keys import KeyPair, LabKeys
from nearmetal.lab.keys import lab_keys as load_lab_keys
from nearmetal.lab.local_site import run_checked as run_checked
from nearmetal.lab.machine_files import NamedCommands, put_file, read_file
from nearmetal.lab.machine_handle import make_handle
from nearmetal.lab.machine_image import check_image, find_image
from nearmetal.lab.machine_programs import ENVIRONMENT as MACHINE_ENVIRONMENT
from nearmetal.lab.machine_programs import build_launch
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.machines.namespace_machine import (
    HeldMachine,
    build_held_door,
    find_first_process,
    make_scratch,
    start_holder,
)
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine, check_isolation
from nearmetal.lab.networks.network import INSIDE as DATA_INTERFACE
from nearmetal.lab.networks.network import TOOLS as NETWORK_TOOLS
from nearmetal.lab.networks.network import move_tap, name_peer, plug_tap, plug_veth, unplug
from nearmetal.lab.probe import INSIDE as PROBE_INSIDE
from nearmetal.lab.probe import ensure as ensure_probe
from nearmetal.lab.probe import path as find_probe
from nearmetal.progress_messages import Say, meanwhile
from nearmetal.units import BitRate, Bytes, Seconds, Share

if TYPE_CHECKING:
    from nearmetal.lab.borrowed.ssh_guests import BehindSsh, GuestBehindSsh, check_inside, check_permitted

_BEHIND_SSH = ("BehindSsh", "GuestBehindSsh", "check_inside", "check_permitted")

__all__ = [
    "DATA_INTERFACE",
    "LIMITS",
    "MACHINE_ENVIRONMENT",
    "NETWORK_TOOLS",
    "PROBE_INSIDE",
    "BehindSsh",
    "BitRate",
    "Bytes",
    "FirstProcess",
    "GuestBehindSsh",
    "HeldMachine",
    "Image",
    "KeyPair",
    "LabKeys",
    "Limits",
    "NamedCommands",
    "Say",
    "Seconds",
    "Share",
    "SharedKernelMachine",
    "build_held_door",
    "build_launch",
    "check_image",
    "check_inside",
    "check_isolation",
    "check_limits",
    "check_permitted",
    "check_programs",
    "check_provided",
    "create_group",
    "ensure_probe",
    "find_first_process",
    "find_group",
    "find_image",
    "find_probe",
    "load_lab_keys",
    "make_finding",
    "make_handle",
    "make_scratch",
    "meanwhile",
    "move_tap",
    "name_peer",
    "parse_cpus",
    "place_root",
    "plug_tap",
    "plug_veth",
    "put_file",
    "read_file",
    "read_group_cost",
    "remove_group",
    "run_checked",
    "show_cpus",
    "start_holder",
    "unplug",
]


def __getattr__(name: str) -> Any:
    if name not in _BEHIND_SSH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nearmetal.lab.borrowed import ssh_guests

    return getattr(ssh_guests, name)
