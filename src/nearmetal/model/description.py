"""What an environment says of its machines before any is made."""

from typing import Literal

from nearmetal.model.base import Frozen
from nearmetal.model.study import HostSpec

Family = Literal["metal", "container", "guest", "pretended", "unknown"]
"""What a machine is: hardware as it is, a container, a guest of a hypervisor or an emulator, none at all, or a machine
reached over a network that only it knows about. An environment states it; nothing derives it from a name."""

KernelSource = Literal["own", "host", "emulated"]
"""Whose kernel a machine's programs call: its own, its host's, or that of a program that imitates one (gVisor)."""

Placement = Literal["switch", "host", "elsewhere", "apart"]
"""Where machines are on the network:

- switch: each gets a `Port` on the lab's switch.
- host: each is a host of the user's, a site of its own; `Description.host` says how it is reached.
- elsewhere: in a network of the user's, at addresses known only once they run; none of their host's CPUs are theirs.
- apart: somewhere that the environment alone knows, such as the loopback.
"""


class Description(Frozen):
    """What an environment's options and a `MachineSpec` determine about its machines, before any exists.

    The plan asks each environment once (`Environment.describe`) and keeps the answer. A machine's own word, such as
    the family that its firmware claims, is a fact of a boot and changes no plan.
    """

    family: Family | None
    """None only in a run of manifest version 1, which did not record it."""
    kernel: KernelSource | None
    """Whose kernel its programs call."""
    placement: Placement | None
    """Where it is reached; docs/extending.md has what each means."""
    is_one: bool = False
    """Whether this is one existing machine, of which no second can be made."""
    host: HostSpec | None = None
    """How the machine is reached, if its placement is `host`."""
    can_share_network: bool = False
    """Whether its machines can take their site's own network in place of a port on the lab's switch."""
    ignores: tuple[str, ...] = ()
    """Keys of [machine] that mean nothing to its machines. A study may fix them, but not vary them."""

    @property
    def is_on_switch(self) -> bool:
        return self.placement == "switch"

    @property
    def is_reached_from_outside(self) -> bool:
        """Whether clients get to its machines by their own host's network."""
        return self.placement in ("host", "elsewhere")
