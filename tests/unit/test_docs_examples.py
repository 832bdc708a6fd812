"""Every example in the manual that is a study or a workload can be pasted: a plan of it is made."""

import re
from pathlib import Path

import pytest

from nearmetal.planning import noise_evidence, plan
from nearmetal.study import study_file

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
EXAMPLES = [
    pytest.param(block, id=f"{page.stem}:{text[: block.start()].count(chr(10)) + 1}")
    for page in PAGES
    for text in [page.read_text()]
    for block in re.finditer(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if "[[workloads]]" in block[1] and page.stem != "extending"  # whose study takes its package: tests/third_party
]
LEVELS = re.compile(r"# of the factor (\w+ = \[.*\])$", re.MULTILINE)
"""What an example says of the factor whose level stands in it."""


@pytest.mark.parametrize("block", EXAMPLES)
def test_each_is_planned_as_it_stands(block: re.Match[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = block[1]
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r'"\./([^:"]+):', text):  # files that a study carries along
        (tmp_path / name).touch()
    if "[factors]" not in text:
        factors = ['environment = ["host", "qemu"]', *LEVELS.findall(text)]
        text = "\n".join(['name = "pasted"', "[factors]", *factors, text])
    assert plan.make_plan(noise_evidence.open_number(study_file.read(text, "pasted.toml"))).contrasts


def test_they_are_found() -> None:
    assert len(EXAMPLES) >= 10
