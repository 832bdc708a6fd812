"""A treatment that says that a machine cannot be as one of its levels wants it."""

import pytest

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.model import Level, MachineSpec
from nearmetal.study.study_file import read

STUDY = """
name = "shapes"
[machine]
memory = "1GiB"
{machine}
[factors]
environment = ["host"]
{factor}
[[workloads]]
name = "web"
kind = "http"
"""


@pytest.mark.parametrize("said", ["", "machine", "machine.memory"])
@pytest.mark.parametrize(
    ("machine", "factor", "line"),
    [
        ("", 'isolation = ["none"]', "isolation"),
        ("", 'kept = { sets = "machine.isolation", levels = ["none"] }', "kept"),
        ('isolation = "none"', "", "isolation"),
    ],
)
def test_is_told_at_the_level_unless_it_names_another_key(
    machine: str, factor: str, line: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shape(spec: MachineSpec, level: Level) -> MachineSpec:
        raise BadInput("it cannot be", said, "let it be")

    monkeypatch.setattr(plugins.load("treatments", "isolation"), "shape", shape)
    text = STUDY.format(machine=machine, factor=factor)
    with pytest.raises(BadInput, match="it cannot be") as told:
        read(text, "study.toml")
    at = int(told.value.where.removeprefix("study.toml:"))
    assert text.splitlines()[at - 1].startswith("memory" if said == "machine.memory" else line)
    assert told.value.remedy == "let it be"
