"""The load generator's document, `load.v1`: as much of it as a trial needs. Pure."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from nearmetal.errors import ToolFailed
from nearmetal.model import Cause, Completed, Machine
from nearmetal.workloads._document import Count, DocumentPart, Figure, describe_problem
from nearmetal.workloads._stage import require_success


class DurationSpread(DocumentPart):
    """Durations in ns. Without a single one the values are None."""

    p50: Figure | None
    p90: Figure | None
    p99: Figure | None
    count: Count


class Lives(DocumentPart):
    """Durations in ns of which only these moments are needed."""

    mean: Figure | None = None
    stddev: Figure | None = None
    count: Count = 0


class ReplyRate(DocumentPart):
    """Replies per second, in samples of equal length."""

    stddev: Figure | None = None
    samples: Count = 0


class RequestCounts(DocumentPart):
    completed: Count
    """Answered, be it after the window in which they were due."""
    resent: Count = 0
    """Sent again because the server had closed the kept connection before it saw them."""


class Rate(DocumentPart):
    """Per second."""

    offered: Figure | None
    """What an open loop was asked for."""
    answered: Figure | None = None
    """Of an open loop: replies to the requests that were due within the window, over the time until the last came."""


class GeneratorTime(DocumentPart):
    """Processor time of the generator's threads, from the window's start until nothing is under way any more, in ns."""

    user: Count
    system: Count
    lasted: Count
    """How long that was."""


class Errors(DocumentPart):
    """Requests that got no reply, by why."""

    client_timeout: Count
    socket_timeout: Count
    refused: Count
    reset: Count
    fd_unavailable: Count
    address_unavailable: Count
    fd_table_full: Count
    unbegun: Count
    """The generator was behind by more than the timeout, and never began them."""
    certificate: Count = 0
    """Over TLS: the server's was refused."""
    tls: Count = 0
    """TLS failed otherwise."""
    other: Count

    @property
    def total(self) -> int:
        return sum(self.by_class.values())

    @property
    def no_place(self) -> int:
        """Requests that the client had no descriptor for, or no port to send them from."""
        return self.fd_unavailable + self.fd_table_full + self.address_unavailable

    @property
    def own_shortages(self) -> int:
        """Requests that never left the client: it had no place for them, or no time."""
        return self.no_place + self.unbegun

    @property
    def by_class(self) -> Mapping[str, int]:
        return dict(self)


class Saturation(DocumentPart):
    """The highest rate (1/s) of replies that keep up, in a ramp."""

    rate: Figure | None
    """None when not even the ramp's first rate was kept up."""
    interval: tuple[Figure | None, Figure | None]
    """The replies' rate below which every attempt was kept up, and the requests' from which on none was."""
    censored: Literal["none", "above", "below", "interrupted"]
    """above: the ramp's last rate was still kept up, or the generator gave out first, or the server was gone."""


class RampStep(DocumentPart):
    """One step of a ramp."""

    offered: Figure
    generator_failed: bool


class LoadEngine(DocumentPart):
    """The generator's way to the kernel, by which it depends when the times of a request are taken."""

    name: str
    reason: str = ""


class LoadDocument(DocumentPart):
    schema_: Annotated[Literal["load.v1"], Field(alias="schema")]
    arrivals: str | None = None
    engine: LoadEngine | None = None
    new_connections: bool = False
    elapsed_ns: Count
    requests: RequestCounts
    rate: Rate
    latency_ns: DurationSpread
    connection_ns: Lives = Lives()
    connect_ns: DurationSpread
    handshake_ns: DurationSpread | None = None
    """Of https, as the next."""
    handshake_cpu_ns: DurationSpread | None = None
    """Of the generator's processor."""
    first_byte_ns: DurationSpread
    lateness_ns: DurationSpread
    silence_ns: Count = 0
    """How long before the window's end the last reply came, if the requests behind it failed."""
    status: Mapping[str, Count]
    """Replies by class, of the requests that were due within the window."""
    status_in_window: Mapping[str, Count]
    """Replies by class that were complete within the window."""
    status_codes: Mapping[str, Count] = {}
    """Replies by status, of the requests that were due within the window."""
    errors: Errors
    cpu_ns: GeneratorTime
    reply_rate: ReplyRate = ReplyRate()
    steps: tuple[RampStep, ...] = ()
    saturation: Saturation | None = None
    histogram: str = ""
    """Of latency_ns: HdrHistogram V2, compressed and in base64."""
    error_histogram: str | None = None
    """Of those replies in `histogram` that were errors, in its format; None if there were none."""

    @property
    def gave_out(self) -> RampStep | None:
        """Where the ramp ended because its generator did no more, twice running."""
        last = self.steps[-1] if self.steps else None
        is_end = self.saturation is not None and self.saturation.censored == "above"
        return last if last and last.generator_failed and is_end else None

    @model_validator(mode="after")
    def _adds_up(self) -> "LoadDocument":
        if self.served > self.requests.completed:
            raise ValueError(f"{self.served} replies by status, but {self.requests.completed} requests completed")
        return self

    @property
    def seconds(self) -> float:
        return self.elapsed_ns / 1e9

    @property
    def served(self) -> int:
        """Requests that were due within the window and got an answer, whenever it came."""
        return _count_answers(self.status)

    @property
    def transactions(self) -> int:
        """Answers: of an open loop those to the requests that were due within the window, be they as late as they may,
        and of a closed one, which asks more the sooner it has them, those that were complete within it."""
        return self.served if self.rate.answered is not None else _count_answers(self.status_in_window)

    @property
    def throughput(self) -> float:
        """Transactions per second: of the window, or of an open loop until the last reply."""
        if self.rate.answered is not None:
            return self.rate.answered * self.served / self.requests.completed if self.requests.completed else 0.0
        return self.transactions / self.seconds if self.elapsed_ns else 0.0

    @property
    def failed(self) -> int:
        """Requests without a reply, and with one that is an error."""
        return self.attempted - self.served

    @property
    def error_pages(self) -> Mapping[str, int]:
        """Replies that are no answer, by their status where it is known and else by its class."""
        by_status = {status: count for status, count in self.status_codes.items() if not "200" <= status < "400"}
        return by_status or {name: count for name, count in self.status.items() if name not in ANSWERS and count}

    @property
    def attempted(self) -> int:
        return self.requests.completed + self.errors.total


ANSWERS = ("2xx", "3xx")


def _count_answers(status: Mapping[str, int]) -> int:
    """Replies for which neither the request (4xx) nor the server (5xx) was at fault."""
    return sum(count for name, count in status.items() if name in ANSWERS)


NO_REPLY = 1
"""Status of a generator that not one reply came to: it measured, and its document tells why."""


def require_document(ended: Completed, what: str, machine: Machine) -> bytes:
    """The document of a generator that did what it was told. ToolFailed with its last words when it did not."""
    if ended.status == NO_REPLY and ended.stdout.strip():
        return ended.stdout
    return require_success(ended, what, machine).stdout


def parse(text: bytes, machine: str) -> LoadDocument:
    """The document that a client printed. ToolFailed when it is none."""
    try:
        return LoadDocument.model_validate_json(text)
    except ValidationError as error:
        what = f"what the load generator printed is no load.v1: {describe_problem(error)}"
        remedy = "use the probe that belongs to this nearmetal, in a checkout: make setup"
        raise ToolFailed(what, machine, remedy, cause=Cause.MEASUREMENT_INVALID) from None
