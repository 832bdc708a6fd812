"""Which site has which block: drawn from the seed, balanced, and never chosen by who is free first. Pure."""

import hashlib
import json
from collections.abc import Collection, Sequence
from functools import lru_cache


def assign_site(
    study: str, seed: int | None, sites: Sequence[str], index: int, attempt: int = 0, gone: Collection[str] = ()
) -> str | None:
    """The site of a block's attempt; None if all sites are gone.

    Of n sites, n blocks from a multiple of n on have each site once, in an order that is drawn anew for each such
    number of blocks. An attempt after the first goes to the site that comes next there. So does a block whose site is
    gone. `study` is the digest of the plan's study.
    """
    n = len(sites)
    order = _draw_order(study, seed, tuple(sites), index // n)
    turned = (order[(index + attempt + further) % n] for further in range(n))
    return next((site for site in turned if site not in gone), None)


@lru_cache(maxsize=64)  # a thousand blocks in a row have the same one
def _draw_order(study: str, seed: int | None, sites: tuple[str, ...], number: int) -> list[str]:
    return sorted(sites, key=lambda site: _hash(study, seed, number, site))


def _hash(*what: object) -> str:
    return hashlib.sha256(json.dumps(what, separators=(",", ":")).encode()).hexdigest()
