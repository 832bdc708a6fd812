"""`worker`, and what runs blocks of `run --scheduler`."""

import click

from nearmetal.errors import BadInput
from nearmetal.plain import strip_controls
from nearmetal.run.engine import Engine


def choose_engine(scheduler: str | None) -> Engine | None:
    """None for this host. BadInput."""
    if scheduler is None:
        return None
    from nearmetal.fleet.engine import OnAFleet

    return OnAFleet(scheduler)


def start_worker(scheduler: str, name: str | None) -> int:
    from nearmetal.fleet.cluster import parse_scheduler
    from nearmetal.fleet.worker import run_worker

    if parse_scheduler(scheduler) is not None:
        raise BadInput("a worker stands at an address", "nearmetal worker", "name that of `dask scheduler`")
    return run_worker(scheduler, name, lambda text: click.echo(strip_controls(text)))
