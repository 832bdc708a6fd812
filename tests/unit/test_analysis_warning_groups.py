"""Warnings that say the same are told once, with what they are about."""

import pytest

from nearmetal.analysis.warning_groups import find_common_warnings, find_wording, group_warnings, merge_texts
from nearmetal.model import Warned


def test_one_group_for_each_code_and_wording() -> None:
    warned = [
        ("a", Warned(code="steal", text="the host took 3.1 % of it")),
        ("b", Warned(code="late", text="client 0 was late")),
        ("c", Warned(code="steal", text="the host took 12 % of it")),
        ("c", Warned(code="steal", text="the host took it all")),
        ("d", Warned(code="other", text="the host took 3.1 % of it")),
    ]
    found = [(group.code, group.text, group.about) for group in group_warnings(warned)]
    assert found == [
        ("steal", "the host took 3.1 to 12 % of it", ("a", "c")),
        ("late", "client 0 was late", ("b",)),
        ("steal", "the host took it all", ("c",)),
        ("other", "the host took 3.1 % of it", ("d",)),
    ]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["took 1,200 of 2 (0.45)", "took 9 of 2 (0.5)"], "took 9 to 1,200 of 2 (0.45 to 0.5)"),
        (["used 91% of it; 3 left.", "used 100% of it; 3 left."], "used 91 to 100% of it; 3 left."),
        (["blocks 3, 4 and 5", "blocks 1, 4 and 5"], "blocks 1 to 3, 4 and 5"),
        (["nm-e756a8-3: refused", "nm-e756a8-11: refused"], "the machine: refused"),
        (["nm-e756a8-3: refused", "nm-e756a8-3: refused"], "nm-e756a8-3: refused"),
        (
            ["in 1 of 16 trials (the reference's): it was interrupted", "in 2 of 16 trials: it was interrupted"],
            "in 1 to 2 of 16 trials: it was interrupted",
        ),
        (["in 8 of 8 trials: busy", "in 10 of 10 trials: busy"], "in all 8 to 10 trials: busy"),
        (["in 8 of 8 trials: busy", "in 7 of 8 trials: busy"], "in 7 to 8 of 8 trials: busy"),
        (["in 1 of 1 trials: busy"], "in 1 of 1 trials: busy"),
        (
            2 * ["in 1 of 16 trials (the reference's): interrupted"],
            "in 1 of 16 trials (the reference's): interrupted",
        ),
    ],
)
def test_what_differs_becomes_a_range(texts: list[str], told: str) -> None:
    assert merge_texts(texts) == told


@pytest.mark.parametrize(
    "pair",
    [
        ("CPUs 0-1", "CPUs 2-3"),
        ("at 192.168.0.1", "at 192.168.0.2"),
        ("at 10.0.0.2:80", "at 10.0.0.2:81"),
        ("eth0 is down", "eth1 is down"),
        ("version 1.2.3", "version 1.2.4"),
        ("/proc/1/stat", "/proc/2/stat"),
        ("p99 of it", "p50 of it"),
    ],
)
def test_numbers_within_names_tell_things_apart(pair: tuple[str, str]) -> None:
    assert len(group_warnings([("a", Warned(code="x", text=text)) for text in pair])) == 2


def test_what_all_are_warned_of_is_told_once_and_ranges_are_joined() -> None:
    busy = [Warned(code="busy", text=f"in 16 of 16 trials: busy for {ends} %") for ends in ("4 to 9", "2.5")]
    odd = Warned(code="odd", text="it drifted")
    (found,) = find_common_warnings([[busy[0], odd], [busy[1]]])
    assert found.text == "in all 16 trials: busy for 2.5 to 9 %"
    assert found.wording == find_wording(busy[0].text) == find_wording(busy[1].text)
    assert find_common_warnings([[odd]]) == []  # one alone is told beside it
