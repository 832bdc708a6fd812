"""A site on which whatever is started ends with the controller, also when that is killed.

Else a program that changes values could go on doing so while `clean` puts them back, and have the last word.
"""

from collections.abc import Mapping, Sequence

from nearmetal.config import LIMITS
from nearmetal.model import Completed, Running, Site


class BoundCommands:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        return await self._site.exec(self._launched(argv), stdin=stdin, env=env, timeout=timeout)

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        return await self._site.spawn(self._launched(argv), env=env)

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await self._site.put(content, path, mode=mode)

    async def get(self, path: str) -> bytes:
        return await self._site.get(path)

    def _launched(self, argv: Sequence[str]) -> list[str]:
        return [self._site.probe, "launch", *self._site.bound, "--", *argv]
