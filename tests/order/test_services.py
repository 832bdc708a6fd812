"""Services of the user's own on pretended machines: started before what asks them, awaited, watched, ended."""

import asyncio
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.mock import programs
from nearmetal.lab.mock.programs import Call
from nearmetal.model import Completed, TrialRecord, TrialStatus
from nearmetal.planning import plan
from nearmetal.run import plan_execution, study_execution
from nearmetal.run.block import BlockTask
from nearmetal.store.journal import read_records as records_of
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.verify import verify
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader
from tests.order import mock_run

SERVED = """
name = "own"
[environments.base]
kind = "mock"
[factors]
environment = ["base"]
[services.api]
start = ["/srv/api", "--listen", "$server:8080"]
port = 8080
files = ["api:/srv/api"]
env = { WHERE = "http://$server/" }
[[workloads]]
name = "web"
kind = "http"
server = "api"
duration = "1s"
[design]
seed = 1
blocks = 1
"""


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_execution, "MOST_ATTEMPTS", 1)


async def ran(folder: Path, text: str) -> list[TrialRecord]:
    study = read(text, "own.toml")
    request = study_execution.RunRequest(
        study, text, (), False, folder / "run", available=False, files=FileReader(folder)
    )
    await study_execution.start_run(request, lambda text: None, ())
    return list(records_of(RunFolder(folder / "run").journal))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What pretended machines were told to run, in order; and the service's program beside the study."""
    (tmp_path / "api").write_bytes(b"the program")
    (tmp_path / "api").chmod(0o755)
    seen: list[list[str]] = []
    run = programs.run

    async def noted(call: Call) -> Completed:
        seen.append(call.argv)
        return await run(call)

    monkeypatch.setattr(programs, "run", noted)
    return seen


def places(commands: list[list[str]], *words: str) -> list[int]:
    """Where such a command stands in the order of all."""
    return [place for place, argv in enumerate(commands) if all(any(word in one for one in argv) for word in words)]


async def test_a_service_is_put_there_started_awaited_and_asked(tmp_path: Path, commands: list[list[str]]) -> None:
    (record,) = await ran(tmp_path, SERVED)
    assert (record.status, record.reason) == (TrialStatus.OK, None)
    (started,) = [argv for argv in commands if argv[0] == "/srv/api"]
    address = started[2].removesuffix(":8080")
    awaited, loaded = places(commands, "/proc/net/tcp"), places(commands, "load", f"http://{address}:8080/")
    assert commands.index(started) < awaited[0] < loaded[0]
    assert all(argv[0] != "lighttpd" for argv in commands)
    assert await mock_run.left_over() == []


async def test_the_run_keeps_what_it_was_given(tmp_path: Path, commands: list[list[str]]) -> None:
    await ran(tmp_path, SERVED)
    folder = RunFolder(tmp_path / "run")
    (resolved,) = folder.read_manifest().plan.resolved
    (file,) = resolved.services["api"].files
    assert (folder.files / file.sha256).read_bytes() == b"the program"
    assert (file.destination, file.mode) == ("/srv/api", 0o755)
    found = verify(folder.path, lambda step: None)
    assert (found.is_whole, found.unknown) == (True, ())
    (tmp_path / "api").unlink()  # going on needs the run's folder alone
    study_execution.refuse_changed_plan(folder, folder.read_manifest())
    (folder.files / file.sha256).write_bytes(b"another program")
    (damage,) = verify(folder.path, lambda step: None).damaged
    assert damage.file == f"files/{file.sha256}"


def test_a_blocks_process_is_given_all_of_it(tmp_path: Path, commands: list[list[str]]) -> None:
    study = read(SERVED, "own.toml")
    made = plan.make_plan(study, resolved=resolve_treatments(study, FileReader(tmp_path)))
    task = plan_execution.plan_task(made, 0, artifacts=tmp_path / "artifacts", files=tmp_path / "files")
    there = BlockTask.model_validate_json(task.model_dump_json())
    assert there == task
    assert there.resolved[0].services["api"].files[0].destination == "/srv/api"
    assert there.files == str(tmp_path / "files")


