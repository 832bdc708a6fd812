"""Levels that cannot be, or that are set beside their factor."""

from operator import attrgetter

import pytest

from nearmetal.study import study_file
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
METAL_TOO = ('environment = ["host"]', 'environment = ["host", "metal"]')
PAIRS = ("[clients]", '[clients]\nconnect = "pairs"')


@pytest.mark.parametrize(
    ("factor", "added", "what"),
    [
        (
            'vcpus = [1, 2]\nisolation = ["none", "user"]\n',
            [],
            "of one CPU none can be kept free, as 'user' wants it",
        ),
        ('cpus = ["0", "0-1"]\n', [], "`cpus` names 2 CPUs for a machine of 'host' that is to have 1"),
        (
            '[factors.pinned]\nlevels = ["0", "0-1"]\nsets = "machine.cpus"\n',
            [],
            "`cpus` names 2 CPUs for a machine of 'host' that is to have 1",
        ),
        (
            '[factors.place]\nlevels = ["local", "far"]\nsets = "machine.host"\n',
            [METAL_TOO],
            "machine.host places 'metal' on 'far'",
        ),
        (
            "count = [1, 3]\n",
            [METAL_TOO, PAIRS],
            "3 clients are to have a server each, but 'metal' is one machine",
        ),
        (
            'switch = ["bridge", "direct"]\n',
            [("[clients]", "[clients]\ncount = 2")],
            "a direct cable has two ends, and 2 clients share a server",
        ),
        (
            "[factors.alone]\nlevels = [false, true]\nsets = 'link.each'\n",
            [],
            "`each` gives each client a way of its own, and nothing shapes it",
        ),
        ("[factors.wobble]\nlevels = ['0ms', '3ms']\nsets = 'link.jitter'\n", [], "the jitter is more than the delay"),
    ],
)
def test_a_level_that_cannot_be_is_shown_at_its_factor(factor: str, added: list[tuple[str, str]], what: str) -> None:
    text = SETTING.replace("[[workloads]]", f"{factor}[[workloads]]")
    for old, new in added:
        assert old in text
        text = text.replace(old, new)
    error = refused(text)
    assert error.what.startswith(what)
    assert error.where == f"s.toml:{line(factor.splitlines()[0], text)}"


@pytest.mark.parametrize(
    ("name", "levels", "key", "value", "read"),
    [
        ("vcpus", "[1, 2]", "machine.vcpus", "2", 2),
        ("snap", "[64, 256]", "observe.capture.snap", "512", 512),
        ("inside", "[false, true]", "observe.capture.inside", "true", True),
    ],
)
def test_what_a_factor_sets_in_every_treatment_is_not_set_beside_it(
    name: str, levels: str, key: str, value: str, read: int
) -> None:
    factor = f'[factors.{name}]\nlevels = {levels}\nsets = "{key}"\n'
    text = GOOD.replace("[machine]", f"{factor}[machine]")
    assert name in study_file.read(text, "s.toml").factors
    error = refused(text, overrides=[f"{key}={value}"])
    assert error.what == f"the factor `{name}` sets `{key}` in every treatment, so that this does nothing"
    assert error.where == f"s.toml, --set {key}={value}"
    somewhere = GOOD.replace("[machine]", f"{factor}when = {{ workers = 4 }}\n[machine]")
    assert attrgetter(key)(study_file.read(somewhere, "s.toml", [f"{key}={value}"])) == read
