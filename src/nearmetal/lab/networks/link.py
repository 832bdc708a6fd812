"""The way between servers and clients on a site: a cable of given rate, delay, loss and reordering, or a plain one.

docs/adr/links-between-bridges.md says how it lies. If each client has a way for itself, there are as many wires, whose
far ends are patched to the clients' ports. What shapes a wire is the kernel's netem, or tbf or htb for a rate alone,
or, where the kernel has none, the probe's relay.
"""

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any, Literal

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, NotProvisioned, TimedOut
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import network
from nearmetal.lab.packages import describe_install, find_manager
from nearmetal.model import Completed, Handle, LinkSpec, Port, Readback, Recorder, Running, Site, Warned

KIND = "link"
Shaper = Literal["none", "netem", "tbf", "htb", "relay"]

_LONGEST_QUEUE = 1000
"""Frames that wait for a wire's rate, in whatever shapes it; more are lost, as in a switch."""
_IN_FLIGHT = 65_536
"""Frames that a wire with a delay and no rate can carry at once."""
_TAP_QUEUE = 30_000
"""Frames that a relay's tap holds for it; Linux 6.1 lets no tap hold 32,768."""
_FRAME = 1514
"""Bytes of the longest frame: a wire carries nothing that the network card has yet to cut."""
_BURST = 16 * _FRAME
_BURST_SECONDS = 0.004
"""What tbf and htb let pass at once: so much of the rate, and some frames at least. A kernel that was kept from its
wire for longer than that has lost the difference, which shows as a link that is slower than asked for."""
_TRIED = {"netem": ("delay", "0"), "tbf": ("rate", "1gbit", "burst", "64k", "limit", "64k"), "htb": ()}
"""The kernel's shapers, and words that each would take."""

Ends = tuple[Port, Port]
"""A server's port and a client's."""


def choose_bridge(link: LinkSpec, role: str) -> str | None:
    """Where the port of a machine of this role hangs; None for one that is patched to its other end."""
    if link.switch == "direct" or (link.is_shaped and link.each and role == "client"):
        return None
    return network.FAR_BRIDGE if link.is_shaped and role == "client" else network.BRIDGE


def choose_shaper(link: LinkSpec, kernel_has: frozenset[str]) -> Shaper:
    """What shapes a link like this in a kernel with these queueing disciplines. Pure."""
    if not link.is_shaped:
        return "none"
    # netem's reordering sends some frames ahead of delayed ones, so without a delay it does nothing.
    if "netem" in kernel_has and (link.reorder is None or link.delay):
        return "netem"
    only_rate = all(given is None for given in (link.delay, link.jitter, link.loss, link.reorder))
    if only_rate and "tbf" in kernel_has:
        return "tbf"
    return "htb" if only_rate and "htb" in kernel_has else "relay"


def build_discipline(link: LinkSpec, by: Shaper, end: str) -> list[list[str]]:
    """The commands of `tc` that shape what leaves a wire at this end. Pure."""
    root = ["qdisc", "add", "dev", end, "root"]
    if by in ("tbf", "htb"):
        rate = link.rate or 0.0
        burst = str(max(_BURST, round(rate / 8 * _BURST_SECONDS)))
        queue = ["limit", str(_LONGEST_QUEUE * _FRAME)]
        if by == "tbf":
            return [[*root, "tbf", "rate", f"{rate:.0f}bit", "burst", burst, *queue]]
        # One class that everything is in. Beside its rate it has a ceiling, which is the same, and a share, of no use.
        only = ["parent", "1:", "classid", "1:1", "htb", "rate", f"{rate:.0f}bit", "quantum", str(_FRAME)]
        return [
            [*root, "handle", "1:", "htb", "default", "1"],
            ["class", "add", "dev", end, *only, "burst", burst, "cburst", burst],
            ["qdisc", "add", "dev", end, "parent", "1:1", "bfifo", *queue],
        ]
    words = ["netem", "limit", str(_netem_limit(link))]
    if link.delay or link.jitter:
        words += ["delay", f"{_microseconds(link.delay)}us", *([f"{_microseconds(link.jitter)}us"] * bool(link.jitter))]
    words += ["loss", "random", f"{link.loss * 100:g}%"] if link.loss else []
    words += ["reorder", f"{link.reorder * 100:g}%"] if link.reorder else []
    return [[*root, *words, *(["rate", f"{link.rate:.0f}bit"] if link.rate else [])]]


