"""The names that plugins of other packages rely on: what they are changes only when somebody means it to."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests import surface

NOT_FROZEN = {"Analysis", "Arms", "Cell", "Labels", "Manifest", "RunFolder"}
"""What a section reads of a run's folder, whose documents have versions of their own."""
ROOT = Path(__file__).parents[2]
SLOW = ("asyncssh", "docker", "jinja2", "pyVmomi")


@pytest.mark.parametrize("front", surface.FRONTS)
def test_names_and_signatures_are_as_they_were(front: str) -> None:
    assert surface.render(front) == surface.kept(front).read_text(), (
        f"plugins of other packages rely on {front}: say what changed in CHANGELOG.md, then: python -m tests.surface"
    )


@pytest.mark.parametrize("front", surface.FRONTS)
def test_each_name_can_be_had(front: str) -> None:
    module = import_module(front)
    assert [name for name in surface.names(front) if getattr(module, name, None) is None] == []
    with pytest.raises(AttributeError):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize("front", ["nearmetal.lab.api", "nearmetal.report.api"])
def test_each_name_says_what_it_is(front: str) -> None:
    silent = [name for name in surface.names(front) if not surface.find_definition(front, name).is_documented]
    assert silent == []


def test_the_front_says_which_names_it_has() -> None:
    words = set((import_module("nearmetal.lab.api").__doc__ or "").replace(",", " ").split())
    assert set(surface.names("nearmetal.lab.api")) <= words


def test_nothing_private_is_exposed() -> None:
    """Whatever a signature or a field names of nearmetal is a name of a front itself."""
    fronts = [(front, name) for front in surface.FRONTS for name in surface.names(front)]
    definitions = {(front, name): surface.find_definition(front, name) for front, name in fronts}
    public = {(found.module, found.name) for found in definitions.values()}
    private = {}
    for front, name in fronts:
        found = definitions[front, name]
        for word in surface.mentioned(found) - NOT_FROZEN:
            try:
                named = surface.find_definition(found.module, word)
            except (LookupError, FileNotFoundError):  # Python's own, or another package's
                continue
            if (named.module, named.name) not in public and not _is_type_variable(found.module, word):
                private[f"{front}.{name}"] = word
        assert not name.startswith("_")
    assert private == {}


def _is_type_variable(module: str, name: str) -> bool:
    return type(getattr(import_module(module), name)).__name__ == "TypeVar"


def test_importing_the_front_is_quick() -> None:
    script = f"import sys, nearmetal.lab.api; print([name for name in {SLOW} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "[]\n"


def test_example_packages_import_nothing_else() -> None:
    files = list((ROOT / "tests" / "third_party").glob("nearmetal-*/src/**/*.py"))
    assert len(files) > 5
    for file in files:
        for module, names in surface.imports_of(file).items():
            assert module in surface.FRONTS, file
            assert names <= set(surface.names(module)), file


def test_a_name_that_is_lost_is_seen() -> None:
    with pytest.raises(LookupError, match="has no lost"):
        surface.find_definition("nearmetal.lab.api", "lost")
