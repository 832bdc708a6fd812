"""The lab's own keys."""

import contextlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import BadInput
from nearmetal.lab.keys import lab_keys, public_of


def test_keys_are_made_once_and_are_the_owners_alone(tmp_path: Path) -> None:
    first, again = lab_keys(tmp_path), lab_keys(tmp_path)
    assert first.client == again.client
    assert first.agent == again.agent != lab_keys(tmp_path / "another").agent
    assert first.host == again.host != first.client
    files = list((tmp_path / "keys").iterdir())
    assert {file.name for file in files} == {"client", "host", "agent"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert asyncssh.import_public_key(first.client.public) == first.client.loaded().convert_to_public()


def test_many_at_once_get_the_same_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: lab_keys(tmp_path), range(16)))
    assert len({keys.client for keys in made}) == 1
    assert len({keys.host for keys in made}) == 1
    assert len(list((tmp_path / "keys").iterdir())) == 3
    assert len({keys.agent for keys in made}) == 1


@given(st.data())
def test_a_damaged_key_is_told_as_that(data: st.DataObject) -> None:
    whole = asyncssh.generate_private_key("ssh-ed25519").export_private_key("openssh")
    assert public_of(whole).startswith(b"ssh-ed25519 ")
    spoilt = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=3)):
        spoilt[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        public_of(bytes(spoilt))
    with pytest.raises(ValueError):
        public_of(whole[: data.draw(st.integers(0, len(whole) - 2))])


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "client").write_text("rubbish")
    with pytest.raises(BadInput, match="keys/client"):
        lab_keys(tmp_path)