def _netem_limit(link: LinkSpec) -> int:
    """netem counts what is delayed among what waits, so that there must be room for what the delay holds, too."""
    if not link.rate:
        return _IN_FLIGHT
    longest_delay = (link.delay or 0.0) + (link.jitter or 0.0)
    return _LONGEST_QUEUE + math.ceil(link.rate / 8 * longest_delay / _FRAME)


def build_relay(link: LinkSpec, seed: int) -> list[str]:
    """The options of `nearmetal-probe link`. Pure."""
    words = ["--seed", str(seed)]
    for name, given in (("delay", link.delay), ("jitter", link.jitter)):
        words += [f"--{name}", f"{_microseconds(given)}us"] if given else []
    for name, share in (("loss", link.loss), ("reorder", link.reorder)):
        words += [f"--{name}", f"{share * 100:g}%"] if share else []
    return words + (["--rate", f"{link.rate:.0f}bit/s"] if link.rate else [])


def _microseconds(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1e6)


class Link:
    """A link that lies. It ends with whoever laid it, or by `remove`."""

    def __init__(self, handle: Handle, spec: LinkSpec, site: Site, by: Shaper, seed: int) -> None:
        self.handle = handle
        self.by = by
        self._spec = spec
        self._site = site
        self._seed = seed
        self._namespace: str = handle.data["namespace"]
        self._relays: list[Running] = []
        self._taps: list[str] = []
        self._mtu = network.MTU
        """Bytes that a packet on its wires may have."""
        self._unread: int | None = None
        """Frames that the relay had not read, when it was last looked; None before."""

    async def lay(self, ends: Sequence[Ends], cpus: str) -> None:
        """Join each pair of ends; `cpus` is where a relay may run. HostCannot, NotProvisioned."""
        self._mtu = max((network.MTU, *(server.mtu for server, _ in ends)))
        has_bridge = self._spec.switch == "bridge"
        if self.by == "none":
            for server, client in ends if not has_bridge else ():
                await self._patch(server.outside, client.outside)
        elif has_bridge and not self._spec.each:
            near, far = await self._wire(0, cpus)
            await self._batch(f"link set {near} master {network.BRIDGE}\nlink set {far} master {network.FAR_BRIDGE}\n")
        else:
            for number, (server, client) in enumerate(ends):
                near, far = await self._wire(number, cpus)
                if has_bridge:
                    await self._batch(f"link set {near} master {network.BRIDGE}\n")
                else:
                    await self._patch(server.outside, near)
                await self._patch(far, client.outside)

    async def _wire(self, number: int, cpus: str) -> tuple[str, str]:
        """A shaped wire; the names of its ends, which are up."""
        near, far = f"near{number}", f"far{number}"
        if self.by == "relay":
            # A tap holds 500 frames, or loses them while the relay does not get to run: nobody asked for that.
            made = "tuntap add dev {0} mode tap\nlink set {0} mtu {2} txqueuelen {1} up\n"
            await self._batch("".join(made.format(end, _TAP_QUEUE, self._mtu) for end in (near, far)))
            self._taps += (near, far)
            await self._relay(near, far, cpus, build_relay(self._spec, self._seed + number))
            return near, far
        await self._batch(f"link add {near} mtu {self._mtu} type veth peer name {far} mtu {self._mtu}\n")
        for end in (near, far):
            # What has yet to be cut into frames would count as one, and pass as one.
            await self._in_namespace("ethtool", "-K", end, "tso", "off", "gso", "off", "gro", "off")
            for words in build_discipline(self._spec, self.by, end):
                await self._in_namespace("tc", *words)
        await self._batch(f"link set {near} up\nlink set {far} up\n")
        return near, far

    async def _relay(self, near: str, far: str, cpus: str, options: Sequence[str]) -> None:
        path = network.namespace_path(self._namespace)
        argv = [self._site.probe, "launch", *self._site.bound, *(("--cpus", cpus) if cpus else ())]
        argv += ["--", self._site.probe, "link", f"{path}:{near}", f"{path}:{far}", *options, "--json"]
        running = await self._site.spawn(argv)
        self._relays.append(running)
        if b"link.ready" not in await running.first_line(LIMITS.command):
            ended = await running.wait(LIMITS.command)
            raise NotProvisioned(f"the relay ended: {_last_words(ended)}", self.handle.name)

    async def _batch(self, lines: str) -> None:
        await network.run_batch(self._site, self._namespace, lines)

    async def _patch(self, one: str, other: str) -> None:
        await network.patch_links(one, other, self._namespace, self._site)

    async def _in_namespace(self, *argv: str) -> bytes:
        return await run_checked(self._site, "ip", "netns", "exec", self._namespace, *argv)

    async def verify(self) -> Readback:
        """What shapes the link, and whether it still does."""
        values: dict[str, Any] = {"by": self.by, "switch": self._spec.switch}
        values |= {name: given for name, given in self._spec if name != "switch" and given not in (None, False)}
        for running in self._relays:
            with contextlib.suppress(TimedOut):
                reason = f"the relay ended: {_last_words(await running.wait(0))}"
                return Readback(values=values, ok=False, reason=reason)
        if self.by in _TRIED:
            shown = (await self._in_namespace("tc", "qdisc", "show")).decode()
            if shown.count(f"qdisc {self.by} ") < 2:
                return Readback(values=values, ok=False, reason=f"{self.by} is gone from the wire")
            values["qdisc"] = [line for line in shown.splitlines() if line.startswith(f"qdisc {self.by} ")]
        warnings: tuple[Warned, ...] = ()
        if self.by == "relay":
            values["seed"] = self._seed
            text = "this kernel has no netem: a program carries the frames, on the clients' CPUs"
            warnings = (Warned(code="link-by-relay", text=text), *await self._unread_since())
        return Readback(values=values, warnings=warnings)

    async def _unread_since(self) -> tuple[Warned, ...]:
        """A warning where frames were lost on their way into the relay since it was last looked."""
        links = json.loads(
            await run_checked(self._site, "ip", "-netns", self._namespace, "-s", "-json", "link", "show")
        )
        unread = sum(link["stats64"]["tx"]["dropped"] for link in links if link["ifname"] in self._taps)
        before, self._unread = self._unread, unread
        if before is None or unread == before:
            return ()
        text = f"the relay could not read as fast as frames came; lost, beside what was asked for: {unread - before}"
        return (Warned(code="link-overrun", text=text),)

    async def remove(self) -> None:
        for running in self._relays:
            await running.stop()
        self._relays.clear()
        await remove_link(self.handle, self._site)


