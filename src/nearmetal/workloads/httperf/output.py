"""What httperf 0.9 prints, as figures. Pure; a figure that is missing is an error, and a mean of nothing is no zero."""

import re
from collections.abc import Mapping

from nearmetal.errors import ToolFailed
from nearmetal.model import Cause

Figures = Mapping[str, float | None]
"""Figure to value, as printed; the name tells the unit. None where httperf prints 0.0 for want of an observation."""

_LINES = (
    "Maximum connect burst length: {connections.burst_max}",
    "Total: connections {connections.opened} requests {requests.sent} replies {replies.count} "
    "test-duration {duration_s} s",
    "Connection rate: {connections.rate} conn/s ({connections.period_ms} ms/conn, "
    "<={connections.concurrent_max} concurrent connections)",
    "Connection time [ms]: min {connection_ms.min} avg {connection_ms.mean} max {connection_ms.max} "
    "median {connection_ms.median} stddev {connection_ms.stddev}",
    "Connection time [ms]: connect {connect_ms.mean}",
    "Connection length [replies/conn]: {connections.replies_each}",
    "Request rate: {requests.rate} req/s ({requests.period_ms} ms/req)",
    "Request size [B]: {requests.bytes_each}",
    "Reply rate [replies/s]: min {reply_rate.min} avg {reply_rate.mean} max {reply_rate.max} "
    "stddev {reply_rate.stddev} ({reply_rate.samples} samples)",
    "Reply time [ms]: response {first_byte_ms.mean} transfer {transfer_ms.mean}",
    "Reply size [B]: header {reply_bytes.header} content {reply_bytes.content} footer {reply_bytes.footer} "
    "(total {reply_bytes.total})",
    "Reply status: 1xx={status.1xx} 2xx={status.2xx} 3xx={status.3xx} 4xx={status.4xx} 5xx={status.5xx}",
    "CPU time [s]: user {cpu_s.user} system {cpu_s.system} "
    "(user {cpu_percent.user}% system {cpu_percent.system}% total {cpu_percent.total}%)",
    "Net I/O: {net.kibibytes_per_s} KB/s ({net.megabits_per_s}*10^6 bps)",
    "Errors: total {errors.total} client-timo {errors.client-timo} socket-timo {errors.socket-timo} "
    "connrefused {errors.connrefused} connreset {errors.connreset}",
    "Errors: fd-unavail {errors.fd-unavail} addrunavail {errors.addrunavail} ftab-full {errors.ftab-full} "
    "other {errors.other}",
)
"""Every line of a summary, with the figures' names in the places of the numbers."""

ERROR_CLASSES = (
    *("client-timo", "socket-timo", "connrefused", "connreset"),
    *("fd-unavail", "addrunavail", "ftab-full", "other"),
)
STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

_OF_REPLIES = ("connection_ms.", "connect_ms.", "first_byte_ms.", "transfer_ms.", "reply_bytes.")
_OF_SAMPLES = ("reply_rate.min", "reply_rate.mean", "reply_rate.max", "reply_rate.stddev")

_PLACE = re.compile(r"\{([^}]*)\}")
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


def _compile_line(line: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    texts = _PLACE.split(line)[::2]
    return re.compile(_NUMBER.join(map(re.escape, texts))), tuple(_PLACE.findall(line))


_PATTERNS = tuple(map(_compile_line, _LINES))


def parse_figures(text: str) -> Figures:
    """Every figure of a run. ToolFailed when one is missing, or when they contradict each other."""
    lines = [line.rstrip() for line in text.splitlines()]
    found: dict[str, float | None] = {}
    for pattern, names in _PATTERNS:
        matches = [match for match in map(pattern.fullmatch, lines) if match]
        if len(matches) != 1:
            seen = "printed no figure" if not matches else "printed more than once"
            raise _not_understood(f"{seen} {names[0]!r}")
        found |= {name: float(number) for name, number in zip(names, matches[0].groups(), strict=True)}
    _check_sums(found)
    for name in found:
        unobserved = not found["replies.count"] and name.startswith(_OF_REPLIES)
        if unobserved or (not found["reply_rate.samples"] and name in _OF_SAMPLES):
            found[name] = None
    return found


def require_figure(found: Figures, name: str) -> float:
    """One figure. ToolFailed when there was nothing to observe."""
    value = found[name]
    if value is None:
        raise ToolFailed(f"httperf observed nothing for {name!r}")
    return value


def count_classes(found: Figures) -> dict[str, int]:
    """Replies by class of status and failures by class, those that are not 0."""
    names = [*(f"status.{name}" for name in STATUS_CLASSES), *(f"errors.{name}" for name in ERROR_CLASSES)]
    values = {name.partition(".")[2]: int(require_figure(found, name)) for name in names}
    return {name: value for name, value in values.items() if value}


def _check_sums(found: Mapping[str, float | None]) -> None:
    def sum_figures(prefix: str, names: tuple[str, ...]) -> float:
        return sum(found[f"{prefix}.{name}"] or 0.0 for name in names)

    if sum_figures("errors", ERROR_CLASSES) != found["errors.total"]:
        raise _not_understood("printed errors by class that are not their total")
    if sum_figures("status", STATUS_CLASSES[1:]) > (found["replies.count"] or 0.0):
        raise _not_understood("printed more replies by status than replies")


def _not_understood(what: str) -> ToolFailed:
    return ToolFailed(
        f"httperf {what}", remedy="httperf 0.9 is understood; the image `lab` has it", cause=Cause.MEASUREMENT_INVALID
    )
