"""The workload `sha`: how many bytes a second `sha256sum` hashes inside the machine.

Parameter: `size`, how much is hashed ("256MiB"). Response: `hashed` (B/s, higher, ratio).
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from nearmetal.errors import ToolFailed
from nearmetal.lab.api import Bytes
from nearmetal.model import Frozen, Measurement, ResponseKind, Stage, Workload

_BLOCK = 2**20
_SLOWEST = 20 * 2**20
"""Bytes per second that the slowest machine hashes; what takes longer is taken to hang."""
# dd waits for what hashes, so its time is the time of both. "$1" is the number of blocks.
_SCRIPT = 'dd if=/dev/zero bs=1M count="$1" | sha256sum'
_COPIED = re.compile(r"(\d+) bytes .* copied, ([0-9.e-]+) s")

HASHED = ResponseKind(
    unit="B/s",
    better="higher",
    title="hashing speed",
    clause="hashes {ratio} × the bytes per second of {reference}",
)


class ShaParameters(Frozen):
    size: Annotated[Bytes, Field(ge=_BLOCK, multiple_of=_BLOCK)] = 256 * 2**20


class Sha:
    kind: ClassVar[str] = "sha"
    Parameters: ClassVar[type[Frozen]] = ShaParameters
    has_clients: ClassVar[bool] = False

    def __init__(self, parameters: ShaParameters) -> None:
        self._size = parameters.size
        self._digest = ""

    @property
    def responses(self) -> Mapping[str, ResponseKind]:
        return {"hashed": HASHED}

    @property
    def primary(self) -> str:
        return "hashed"

    @property
    def duration(self) -> float:
        return self._size / (10 * _SLOWEST)

    @property
    def preparing(self) -> float:
        return 0.0

    @property
    def limit(self) -> float:
        return self._size / _SLOWEST + 1

    async def prepare(self, stage: Stage) -> None:
        digest = hashlib.sha256()
        for _ in range(self._size // _BLOCK):
            digest.update(bytes(_BLOCK))
        self._digest = digest.hexdigest()

    async def run(self, stage: Stage) -> Measurement:
        argv = ["sh", "-c", _SCRIPT, "sha", str(self._size // _BLOCK)]
        ended = await stage.together([(server, argv) for server in stage.servers], self.limit)
        speeds = [self.speed(one.stdout, one.stderr) for one in ended]
        return Measurement(
            responses={"hashed": HASHED.of(sum(speeds) / len(speeds))},
            events=self._size * len(speeds),
            artifacts={f"dd-{index}.err": one.stderr for index, one in enumerate(ended)},
        )

    def speed(self, stdout: bytes, stderr: bytes) -> float:
        """Bytes a second, from what both programs said. ToolFailed when it is not what was asked for."""
        copied = _COPIED.search(stderr.decode("utf-8", "replace"))
        if copied is None or int(copied[1]) != self._size or float(copied[2]) <= 0:
            raise ToolFailed(f"dd said {stderr[-300:]!r}")
        if stdout.split()[:1] != [self._digest.encode()]:
            raise ToolFailed(f"sha256sum found {stdout[:100]!r} instead of {self._digest}")
        return self._size / float(copied[2])

    async def finish(self, stage: Stage) -> None:
        """Nothing was started."""


plugin: type[Workload] = Sha
