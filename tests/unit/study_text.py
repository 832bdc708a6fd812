"""A study that is right, to be made wrong in one place."""

import pytest

from nearmetal.errors import BadInput, ExitCode
from nearmetal.study import study_file

GOOD = """\
name = "good"
question = "Is it?"
reference = { environment = "base", workers = 1 }

[environments.base]
kind = "mock"

[environments.slow]
kind = "mock"
speed = 0.5

[factors]
environment = ["base", "slow"]
workers = [1, 4]

[factors.nic]
levels = ["virtio-net", "e1000"]
when = { environment = "slow" }

[machine]
vcpus = 2
memory = "512MiB"

[clients]
environment = "mock"

[link]
rate = "1Gbit/s"

[observe]
capture = { snap = 96 }

[[workloads]]
name = "web"
kind = "http"
workers = "{workers}"
duration = "1s"
primary = "throughput"

[design]
blocks = 6
margin = "2%"
alpha = 0.05
seed = 1

[quick.design]
blocks = 2
"""


def line(part: str, text: str = GOOD) -> int:
    """The number of the first line that begins with this."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(part))


def refused(text: str, **options: object) -> BadInput:
    """How a study is answered that has a mistake: by its line, and with a remedy."""
    with pytest.raises(BadInput) as caught:
        study_file.read(text, "s.toml", **options)  # type: ignore[arg-type]
    error = caught.value
    assert error.exit_code is ExitCode.BAD_INPUT
    assert error.where.startswith("s.toml")
    assert error.remedy
    assert "\n" not in error.what + error.remedy
    return error
