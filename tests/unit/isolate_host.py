"""A pretended host of two CPUs, on which isolating one hurts nobody."""

import json
from collections.abc import Mapping, Sequence

from nearmetal.errors import MachineLost
from nearmetal.model import Completed, Running

PROBE = "probe"
CPU = "/sys/devices/system/cpu"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Pretended:
    """Its sysctls, its files, and where each of its tasks may run."""

    probe = PROBE
    bound = ("--bound",)

    def __init__(self) -> None:
        self.sysctls = {"kernel.timer_migration": "1", "kernel.sched_rt_runtime_us": "950000", "vm.stat_interval": "1"}
        self.files = {
            f"{CPU}/online": "0-1\n",
            f"{CPU}/isolated": "\n",
            f"{CPU}/nohz_full": "(null)\n",
            "/proc/cmdline": "quiet\n",
            BOOT_ID: "first\n",
            **{f"{CPU}/cpu{number}/topology/thread_siblings_list": "0-1\n" for number in (0, 1)},
            f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n",
            **{f"/sys/devices/system/machinecheck/machinecheck{number}/ignore_ce": "0\n" for number in (0, 1)},
        }
        self.tasks = {"task:10:1": "0-1", "task:11:1": "0-1", "irq:5": "0-1"}
        self.immovable: set[str] = set()
        self.unfit = "this kernel forgets"
        self.programs: set[str] = set()
        """Of the tasks, those that a cpuset moves."""
        self.is_apart = False
        self.is_busy = False
        """Whether it refuses to set CPUs apart by a cpuset."""
        self.others = "0"
        """CPUs of a control group that is somebody else's."""
        self.changed_since: list[str] = []
        self.dies_at: str | None = None
        self.has_grub = True
        self.listens = 0

    def snapshot(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        return dict(self.sysctls), dict(self.files), dict(self.tasks)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Completed:
        if self.dies_at is not None and self.dies_at in argv:
            raise MachineLost("killed", "here")
        match list(argv):
            case ["probe", "launch", "--bound", "--", *bound]:
                return await self.exec(bound, stdin=stdin)
            case ["probe", "launch", "--cgroup", "/cpuset", "--cpus", "1", "--", *listening] if self.is_apart:
                return await self.exec(listening)
            case ["probe", "launch", "--cpus", "1", "--", *listening] if not self.is_apart:
                return await self.exec(listening)
            case ["sysctl", "-n", name]:
                return told(self.sysctls.get(name))
            case ["sysctl", "-q", "-w", setting]:
                name, _, value = setting.partition("=")
                self.sysctls[name] = value
                return Completed(status=0)
            case ["cat", path]:
                return told(self.files.get(path))
            case ["grep", "-H", ".", *paths]:
                return told("".join(f"{path}:{self.files[path]}" for path in paths if path in self.files))
            case ["which", "update-grub"]:
                return Completed(status=0 if self.has_grub else 1)
            case ["update-grub"]:
                return Completed(status=0)
            case ["rm", "-f", path]:
                self.files.pop(path, None)
                return Completed(status=0)
            case [_, "cpuset", "list", "--json", "--cpus", cpus]:
                return told(json.dumps(self._cpuset(cpus)))
            case ["test", "-d", "/cpuset"]:
                return Completed(status=0 if self.is_apart else 1)
            case [_, "cpuset", "apart", "--json"] if self.is_busy:
                return Completed(status=1, stderr=b"Device or resource busy")
            case [_, "cpuset", "apart", "--json"]:
                self.is_apart = True
                self.tasks = {key: "0" if key in self.programs else at for key, at in self.tasks.items()}
                return told("{}")
            case [_, "cpuset", "back", "--json"]:
                return told(json.dumps({"left": self._given_back()}))
            case [_, "bystanders", "list", "--json", "--cpus", cpus]:
                there = {key: {"name": f"t{key}", "cpus": at} for key, at in self.tasks.items() if at == "0-1"}
                return told(json.dumps({"cpus": cpus, "movable": there, "fixed": {"task:2:0": {"name": "k"}}}))
            case [_, "bystanders", "away", "--json", "--cpus", _]:
                self.tasks = {key: at if key in self.immovable else "0" for key, at in self.tasks.items()}
                return told("{}")
            case [_, "bystanders", "back", "--json"]:
                return told(json.dumps(self._back(json.loads(stdin)["movable"])))
            case [_, "noise", "--json", "--cpus", cpu, "--duration", _]:
                return told(json.dumps({"cpus": [self._heard(int(cpu))]}))
        raise AssertionError(f"nobody expects {argv}")

    def _cpuset(self, cpus: str) -> dict[str, object]:
        there = [key for key in self.programs if self.tasks[key] == "0-1"]
        return {
            "cpus": cpus,
            **({"unfit": self.unfit} if self.unfit else {}),
            "hierarchy": {"version": "first", "joins": "/cpuset"},
            "stands": self.is_apart,
            "tasks": {key: f"t{key}" for key in there},
            "groups": {"/cpuset/others": {"cpus": self.others, **({"apart": "0"} if self.others == "0-1" else {})}},
        }

    def _given_back(self) -> list[dict[str, str]]:
        self.is_apart = False
        self.tasks = {key: "0-1" if key in self.programs else at for key, at in self.tasks.items()}
        return [{"what": what, "why": "it has others now"} for what in self.changed_since]

    def _back(self, before: Mapping[str, Mapping[str, str]]) -> dict[str, list[dict[str, str]]]:
        left = []
        for key, one in before.items():
            if self.tasks[key] == "0":
                self.tasks[key] = one["cpus"]
            elif self.tasks[key] != one["cpus"]:
                left.append({"key": key, "name": one["name"], "why": f"it may run on {self.tasks[key]} now"})
        return {"left": left, "refused": []}

    def _heard(self, cpu: int) -> dict[str, object]:
        """A hundredth of the time is lost to each that may run there; no two listens are the same."""
        self.listens += 1
        there = sum(str(cpu) in at.split("-") for at in self.tasks.values())
        return {
            "cpu": cpu,
            "elapsed_ns": 500_000_000,
            "threshold_ns": 5000,
            "gaps": {"count": there, "share": there / 100 + self.listens / 1e5, "longest_ns": 1000},
            "causes": {"interrupts": [], "local_timer": None},
        }

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        raise AssertionError("nothing is spawned")

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        self.files[path] = content.decode()

    async def get(self, path: str) -> bytes:
        return self.files[path].encode()


def told(text: str | None) -> Completed:
    return Completed(status=1) if text is None else Completed(status=0, stdout=text.encode())