def _last_words(ended: Completed) -> str:
    return ended.complaint[-300:] or f"status {ended.status}"


async def lay_link(
    switch: str, spec: LinkSpec, ends: Sequence[Ends], cpus: str, site: Site, ledger: Recorder, *, seed: int
) -> Link:
    """Join servers and clients in the namespace of a switch. HostCannot with what the kernel lacks.

    `seed` is of a relay's lots, of which frame is lost, late or ahead; netem draws its own.
    """
    by = choose_shaper(spec, await find_disciplines(site)) if spec.is_shaped else "none"
    wires = len(ends) if spec.switch == "direct" or spec.each else 1
    handle = Handle(kind=KIND, name=f"{switch}-link", site=site.name, data={"namespace": switch, "wires": wires})
    ledger.creating(handle)
    link = Link(handle, spec, site, by, seed)
    await link.lay(ends, cpus)
    return link


async def remove_link(handle: Handle, site: Site) -> None:
    """Take the wires out. Idempotent; a relay has died with whoever laid it, and patches go with their ports."""
    if await network.has_namespace(handle.data["namespace"], site):
        for number in range(handle.data["wires"]):
            for end in (f"near{number}", f"far{number}"):
                await site.exec(["ip", "-netns", handle.data["namespace"], "link", "delete", end])


async def find_disciplines(site: Site) -> frozenset[str]:
    """Which of netem, tbf and htb the kernel has, tried on a loopback in a namespace of its own."""
    found = set()
    for name, words in _TRIED.items():
        tried = await site.exec(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", name, *words])
        if tried.status == 0:
            found.add(name)
        elif b"tc" in tried.stderr and b"not found" in tried.stderr:
            raise HostCannot("there is no program 'tc'", remedy=describe_install(find_manager(), "iproute2"))
    return frozenset(found)
