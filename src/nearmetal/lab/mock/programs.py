"""The programs of a pretended machine: small, deterministic, and answering in the real ones' formats.

A figure depends only on the machine's speed, its boot and the command: noise is drawn from a hash of these.
"""

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from urllib.parse import urlsplit

from nearmetal import units
from nearmetal.cpu_lists import show
from nearmetal.lab import probe
from nearmetal.lab.architecture import X86_64
from nearmetal.lab.changes.ethtool import FEATURES
from nearmetal.lab.changes.kinds import GRUB_DROP_IN, arguments_in
from nearmetal.lab.mock import probe_output
from nearmetal.lab.mock.world import State, World, read, write
from nearmetal.model import Completed

REQUESTS_PER_SECOND = 10_000.0
EVENTS_PER_SECOND = 1_000.0


@dataclass(frozen=True)
class Call:
    world: World
    state: State
    argv: list[str]
    stdin: bytes
    env: Mapping[str, str]

    @property
    def inner(self) -> "Call":
        """The command that this one starts."""
        return replace(self, argv=self.argv[self.argv.index("--") + 1 :])


_PORT = re.compile(r"(?<![0-9.])[0-9]{2,5}(?![0-9.])")
"""A number among the words of a server: it listens there."""

Program = Callable[[Call], Awaitable[Completed]]


async def run(call: Call) -> Completed:
    """Run it, or say as a shell would that there is no such program."""
    name = call.argv[0].rsplit("/", 1)[-1]
    program = PROGRAMS.get(name)
    if program is None and read(call.state, call.argv[0]) is not None:
        program = serve  # a service of the user's own, which was put there
    if program is None:
        return Completed(status=127, stderr=f"{name}: not found".encode())
    return await program(call)


def _said(text: str) -> Completed:
    return Completed(status=0, stdout=text.encode())


def _saved(call: Call) -> Completed:
    """Of a program that has changed the machine, which is kept so."""
    call.world.save(call.state)
    return Completed(status=0)


def _refused(text: str, status: int = 1) -> Completed:
    return Completed(status=status, stderr=text.encode())


def noisy(state: State, what: str) -> float:
    """The machine's speed with its noise: the same for the same boot and the same words."""
    speed = state.get("speed", 1.0) * (1 + state.get("drift", 0.0) * state["count"])
    for condition, factor in state.get("effects", {}).items():
        is_told = any(condition in argument for argument in state["running_arguments"])
        if is_told or condition in (state.get("nic"), *state.get("serving", [])):
            speed *= factor
    digest = hashlib.sha256(f"{state['boot_id']} {what}".encode()).digest()
    uniform = (int.from_bytes(digest[:7]) + 0.5) / 2**56
    return float(speed * (1 + state.get("noise", 0.01) * NormalDist().inv_cdf(uniform)))


async def _true(call: Call) -> Completed:
    """Also `false`, and what has nothing to do here, as `mkdir`."""
    return Completed(status=int(call.argv[0] == "false"))


async def _cat(call: Call) -> Completed:
    paths = call.argv[1:]
    if not paths:
        return Completed(status=0, stdout=call.stdin)
    found = {path: _file(call, path) for path in paths}
    missing = "".join(f"cat: {path}: No such file or directory\n" for path in paths if found[path] is None)
    content = b"".join(found[path] or b"" for path in paths)
    return Completed(status=1 if missing else 0, stdout=content, stderr=missing.encode())


def _file(call: Call, path: str) -> bytes | None:
    if path == "/sys/devices/system/cpu/isolated":
        arguments = [a.partition("=")[2] for a in call.state["running_arguments"] if a.startswith("isolcpus=")]
        return ("".join(arguments) + "\n").encode()
    if path == "/proc/cmdline":
        return f"BOOT_IMAGE=mock {' '.join(call.state['running_arguments'])}\n".encode()
    if path == "/proc/sys/kernel/random/boot_id":
        return f"{call.state['boot_id']}\n".encode()
    if path in ("/proc/net/tcp", "/proc/net/tcp6"):
        ports = call.state.get("listening", []) if path.endswith("tcp") and call.state["serving"] else []
        return "".join(f"0: 00000000:{port:04X} 00000000:0000 0A\n" for port in ports).encode()
    if (placed := re.fullmatch(r"/proc/(\d+)/status", path)) and placed[1] in call.state["placed"]:
        return f"State:\tR\nCpus_allowed_list:\t{call.state['placed'][placed[1]]}\n".encode()
    return read(call.state, path)


async def _grep(call: Call) -> Completed:
    """`grep -sHE PATTERN PATH...`: what is not there says nothing."""
    pattern = re.compile(call.argv[2])
    found = [(path, content) for path in call.argv[3:] if (content := _file(call, path)) is not None]
    lines = [f"{path}:{line}\n" for path, text in found for line in text.decode().splitlines() if pattern.search(line)]
    return Completed(status=0 if lines else 1, stdout="".join(lines).encode())


async def _rm(call: Call) -> Completed:
    for path in call.argv[1:]:
        call.state["files"].pop(path, None)
    return _saved(call)


