"""Levels that cannot be, or that are set beside their factor."""

import pytest

from nearmetal import errors, study
from tests.unit.study_text import GOOD, line, refused

SETTING = """name = "set"
[machine]
vcpus = 1
[clients]
environment = "host"
[environments.metal]
kind = "ssh"
address = "root@10.0.0.1"
provision = "reuse"
[hosts.far]
ssh = "root@10.0.0.2"
[factors]
environment = ["host"]
[[workloads]]
name = "web"
kind = "http"
"""


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ('vcpus = [1, 2]\nisolation = ["none", "user"]\n', "of one CPU none can be kept free, as 'user' wants it"),
        ('cpus = ["0", "0-1"]\n', "`cpus` names 2 CPUs for a machine of 'host' that is to have 1"),
        (
            '[factors.pinned]\nlevels = ["0", "0-1"]\nsets = "machine.cpus"\n',
            "`cpus` names 2 CPUs for a machine of 'host' that is to have 1",
        ),
        ('[factors.place]\nlevels = ["local", "far"]\nsets = "machine.host"\n', "machine.host places 'metal' on 'far'"),
        ("count = [1, 3]\n", "3 clients are to have a server each, but 'metal' is one machine"),
        ('switch = ["bridge", "direct"]\n', "a direct cable has two ends, and 2 clients share a server"),
        ("[factors.wobble]\nlevels = ['0ms', '3ms']\nsets = 'link.jitter'\n", "the jitter is more than the delay"),
    ],
)
def test_a_level_that_cannot_be_is_shown_at_its_factor(factors: str, what: str) -> None:
    text = SETTING.replace("[[workloads]]", f"{factors}[[workloads]]")
    if "metal" in what:
        text = text.replace('environment = ["host"]', 'environment = ["host", "metal"]')
        text = text.replace("[environments", 'connect = "pairs"\n[environments', 1) if "each" in what else text
    if "cable" in what:
        text = text.replace("[clients]", "[clients]\ncount = 2")
    error = refused(text)
    assert error.what.startswith(what)
    assert error.where == f"s.toml:{line(factors.splitlines()[0], text)}"


def test_what_a_factor_sets_in_every_treatment_is_not_set_beside_it() -> None:
    text = GOOD.replace("workers = [1, 4]", "workers = [1, 4]\nvcpus = [1, 2]")
    assert text != GOOD and study.read(text, "s.toml")
    with pytest.raises(errors.BadInput, match="the factor `vcpus` sets") as told:
        study.read(text, "s.toml", ["machine.vcpus=2"])
    assert told.value.where == "s.toml, --set machine.vcpus=2"
    nested = text.replace("vcpus = [1, 2]", "vcpus = { levels = [1, 2], when = { workers = 4 } }")
    assert study.read(nested, "s.toml", ["machine.vcpus=2"]).machine.vcpus == 2
