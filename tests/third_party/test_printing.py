"""What somebody else's plugin prints while a block runs goes to standard error, and the results stay whole."""

import json
from pathlib import Path

from .installing import with_package

PLUGIN = """
class Chatty:
    name = "chatty"
    def problem(self, level): return None
    def shape(self, spec, level): return spec
    def changes(self, stage, level):
        print("said in a block")
        return []
    async def verify(self, stage, level):
        from nearmetal.model import Readback
        return Readback()

plugin = Chatty()
"""
STUDY = """
name = "printing"
[factors]
environment = ["mock"]
chatty = [true]
[clients]
environment = "mock"
[[workloads]]
name = "work"
kind = "sysbench"
test = "cpu"
events = 100
[design]
blocks = 1
"""


def test_what_a_plugin_prints_in_a_block_is_on_standard_error(tmp_path: Path) -> None:
    package = tmp_path / "package"
    described = package / "chatty-1.dist-info"
    described.mkdir(parents=True)
    (package / "chatty.py").write_text(PLUGIN)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: chatty\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[nearmetal.treatments]\nchatty = chatty:plugin\n")
    (tmp_path / "study.toml").write_text(STUDY)
    run = ("nearmetal", "run", str(tmp_path / "study.toml"), "-o", str(tmp_path / "run"), "--json")
    ended = with_package(package, *run)
    assert ended.returncode == 0, ended.stderr
    assert "said in a block\n" in ended.stderr
    (line,) = ended.stdout.splitlines()
    assert json.loads(line)["trials"]["ok"] == 1
