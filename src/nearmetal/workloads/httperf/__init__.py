"""HTTP requests from every client by httperf, the open-loop generator of two of the published studies."""

import json
from typing import ClassVar
from urllib.parse import urlsplit

from nearmetal.model import Completed, Frozen, Measurement, Stage
from nearmetal.workloads._parameters import format_number
from nearmetal.workloads._server import Servers
from nearmetal.workloads._stage import require_success, uneven_start
from nearmetal.workloads.httperf import responses as httperf_gates
from nearmetal.workloads.httperf import responses as httperf_responses
from nearmetal.workloads.httperf.output import parse_figures, require_figure
from nearmetal.workloads.httperf.parameters import HttperfParameters

SLACK = 20.0
"""Seconds beyond the load itself: starting httperf, and printing what it found."""


class Httperf:
    kind: ClassVar[str] = "httperf"
    Parameters: ClassVar[type[Frozen]] = HttperfParameters
    has_clients: ClassVar[bool] = True
    responses = httperf_responses.KINDS
    primary = "latency_mean"
    preparing = 0.0

    def __init__(self, parameters: HttperfParameters) -> None:
        self._parameters = parameters
        self.duration = parameters.warmup + parameters.expected_seconds
        self.limit = parameters.longest_seconds
        self._servers = Servers(parameters, parameters.one_path)

    async def prepare(self, stage: Stage) -> None:
        given = self._parameters
        await self._servers.start(stage)
        if given.warmup > 0:
            connections = given.connections_in(given.warmup)
            await self._run_load(stage, connections, connections / given.connection_rate + given.longest_life)

    async def finish(self, stage: Stage) -> None:
        await self._servers.stop()

    async def run(self, stage: Stage) -> Measurement:
        given = self._parameters
        return self.make_measurement(await self._run_load(stage, given.measured_connections, given.longest_seconds))

    async def _run_load(self, stage: Stage, connections: int, limit: float) -> list[Completed]:
        """Load from every client at once; what each httperf printed."""
        commands = [
            (client, self._make_command(self._servers.make_url(stage.facing(index)), connections))
            for index, client in enumerate(stage.clients)
        ]
        ended = await stage.together(commands, limit + SLACK)
        return [require_success(one, "httperf", client) for one, client in zip(ended, stage.clients, strict=True)]

    def _make_command(self, url: str, connections: int) -> list[str]:
        given = self._parameters
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        return [
            "httperf",
            f"--server={host}",
            f"--port={port}",
            # It would leave the port out, and a server that tells its sites apart by it would answer another request.
            *([f"--server-name={host}:{port}"] if port != 80 else []),
            f"--uri={parts.path or '/'}{f'?{parts.query}' if parts.query else ''}",
            f"--rate={format_number(given.connection_rate)}",
            f"--num-conns={connections}",
            f"--num-calls={given.calls}",
            f"--timeout={format_number(given.timeout)}",
        ]

    def make_measurement(self, ended: list[Completed]) -> Measurement:
        """What the clients' output says. Pure. ToolFailed when a figure is missing."""
        given = self._parameters
        clients = [parse_figures(one.text) for one in ended]
        printed = {f"httperf-{index}.txt": one.stdout for index, one in enumerate(ended)}
        found = {f"httperf-{index}.json": json.dumps(client, indent=1).encode() for index, client in enumerate(clients)}
        return Measurement(
            responses=httperf_responses.make_responses(clients, given.measured_connections * given.calls),
            events=sum(require_figure(client, "replies.count") for client in clients),
            artifacts={**printed, **found},
            warnings=(*uneven_start(ended), *httperf_gates.list_warnings(clients, given)),
            invalid=httperf_gates.find_invalid(clients, given),
        )


plugin = Httperf