async def _sleep(call: Call) -> Completed:
    await asyncio.sleep(float(call.argv[1]))
    return Completed(status=0)


async def _printenv(call: Call) -> Completed:
    values = [f"{call.env[name]}\n" for name in call.argv[1:] if name in call.env]
    return Completed(status=int(len(values) < len(call.argv) - 1), stdout="".join(values).encode())


async def _stat(call: Call) -> Completed:
    """`stat -c %a PATH`."""
    entry = call.state["files"].get(call.argv[-1])
    return _said(f"{entry['mode']:o}\n") if entry else _refused("stat: No such file or directory")


async def _sha256sum(call: Call) -> Completed:
    path = call.argv[1]
    content = _file(call, path)
    if content is not None:
        return _said(f"{hashlib.sha256(content).hexdigest()}  {path}\n")
    if path == probe.INSIDE:  # every pretended machine comes with the probe
        return _said(f"{probe.sha256()}  {path}\n")
    return _refused(f"sha256sum: {path}: No such file or directory")


async def _sysctl(call: Call) -> Completed:
    sysctls = call.state["sysctls"]
    if call.argv[1] == "-n":
        value = sysctls.get(call.argv[2])
        return _said(value + "\n") if value is not None else _refused("sysctl: no such key")
    if not call.argv[1].startswith("-"):
        listed = [f"{name} = {sysctls[name]}\n" for name in call.argv[1:] if name in sysctls]
        return Completed(status=int(len(listed) < len(call.argv) - 1), stdout="".join(listed).encode())
    name, _, value = call.argv[-1].partition("=")
    if name not in sysctls:
        return _refused(f"sysctl: cannot stat /proc/sys/{name}: No such file or directory")
    sysctls[name] = value
    return _saved(call)


async def _ethtool(call: Call) -> Completed:
    features = call.state["features"]
    if call.argv[1] == "-k":
        lines = "".join(f"{name}: {value}\n" for name, value in features.items())
        return _said(f"Features for {call.argv[2]}:\n{lines}")
    wanted = {FEATURES.get(name, name): value for name, value in zip(call.argv[3::2], call.argv[4::2], strict=True)}
    free = {feature: value for feature, value in wanted.items() if not features.get(feature, "[fixed]").endswith("]")}
    if not free:
        return _refused("Could not change any device features", 1)
    features.update(free)
    return _saved(call)


async def _update_grub(call: Call) -> Completed:
    drop_in = _file(call, GRUB_DROP_IN) or b""
    call.state["boot_loader"] = arguments_in(drop_in.decode()).split()
    return _saved(call)


async def serve(call: Call) -> Completed:
    """A server that was spawned: it goes on until it is stopped."""
    name = call.argv[0].rsplit("/", 1)[-1]
    delay = _option(call.argv, "--delay")
    words = " ".join([*call.argv, *call.env.values(), *(["80"] if name == "lighttpd" else [])])
    now = {
        "serving": [*call.state["serving"], name],
        "delay": units.parse_duration(delay) if delay else 0.0,
        "listening": list(map(int, _PORT.findall(words))),
    }
    call.world.save({**call.state, **now})
    try:
        await asyncio.Event().wait()
    finally:
        if (left := call.world.read(call.state["name"])) is not None:
            call.world.save({**left, "serving": [other for other in left["serving"] if other != name]})
    raise AssertionError("an event that nobody sets")


async def _tcpdump(call: Call) -> Completed:
    """Opens its file with a capture's header; a pretended network has no packets."""
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    file = call.argv[call.argv.index("-w") + 1] + ("0" if "-W" in call.argv else "")
    write(call.state, file, header)
    return await serve(call)


async def _sysbench(call: Call) -> Completed:
    """`sysbench cpu ... run`, in the words of sysbench 1.0.20."""
    options = dict(word.lstrip("-").split("=", 1) for word in call.argv if word.startswith("--") and "=" in word)
    speed = EVENTS_PER_SECOND * noisy(call.state, " ".join(call.argv[1:]))
    events = float(options.get("events", "0"))
    seconds = events / speed if events else float(options.get("time", "10"))
    latency = 1000.0 / speed
    return _said(
        "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nRunning the test with following options:\n"
        f"Number of threads: {options.get('threads', '1')}\n"
        "Initializing random number generator from current time\n\n\n"
        f"Prime numbers limit: {options.get('cpu-max-prime', '10000')}\n\nInitializing worker threads...\n\n"
        "Threads started!\n\nCPU speed:\n"
        f"    events per second: {speed:8.2f}\n\nGeneral statistics:\n"
        f"    total time:                          {seconds:.4f}s\n"
        f"    total number of events:              {round(speed * seconds)}\n\nLatency (ms):\n"
        f"         min:                                    {latency * 0.98:.2f}\n"
        f"         avg:                                    {latency:.2f}\n"
        f"         max:                                    {latency * 1.9:.2f}\n"
        f"         95th percentile:                        {latency * 1.05:.2f}\n"
        f"         sum:                                 {seconds * 1000:.2f}\n\nThreads fairness:\n"
        f"    events (avg/stddev):           {speed * seconds:.4f}/0.00\n"
        f"    execution time (avg/stddev):   {seconds:.4f}/0.00\n\n"
    )


