"""The load generator's words for requests of an HTTP workload, and the files that they name."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from nearmetal.errors import MachineError
from nearmetal.model import Machine
from nearmetal.workloads.http.parameters import HttpParameters
from nearmetal.workloads.http.requests import MixEntry


class RequestArguments:
    """Those of one workload, on each client."""

    def __init__(self, given: HttpParameters) -> None:
        paths = () if given.mix else given.all_paths[1:]  # the first is the URL's
        self._paths = [word for path in paths for word in ("--path", path)]
        self._headers = [word for name, value in given.headers.items() for word in ("--header", f"{name}: {value}")]
        self._method = [] if given.method is None else ["--method", given.method]
        self._send = None if given.send is None else given.send.encode()
        self._send_file = given.send_file
        self._mix = given.mix
        self._tls = given.tls
        authorities = given.tls.ca if given.tls else None
        named = (given.send_file, authorities, *(entry.send_file for entry in given.mix))
        self._files = [file for file in named if file is not None]

    def make_arguments(self, client: Machine, *, once: bool = False) -> list[str]:
        """As the generator on this client is told; with `once`, each kind of request as often as any other."""
        words = [*self._paths, *self._method, *self._headers]
        if self._send is not None or self._send_file is not None:
            at = self._body_file(client) if self._send_file is None else self._send_file.locate_in(client)
            words += ["--data", f"@{at}"]
        if self._mix:
            words += ["--mix", json.dumps([self._make_entry(client, entry, once) for entry in self._mix])]
        if self._tls is not None and self._tls.ca is not None:
            words += ["--ca", self._tls.ca.locate_in(client)]
        return [*words, "--insecure"] if self._tls is not None and self._tls.insecure else words

    def _make_entry(self, client: Machine, entry: MixEntry, once: bool) -> dict[str, Any]:
        said = entry.model_dump(exclude_none=True, exclude={"send_file"})
        if entry.send_file is not None:
            said["send_file"] = entry.send_file.locate_in(client)
        return {**said, "weight": 1} if once else said

    def _body_file(self, client: Machine) -> str:
        return f"{client.probe}.send"

    async def put_files(self, clients: Sequence[Machine]) -> None:
        """Have the files on every client. ToolFailed when one is another than when the study was planned."""
        for client in clients:
            for file in self._files:
                await client.put(file.read(), file.locate_in(client))
            if self._send is not None:
                await client.put(self._send, self._body_file(client))

    async def remove_files(self, clients: Sequence[Machine]) -> None:
        """Remove them from every client that still answers."""
        for client in clients:
            there = [file.locate_in(client) for file in self._files]
            there += [] if self._send is None else [self._body_file(client)]
            if there:
                with contextlib.suppress(MachineError):
                    await client.exec(["rm", "-f", *there])
