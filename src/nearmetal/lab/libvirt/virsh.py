"""libvirt by its own program: `virsh`, run on the site like any other command, so that it is never of another version
than the library it speaks by. docs/adr/libvirt-by-virsh.md says why not the library itself."""

import json
from typing import Any, Final

from qemu.qmp import ExecuteError, QMPError

from nearmetal.errors import HostCannot, MachineError, NotProvisioned
from nearmetal.model import Site, SiteRunning

PROGRAM: Final = "virsh"
_CREATED: Final = b"Domain "
_LOCALE: Final = {"LC_ALL": "C"}
"""In which its words are known."""


class Connection:
    def __init__(self, uri: str, site: Site) -> None:
        self.uri = uri
        self.site = site

    def words(self, *argv: str) -> list[str]:
        return [PROGRAM, "--connect", self.uri, "--quiet", *argv]

    async def run(self, *argv: str) -> str:
        """What it says. HostCannot with what libvirt said otherwise."""
        ended = await self.site.exec(self.words(*argv), env=_LOCALE)
        if ended.status != 0:
            raise HostCannot(f"libvirt: {reason(ended.stderr)}", self.uri)
        return ended.text

    async def create(self, file: str, limit: float) -> SiteRunning:
        """Start a domain from a file, its vCPUs halted. It goes when what is returned ends, and that with us.

        NotProvisioned with libvirt's reason.
        """
        script = f"create --paused --autodestroy {_quoted(file)}; event --loop --all --timeout 2147483"
        launch = [self.site.probe, "launch", *self.site.bound, "--", PROGRAM, "--connect", self.uri, script]
        running = await self.site.spawn(launch, env=_LOCALE)
        if not (await running.first_line(limit)).startswith(_CREATED):
            raise NotProvisioned(f"libvirt does not start it: {reason((await running.stop()).stderr)}")
        return running


def _quoted(path: str) -> str:
    """As a word of virsh's own lines."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def reason(stderr: bytes) -> str:
    """What libvirt said, without the word error before each line."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return "; ".join(line.removeprefix("error: ").strip() for line in lines if line.strip())[-500:] or "it said nothing"


class MonitorClient:
    """QEMU's monitor by way of libvirt: asks as a client of QMP does."""

    def __init__(self, connection: Connection, domain: str) -> None:
        self._connection = connection
        self._domain = domain

    async def execute(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        asked = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
        try:
            answer = json.loads(await self._connection.run("qemu-monitor-command", self._domain, asked))
        except (HostCannot, MachineError, ValueError) as error:
            raise QMPError(str(error)) from None
        if "error" in answer:
            raise _QemuRefusal(answer["error"].get("desc", command))
        return answer["return"]


class _QemuRefusal(ExecuteError):
    """QEMU's answer is an error; its class and identifiers are libvirt's business."""

    def __init__(self, what: str) -> None:
        QMPError.__init__(self, what)
