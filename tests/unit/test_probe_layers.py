"""The probe's wings are crates that use the ground alone, and no modules of a crate use each other in circles.

At each level, a module and everything inside it is one part, and no part uses, directly or through others, a part that
uses it. A module inside another may use the outer one: in Rust it often holds some of the outer type's methods. Test
modules do not count, because a test of a lower module may need a higher one.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PROBE = Path(__file__).parents[2] / "probe"
WINGS = ("load", "machine", "trace", "watch")

Module = tuple[str, ...]
"""The path of a module below its crate, such as ("connection", "pass")."""
Uses = Mapping[Module, Set[Module]]

_NOT_CODE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
_INNER_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod tests \{")
_TEST_MODULE = re.compile(r"#\[cfg\((?:test|any\(test, fuzzing\))\)\]\s*(?:#\[[^\n]*\]\s*)*(?:pub )?mod (\w+);")
_USE = re.compile(r"\buse ([^;]+);")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


def read_uses(source: Path) -> Uses:
    """Modules that are no tests, each with those that it uses."""
    files = {_module_of(file.relative_to(source)): file for file in source.rglob("*.rs") if file.name != "main.rs"}
    texts = {module: _NOT_CODE.sub('""', file.read_text("utf-8")) for module, file in files.items()}
    tests = {(*module, name) for module, text in texts.items() for name in _TEST_MODULE.findall(text)}
    codes = {module: _INNER_TESTS.split(text)[0] for module, text in texts.items() if module not in tests}
    return {module: set(find_uses(module, code, codes.keys())) for module, code in codes.items()}


def _module_of(path: Path) -> Module:
    parts = path.with_suffix("").parts
    return () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts


def find_uses(module: Module, code: str, known: Set[Module]) -> Iterator[Module]:
    """The known modules that are named in the code of one, in `use` and in paths."""
    trees = _USE.findall(code)
    for path in [*(path for tree in trees for path in expand_tree(tree)), *_PATH.findall(_USE.sub("", code))]:
        names = path.split("::")
        used = () if names[0] == "crate" else module
        while names and names[0] in ("crate", "self", "super"):
            used = used[:-1] if names.pop(0) == "super" else used
        for name in names:
            if (*used, name) not in known:
                break
            used = (*used, name)
        if used and used != module:
            yield used


def expand_tree(tree: str) -> Iterator[str]:
    """`a::{b, c::{d}}` as `a::b` and `a::c::d`."""
    start, brace, rest = tree.partition("{")
    if not brace:
        yield tree.split(" as ")[0].strip()
        return
    depth, branch = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            yield from (start.strip() + path for path in expand_tree(branch) if path)
            branch = ""
        else:
            branch += letter


def find_circles(uses: Uses) -> list[str]:
    """At most one for each level, such as "trace: clocks > compared > clocks"."""
    circles = []
    for outer in sorted({module[:depth] for module in uses for depth in range(len(module))}):
        depth = len(outer)
        parts: TopologicalSorter[str] = TopologicalSorter()
        for module, used in uses.items():
            if module[:depth] == outer and len(module) > depth:
                inside = {other[depth] for other in used if other[:depth] == outer and len(other) > depth}
                parts.add(module[depth], *(inside - {module[depth]}))
        try:
            parts.prepare()
        except CycleError as error:
            circles.append(f"{'::'.join(outer) or 'crate'}: {' > '.join(error.args[1])}")
    return circles


def read_crates_used(crate: str) -> set[str]:
    """Crates of the probe that one of them names, for its tests too."""
    named = tomllib.loads((PROBE / crate / "Cargo.toml").read_text("utf-8"))
    return {*named["dependencies"], *named.get("dev-dependencies", ())} & {"ground", *WINGS}


def test_wings_stand_on_the_ground_alone() -> None:
    assert [read_crates_used(wing) for wing in WINGS] == [{"ground"}] * len(WINGS)
    assert read_crates_used("ground") == set()
    assert read_crates_used(".") == {"ground", *WINGS}


def test_modules_of_a_crate_do_not_use_each_other_in_circles() -> None:
    crates = {crate: read_uses(PROBE / crate / "src") for crate in ("ground", *WINGS, ".")}
    every = [used for uses in crates.values() for used in uses.values()]
    assert len(every) > 150, "it looks at the wrong place"
    assert sum(map(len, every)) > 450, "it finds too little of what modules use"
    assert {crate: circles for crate, uses in crates.items() if (circles := find_circles(uses))} == {}


def test_a_circle_is_found_through_modules_inside() -> None:
    inside: Uses = {("a",): {("a", "one")}, ("a", "one"): {("a",), ("b",)}, ("b",): set[Module]()}
    assert find_circles(inside) == []
    assert find_circles({**inside, ("b",): {("a", "one")}}) in (["crate: a > b > a"], ["crate: b > a > b"])


def test_uses_are_found_in_trees_and_in_paths() -> None:
    known: set[Module] = {("x",), ("x", "a"), ("x", "b"), ("x", "a", "c"), ("y",)}
    code = "use super::{b::{One, Two}, Three};\nuse c::Four as Other;\nuse crate::y;\nfn f() { self::c::g() }"
    assert set(find_uses(("x", "a"), code, known)) == {("x", "b"), ("x",), ("x", "a", "c"), ("y",)}
    assert set(find_uses(("y",), "fn f() { crate::x::a::g(); std::fs::read() }", known)) == {("x", "a")}