BAD = {
    "exits at once": ('["false"]', "`api` ended with status 1", "service-died", "nearmetal exec"),
    "forks away": ('["true", "8080"]', "perhaps into the background", "service-died", "foreground"),
    "is not there": ('["no-such-program"]', "ended with status 127", "service-died", "`files`"),
    "never gets ready": ('["sleep", "1000"]', "nothing listens on port 8080", "service-not-ready", "ready_within"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_service_that_does_not_serve_is_why_its_trial_failed(
    tmp_path: Path, commands: list[list[str]], kind: str
) -> None:
    start, reason, cause, remedy = BAD[kind]
    text = SERVED.replace('["/srv/api", "--listen", "$server:8080"]', f'{start}\nready_within = "0.3s"')
    (record,) = await ran(tmp_path, text)
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "treatment", cause)
    assert record.reason is not None
    assert reason in record.reason
    assert remedy in record.reason
    assert not places(commands, "load"), "nothing is asked of it"


async def test_a_service_on_loopback_is_told_where_to_listen(
    tmp_path: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def only_inside(call: Call) -> Completed:
        return Completed(status=0, stdout=b"0: 0100007F:1F90 00000000:0000 0A\n")

    monkeypatch.setitem(programs.PROGRAMS, "cat", only_inside)
    (record,) = await ran(tmp_path, SERVED)
    assert record.reason is not None
    assert "it listens on 127.0.0.1 alone, port 8080" in record.reason
    assert 'have it listen on "$server"' in record.reason


async def test_a_service_that_dies_while_it_is_asked_is_why(
    tmp_path: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = asyncio.Event()

    async def serve(call: Call) -> Completed:
        call.world.save({**call.state, "serving": ["api"], "listening": [8080]})
        await dying.wait()
        return Completed(status=139, stdout=b"so far so good", stderr=b"out of bounds")

    async def load(call: Call) -> Completed:
        if "--duration" in call.argv and "--mode" in call.argv:
            dying.set()
        return await loaded(call)

    loaded = programs._load
    monkeypatch.setitem(programs.PROGRAMS, "api", serve)
    monkeypatch.setattr(programs, "_load", load)
    (record,) = await ran(tmp_path, SERVED)
    assert (record.status, record.cause) == (TrialStatus.FAILED, "service-died")
    assert record.reason is not None
    assert "`api` ended by SIGSEGV: out of bounds" in record.reason
    kept = {Path(one.path).name: (tmp_path / "run" / one.path).read_bytes() for one in record.artifacts}
    assert kept["service-api.out"] == b"so far so good"
    assert kept["service-api.err"] == b"out of bounds"


SHARED = SERVED.replace("blocks = 1", "blocks = 1\nrepeats = 3")


@pytest.mark.parametrize(("lifetime", "starts"), [("trial", 3), ("boot", 1)])
async def test_a_service_lives_as_long_as_it_says(
    tmp_path: Path, commands: list[list[str]], lifetime: str, starts: int
) -> None:
    records = await ran(tmp_path, SHARED.replace("port = 8080", f'port = 8080\nlifetime = "{lifetime}"'))
    assert [record.status for record in records] == [TrialStatus.OK] * 3
    assert len([argv for argv in commands if argv[0] == "/srv/api"]) == starts


async def test_each_server_of_a_pair_has_its_own(tmp_path: Path, commands: list[list[str]]) -> None:
    text = SERVED.replace("[services.api]", '[clients]\ncount = 2\nconnect = "pairs"\n[services.api]')
    (record,) = await ran(tmp_path, text)
    assert record.status is TrialStatus.OK
    started = [argv[2] for argv in commands if argv[0] == "/srv/api"]
    assert len(set(started)) == 2


async def test_a_url_that_nothing_serves_fails_at_once(tmp_path: Path, commands: list[list[str]]) -> None:
    head, _, rest = SERVED.partition("[services.api]")
    text = head + rest[rest.index("[[workloads]]") :].replace('server = "api"', 'url = "http://$server:8080/"')
    (record,) = await ran(tmp_path, text)
    assert (record.blame, record.cause) == ("treatment", "service-not-ready")
    assert record.reason is not None
    assert "the connection was refused" in record.reason
    assert "add [services.NAME]" in record.reason
    assert len(places(commands, "load")) == 1


async def test_a_command_asks_a_service_too_and_reads_several_numbers(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    text = SERVED.replace('kind = "http"\nserver = "api"\nduration = "1s"', COMMAND)
    (record,) = await ran(tmp_path, text)
    assert record.status is TrialStatus.OK
    assert (record.responses["rate"].value, record.responses["lost"].value) == (12.5, 3.0)
    (started,) = [place for place, argv in enumerate(commands) if argv[0] == "/srv/api"]
    assert started < places(commands, "/srv/job")[-1]


COMMAND = """kind = "command"
services = ["api"]
files = ["job:/srv/job"]
argv = ["cat", "/srv/job"]
[workloads.responses.rate]
match = "rate ([0-9.]+)"
better = "higher"
[workloads.responses.lost]
match = "lost ([0-9]+)"
better = "lower"
scale = "difference"
"""


@pytest.fixture(autouse=True)
def job(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("rate 12.5, lost 3\n")


async def test_levels_stand_in_services(tmp_path: Path, commands: list[list[str]]) -> None:
    text = SERVED.replace('"--listen"', '"--threads={threads}", "--listen"').replace('"http://$server/"', '"{fast}"')
    text = text.replace('environment = ["base"]', 'environment = ["base"]\nthreads = [1, 8]\nfast = [true, false]')
    found = await ran(tmp_path, text)
    assert {one.status for one in found} == {TrialStatus.OK}
    words = [argv[1] for argv in commands if argv[0] == "/srv/api"]
    levels = [f"--threads={one.trial.treatment['threads']}" for one in found]
    assert words == levels and sorted(words) == sorted(["--threads=1", "--threads=8"] * 2)


async def test_ready_may_be_asked_by_https(tmp_path: Path, commands: list[list[str]]) -> None:
    text = SERVED.replace("port = 8080", 'port = 8080\nready = "https://$server:8443/up"')
    (record,) = await ran(tmp_path, text)
    assert record.status == TrialStatus.OK
    (asked,) = [argv for argv in commands if any(word.endswith(":8443/up") for word in argv)]
    assert "--insecure" in asked


async def test_an_image_that_starts_nothing_is_told_before(tmp_path: Path, commands: list[list[str]]) -> None:
    text = SERVED.replace('["/srv/api", "--listen", "$server:8080"]', '"image"') + '[machine]\nimage = "none-of-ours"\n'
    with pytest.raises(HostCannot, match=r"none-of-ours"):
        await ran(tmp_path, text)
