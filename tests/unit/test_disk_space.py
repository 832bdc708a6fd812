"""Whether a service's log fills its server's disk."""

import pytest

from nearmetal.run import disk_space

MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 10218772 700000 8979900 8% /\n",
            8979900 * 1024,
        ),
        ("Filesystem 1024-blocks Used Available Capacity Mounted on\noverlay 100 100 0 100% /\n", 0),
        ("", None),
        ("df: not found\n", None),
        ("overlay - - - - /\n", None),
    ],
)
def test_what_is_left_is_read_as_df_prints_it(text: str, left: int | None) -> None:
    assert disk_space.parse_df(text) == left


def test_a_trial_that_takes_much_of_a_disk_is_told() -> None:
    (warning,) = disk_space.warn_of_filling(
        {"a": 1000 * MEBIBYTE, "b": 1000 * MEBIBYTE}, {"a": 900 * MEBIBYTE, "b": 990 * MEBIBYTE}
    )
    assert warning.code == "disk-filling"
    assert "took 100 MiB of the disk of a, of which 900 MiB are left" in warning.text
    assert not list(disk_space.warn_of_filling({"a": 100_000 * MEBIBYTE}, {"a": 99_000 * MEBIBYTE}))
    assert not list(disk_space.warn_of_filling({}, {"a": 1}))


def test_a_full_disk_is_a_reason() -> None:
    assert disk_space.find_full({"a": disk_space.LEAST}) is None
    fault = disk_space.find_full({"a": disk_space.LEAST, "b": 0})
    assert fault is not None and fault.blame == "treatment"
    assert "the disk of b is full" in fault.reason and "/dev/null" in fault.reason