async def _probe(call: Call) -> Completed:
    verbs = {"at": _at, "facts": _facts, "launch": _launch, "load": _load, "sample": _sample, "serve": serve}
    verb = verbs.get(call.argv[1]) if len(call.argv) > 1 else None
    return await verb(call) if verb else _refused(f"the pretended probe has no verb {call.argv[1:2]}", 2)


async def _launch(call: Call) -> Completed:
    """The program takes the place of `launch`; `--pid-file` says under which number it can be asked where it runs."""
    if file := _option(call.argv, "--pid-file"):
        pid = str(1000 + len(call.state["placed"]))
        call.state["placed"][pid] = _option(call.argv, "--cpus")
        write(call.state, file, f"{pid}\n".encode())
        call.world.save(call.state)
    return await run(call.inner)


async def _at(call: Call) -> Completed:
    started = time.time_ns()
    ended = await run(call.inner)
    document = {
        "schema": "at.v1",
        "left": [],
        "intended_ns": started,
        "started_ns": started,
        "late_ns": 0,
        "ended_ns": started,
        "elapsed_ns": 0,
        "status": ended.status,
        "signal": None,
        "cpus": _option(call.argv, "--cpus") or show(range(call.state.get("vcpus", 1))),
        "timed_out": False,
        "stdout": base64.b64encode(ended.stdout).decode(),
        "stdout_truncated": False,
        "stderr": base64.b64encode(ended.stderr).decode(),
        "stderr_truncated": False,
    }
    return Completed(status=ended.status, stdout=json.dumps(document).encode())


async def _facts(call: Call) -> Completed:
    """As much of facts.v1 as the reading side needs."""
    state = call.state
    cpus = state.get("vcpus", 1)
    document = {
        "schema": "facts.v1",
        "probe": "mock",
        "kernel": {
            "release": "6.1-mock",
            "version": "#1",
            "architecture": X86_64.machine,
            "command_line": " ".join(state["running_arguments"]),
            "boot_id": state["boot_id"],
        },
        "processor": {
            "model": "Mock CPU",
            "flags": [],
            "online": show(range(cpus)),
            "allowed": show(range(cpus)),
            "allowed_count": cpus,
        },
        "virtualization": {"hypervisor_flag": False},
        "memory": {"total_bytes": state.get("memory", 512 * 2**20), "available_bytes": 2**28},
        "limits": {},
        "clock": {},
        "mitigations": {},
        "sysctls": state["sysctls"],
        "settings": {},
        "filesystems": {},
        "block_devices": {},
        "interfaces": {"data": {"driver": state.get("nic", "mock"), "features": {}}},
        "hashes": {},
    }
    return Completed(status=0, stdout=json.dumps(document).encode())


async def _sample(call: Call) -> Completed:
    """`sample --json --output FILE`: one interval, as long as it runs."""
    began = time.monotonic_ns()
    _tell(call, probe_output.sample_header(began))
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # SIGTERM, after which the probe tells of the interval that it broke off
        _tell(call, probe_output.sample_lines(call.state, began, time.monotonic_ns()))
    return Completed(status=0)


def _tell(call: Call, lines: str) -> None:
    """Into the machine's file, unless the machine is gone."""
    state = call.world.read(call.state["name"])
    if state is not None:
        write(state, call.argv[call.argv.index("--output") + 1], lines.encode())
        call.world.save(state)


async def _load(call: Call) -> Completed:
    """load.v1 against a pretended server: refused unless a server runs there."""
    words = call.argv[2:]
    url = next(word for word in words if word.startswith(("http://", "https://")))
    server = call.world.at_address(urlsplit(url).hostname or "")
    is_up = server is not None and bool(server["serving"])
    duration, wanted = _option(words, "--duration"), _option(words, "--requests")
    seconds = float(duration.rstrip("ms")) if duration else 0.0
    rate = 1.0
    if server is not None:
        rate = 1 / (1 / (REQUESTS_PER_SECOND * noisy(server, call.state["name"] + url)) + server.get("delay", 0.0))
    done = (int(wanted) if wanted else round(rate * seconds)) if is_up else 0
    return _said(json.dumps(probe_output.load_document(rate, done, seconds, is_up)))


def _option(words: Sequence[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


PROGRAMS: Mapping[str, Program] = {
    "true": _true,
    "false": _true,
    "cat": _cat,
    "grep": _grep,
    "mkdir": _true,
    "rm": _rm,
    "sleep": _sleep,
    "printenv": _printenv,
    "stat": _stat,
    "sha256sum": _sha256sum,
    "sysctl": _sysctl,
    "ethtool": _ethtool,
    "update-grub": _update_grub,
    "lighttpd": serve,
    "stress-ng": serve,
    "tcpdump": _tcpdump,
    "sysbench": _sysbench,
    "nearmetal-probe": _probe,
}
