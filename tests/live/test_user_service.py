"""A service of the user's own: the study of the manual in three environments, and services that do not serve."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.run import study_execution
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader

pytestmark = pytest.mark.live

MANUAL = (Path(__file__).parents[2] / "docs" / "services.md").read_text()
WORK = 0.005
"""Seconds of CPU time that each reply costs the service."""
QUICK = (
    "design.blocks=1",
    "workloads.replies.warmup=0s",
    "workloads.replies.duration=1s",
    "workloads.replies.workers=2",
    "design.seed=1",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Static, so that it runs in every image."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: a service of one's own was NOT run; apt-get install gcc")
    built = tmp_path_factory.mktemp("service") / "api"
    source = Path(__file__).with_name("own_service.c")
    subprocess.run([compiler, "-O2", "-static", "-o", str(built), str(source)], check=True)
    return built


async def ran(text: str, program: Path, folder: Path, overrides: tuple[str, ...] = ()) -> list[TrialRecord]:
    study = read(text, "own-service.toml", overrides)
    request = study_execution.RunRequest(
        study, text, overrides, False, folder, available=False, files=FileReader(program.parent)
    )
    await study_execution.start_run(request, print, ())
    return list(read_records(RunFolder(folder).journal))


@pytest.mark.usefixtures("one_attempt")
async def test_the_study_of_the_manual_in_each_environment(
    program: Path, home: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if shutil.which("dockerd") is None:
        pytest.skip("there is no Docker engine to start on this host: the study of docs/services.md was NOT run")
    monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    text, _ = re.findall(r"```toml\n(name .*?)```", MANUAL, re.DOTALL)
    assert len(text.splitlines()) <= 20
    found = await ran(text, program, home / "run", QUICK)
    assert {str(one.trial.treatment["environment"]): (one.status, one.reason) for one in found} == dict.fromkeys(
        ("host", "docker", "qemu"), (TrialStatus.OK, None)
    )
    for one in found:
        assert one.responses["errors"].value == 0
        assert one.responses["latency_p50"].value >= WORK
        # A guest whose host is busy takes its clock for the time that it had.
        least = 0.0 if one.trial.treatment["environment"] == "qemu" else WORK
        assert one.responses["cpu_per_event"].value > least, "the service's work counts as the server's"


NOT_SERVING = """
name = "not-serving"
[factors]
environment = ["host"]
[services.inside]
start = ["/srv/api", "127.0.0.1", "8081"]
port = 8081
files = ["./api:/srv/api"]
[services.nobody]
start = ["/srv/api", "$server", "8082"]
port = 8082
files = ["./api:/srv/api"]
user = "nobody-here"
[services.leaving]
start = ["/srv/api", "$server", "8083", "background"]
port = 8083
files = ["./api:/srv/api"]
[services.chatty]
start = ["sh", "-c", "yes & exec ./api $server 8084"]
port = 8084
files = ["./api:/srv/api"]
ready = "http://$server:8084/healthz"
user = "www-data"
directory = "/srv"
[[workloads]]
name = "chatty"
kind = "http"
server = "chatty"
warmup = "0s"
duration = "1s"
[[workloads]]
name = "inside"
kind = "http"
server = "inside"
[[workloads]]
name = "nobody"
kind = "http"
server = "nobody"
[[workloads]]
name = "leaving"
kind = "http"
server = "leaving"
[[workloads]]
name = "nothing"
kind = "http"
url = "http://$server:8085/"
[design]
blocks = 1
share_boot = true
"""


@pytest.mark.usefixtures("one_attempt", "lab_image")
async def test_why_a_service_does_not_serve_is_its_trials_reason(program: Path, home: Path) -> None:
    found = {one.trial.workload: one for one in await ran(NOT_SERVING, program, home / "run")}
    assert (found["chatty"].status, found["chatty"].reason) == (TrialStatus.OK, None), "it may log what it likes"
    for name, cause, words in (
        ("inside", "service-not-ready", 'listens on 127.0.0.1 alone, port 8081.*have it listen on "[$]server"'),
        ("nobody", "service-died", "there is no user nobody-here.*`user` and `directory` must be there"),
        ("leaving", "service-died", "in the background.*stay in the foreground"),
        ("nothing", "service-not-ready", "the connection was refused.*add .services.NAME."),
    ):
        assert (found[name].blame, found[name].cause) == ("treatment", cause)
        assert re.search(words, found[name].reason or "", re.DOTALL)
        assert found[name].phases_ns["prepare"] < 30e9, "it is not waited for"


LOGGING = """
name = "logging"
[factors]
environment = ["qemu"]
[machine]
accel = "tcg"
[services.modest]
start = ["sh", "-c", "fallocate -l 1G /var/log/api.log && exec /srv/api $server 8081"]
port = 8081
files = ["./api:/srv/api"]
[[workloads]]
name = "modest"
kind = "http"
server = "modest"
warmup = "0s"
duration = "1s"
[design]
blocks = 1
"""


@pytest.mark.long
@pytest.mark.usefixtures("one_attempt", "lab_image")
async def test_a_log_that_takes_much_of_a_disk_is_told(program: Path, home: Path) -> None:
    (found,) = await ran(LOGGING, program, home / "run")
    assert (found.status, found.reason) == (TrialStatus.OK, None)
    assert "disk-filling" in [warning.code for warning in found.warnings]
