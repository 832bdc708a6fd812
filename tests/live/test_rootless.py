"""An ordinary user measures on the host, in containers and in guests, and leaves nothing behind."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from nearmetal.lab.image import Image
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.waiting import wait_until

from .laptop import Lacking, LaptopUser, find_processes, make_user, remove_user
from .leftovers import after_a_moment

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

_LONG = 900.0
"""Seconds for a guest that is emulated beside other tests."""


@pytest.fixture(scope="module")
def user(lab_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopUser]:
    made = make_user(tmp_path_factory.mktemp("laptop"), lab_image)
    yield made
    assert after_a_moment(made.remains) == []
    remove_user(made)


def test_quickstart_measures_the_host_a_container_and_a_guest(user: LaptopUser) -> None:
    guests = ["--set", 'factors.environment=["host", "podman", "qemu"]', "--set", "machine.accel=tcg"]
    ended = user.run("run", "quickstart", "--blocks", "1", "--available", *guests, "-o", "first", patience=_LONG)
    folder = RunFolder(user.home / "first")
    records = list(read_records(folder.journal))
    told = [(record.status, record.reason) for record in records]
    assert [status for status, _ in told] == ["ok"] * 6, (told, ended.stderr)
    assert ended.returncode == 0
    assert all("cpu_per_event" in record.responses for record in records)
    assert any("memory" in one for one in folder.read_manifest().rootless)
    assert "host, podman and qemu ran without root" in ended.stdout
    power = {record.readback["resources"].get("vmm_power") for record in records} - {None}
    assert power == {"as a user of its own, system calls filtered"}
    assert after_a_moment(user.remains) == []


def test_a_plan_says_what_only_root_can_do(user: LaptopUser) -> None:
    quota = ["--set", "machine.quota=50%", "--set", 'factors.environment=["host", "podman"]']
    ended = user.run("plan", "quickstart", "--json", *quota)
    missing = json.loads(ended.stdout)["missing"]
    assert [lacking["what"] for lacking in missing] == ["machine.quota"] * 2
    assert all("run nearmetal as root" in lacking["remedy"] for lacking in missing)
    assert ended.returncode == 3


@pytest.mark.parametrize("kind", ["host", pytest.param("podman", marks=pytest.mark.long)])
def test_a_machine_is_kept_up(user: LaptopUser, kind: str) -> None:
    try:
        assert user.run("up", kind, "--name", "mine").returncode == 0
        ended = user.run("exec", "mine", "--", "sh", "-c", "id -u; hostname; echo x >/srv/x; cat /srv/x")
        assert ended.stdout.splitlines()[::2] == ["0", "x"], ended
    finally:
        assert user.run("down", "mine").returncode == 0
    assert after_a_moment(user.remains) == []


@pytest.mark.parametrize(
    ("kinds", "held"), [(["host"], "--root"), pytest.param(["host", "podman"], "--until-eof", marks=pytest.mark.long)]
)
def test_nothing_is_left_of_a_run_that_is_killed(user: LaptopUser, kinds: list[str], held: str) -> None:
    levels = f"factors.environment={json.dumps(kinds)}"
    process = user.start("run", "quickstart", "--set", levels, "-o", f"killed-{kinds[-1]}")
    try:
        wait_until(lambda: find_processes(user, "nearmetal-probe hold", held), 120)
        (controller,) = find_processes(user, "one_picture", "run quickstart")
        os.kill(controller, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert after_a_moment(lambda: [one for one in user.remains() if one.startswith("process")], 30) == []
    assert user.run("clean").returncode == 0
    assert after_a_moment(user.remains) == []


@pytest.mark.parametrize(
    ("lacks", "said", "remedy"),
    [
        ("namespaces", "user.max_user_namespaces = 0", "sudo sysctl -w user.max_user_namespaces="),
        pytest.param(
            "users", "no users are set aside for you in /etc/subuid", "usermod --add-subuids", marks=pytest.mark.long
        ),
    ],
)
def test_a_host_that_lacks_what_it_takes_refuses_and_says_what_helps(
    user: LaptopUser, lacks: Lacking, said: str, remedy: str
) -> None:
    ended = user.run("run", "quickstart", "-o", "none", lacks=lacks)
    assert ended.returncode == 3
    assert said in ended.stderr
    assert remedy in ended.stderr
    assert not (user.home / "none").exists()
    planned = json.loads(user.run("plan", "quickstart", "--json", lacks=lacks).stdout)
    lacking = [one for one in planned["missing"] if one["what"] == "root"]
    assert [one["treatment"]["environment"] for one in lacking] == ["host", "qemu"]
    assert all(said in one["detail"] and remedy in one["remedy"] for one in lacking)


@pytest.mark.long
def test_podmans_copy_of_an_image_goes_with_the_image(user: LaptopUser) -> None:
    tried = user.run("doctor", "podman")
    assert "ok  environment podman: a machine that runs a command" in tried.stdout
    removed = user.run("image", "rm", "lab")
    assert removed.returncode == 0, removed
    assert "from the Podman service" in removed.stdout
    assert list(user.home.glob(".cache/nearmetal/podman/storage/overlay/*/diff")) == []
