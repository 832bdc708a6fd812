"""Sites of a fleet, and a block on another host."""

import click

from nearmetal.control_characters import strip_controls
from nearmetal.errors import BadInput


@click.command()
@click.argument("scheduler", metavar="tcp://HOST:PORT")
@click.option("--name", help="Of the site; else that of this host.")
def worker(scheduler: str, name: str | None) -> int:
    """Let this host be a site of a fleet.

    It runs blocks that `nearmetal run --scheduler` gives to the Dask scheduler at this address, one at a time.
    """
    from nearmetal.fleet.cluster import is_address
    from nearmetal.fleet.worker import run_worker

    if not is_address(scheduler):
        remedy = "name that of a `dask scheduler` that runs: nearmetal worker tcp://HOST:8786"
        raise BadInput(f"{scheduler!r} is no address of a scheduler", "worker", remedy)
    return run_worker(scheduler, name, lambda text: click.echo(strip_controls(text)))


@click.command(hidden=True)
def block() -> int:
    """Run one block: a task as JSON on standard input, its events on standard output.

    For `nearmetal run` on another host; people have no use for it.
    """
    from nearmetal.run import block_main

    return block_main.main()
