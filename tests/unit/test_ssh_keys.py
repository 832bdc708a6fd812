"""The lab's own keys."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.keys import lab_keys


def test_keys_are_made_once_and_are_the_owners_alone(tmp_path: Path) -> None:
    first, again = lab_keys(tmp_path), lab_keys(tmp_path)
    assert first.authorized == again.authorized
    assert first.agent == again.agent != lab_keys(tmp_path / "another").agent
    assert first.host.public_data == again.host.public_data != first.client.public_data
    files = list((tmp_path / "keys").iterdir())
    assert {file.name for file in files} == {"client", "host", "agent"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert first.authorized.startswith(b"ssh-ed25519 ")


def test_many_at_once_get_the_same_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: lab_keys(tmp_path), range(16)))
    assert len({keys.authorized for keys in made}) == 1
    assert len({keys.host.public_data for keys in made}) == 1
    assert len(list((tmp_path / "keys").iterdir())) == 3
    assert len({keys.agent for keys in made}) == 1


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "client").write_text("rubbish")
    with pytest.raises(BadInput, match="keys/client"):
        lab_keys(tmp_path)
