"""The pretended world is shared by processes, as hardware is."""

import subprocess
import sys

from nearmetal.lab.mock.world import World

_MAKE = """
import sys
from nearmetal.lab.mock.world import World

for number in range(30):
    World("here").make(f"{sys.argv[1]}-{number}", environment="base")
"""


def test_processes_that_make_machines_at_once_share_no_address_and_no_count() -> None:
    makers = [subprocess.Popen([sys.executable, "-c", _MAKE, str(maker)]) for maker in range(4)]
    assert [maker.wait(60) for maker in makers] == [0] * 4
    made = list(World("here").machines())
    assert len({state["address"] for state in made}) == len(made) == 120
    assert sorted(state["count"] for state in made) == list(range(1, 121))
