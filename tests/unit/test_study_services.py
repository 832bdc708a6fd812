"""What a study can get wrong about services: each is refused at its line, with what would be right."""

import json
import re
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.run.services import fill_in_levels
from nearmetal.study.factors import list_unused
from nearmetal.study.resolve import installed_names, resolve_service, resolve_treatments
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader
from tests.command_line import called

GOOD = """name = "own"
[factors]
environment = ["host", "docker"]
workers = [1, 2]
[services.api]
start = ["/srv/api", "8080"]
port = 8080
[services.cache]
start = ["redis-server"]
port = 6379
[[workloads]]
name = "web"
kind = "http"
server = "api"
workers = "{workers}"
[[workloads]]
name = "filling"
kind = "command"
services = ["cache"]
argv = ["redis-benchmark"]
match = "([0-9]+)"
response = "rate"
better = "higher"
"""

BAD = [
    # replace, by, the line's beginning, what is said
    ('server = "api"', 'server = "apis"', "server", "there is no service 'apis'"),
    ('server = "api"', 'server = "apis"', "server", "did you mean `api`"),
    ('services = ["cache"]', 'services = ["cash"]', "services", "there is no service 'cash'"),
    ('services = ["cache"]', 'services = ["cache", "cache"]', "services", "named twice"),
    ('services = ["cache"]\n', "", "[services.cache]", "no workload asks the service 'cache'"),
    ('server = "api"', 'server = "api"\nurl = "http://$server/"', "", "exclude each other"),
    ('response = "rate"', 'responses = { rate = { better = "higher", match = "(.)" } }\nresponse = "rate"', "", "two"),
    ('response = "rate"', 'responses = { rate = { better = "higher", match = "(.)" } }', "", "one of each response"),
    ('better = "higher"', "", "", "say which numbers are better"),
    ('response = "rate"', 'response = "ready"', "", "every trial has a response 'ready' already"),
    ("port = 6379", "port = 8080", "", ""),  # they do not run at one time
    ('services = ["cache"]', 'services = ["cache", "api"]', "", ""),
    ("port = 6379", 'ready = ["true"]', "", ""),
    ("port = 8080", 'ready = ["true"]', "[services.api]", "has no `port` for requests"),
    ("port = 6379", "", "[services.cache]", "nothing says when it is ready"),
    ("port = 6379", "port = 70000", "port = 70000", "at most 65535"),
    ("port = 6379", 'port = 6379\nready = "udp:53"', "ready", "'udp:53' cannot be asked"),
    ("port = 6379", 'port = 6379\nready = "ftp://x/"', "ready", "cannot be asked"),
    ("port = 6379", 'port = 6379\nready = "https://$server:6379/"', "", ""),
    ("port = 6379", 'port = 6379\nfiles = ["a"]', "files", "names no file and its place"),
    ("port = 6379", 'port = 6379\nfiles = ["a:b"]', "files", "not an absolute path"),
    ("port = 6379", 'port = 6379\nenv = { "A B" = "c" }', "env", ""),
    ("port = 6379", 'port = 6379\nuser = "-x"', "user", "the name of a user"),
    ("port = 6379", 'port = 6379\nlifetime = "boot"', "lifetime", "each boot has one trial"),
    ("port = 6379", "port = 6379\nprot = 1", "prot", "did you mean `port`"),
    ('["/srv/api", "8080"]', '["/srv/api", "{workers}", "{json}"]', "", ""),
    ("port = 6379", 'port = 6379\nfiles = ["a:/srv/{workers}"]', "files", "levels are put into start, env"),
    ('["/srv/api", "8080"]', '"image"', "start", "the lab image, of which its machines are made, has no entry point"),
    ('["/srv/api", "8080"]', "[]", "start", ""),
    ('["/srv/api", "8080"]', '"api"', "start", 'write start = ["/srv/api", "--port", "8080"], or "image" for what'),
    ("[services.cache]", "[services.lighttpd]", "[services.lighttpd]", "a server of nearmetal's own"),
]


@pytest.mark.parametrize(("old", "new", "place", "said"), BAD)
def test_each_mistake_is_told_at_its_line(old: str, new: str, place: str, said: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if not place and not said:
        assert read(text, "s.toml").services
        return
    with pytest.raises(BadInput) as caught:
        read(text, "s.toml")
    assert said in f"{caught.value.what} {caught.value.remedy}"
    lines = {f"s.toml:{number}" for number, line in enumerate(text.splitlines(), 1) if line.startswith(place)}
    assert caught.value.where in lines


def test_services_that_run_at_one_time_have_a_port_each() -> None:
    text = GOOD.replace("port = 6379", "port = 8080").replace('services = ["cache"]', 'services = ["cache", "api"]')
    with pytest.raises(BadInput, match="both on port 8080"):
        read(text, "s.toml")


def test_a_file_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    text = GOOD.replace("port = 6379", 'port = 6379\nfiles = ["./config:/etc/config"]')
    with pytest.raises(BadInput, match=r"services.cache.files: .*config cannot be read: No such file"):
        resolve_treatments(read(text, "s.toml"), FileReader(tmp_path))


def test_plan_prints_what_the_manual_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what this host cannot run."""
    manual = (Path(__file__).parents[2] / "docs" / "services.md").read_text()
    (tmp_path / "own-service.toml").write_text(re.findall(r"```toml\n(name .*?)```", manual, re.DOTALL)[0])
    (tmp_path / "api").touch()
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"\$ nearmetal plan own-service.toml\n(.*?)\$ ", manual, re.DOTALL)
    printed = called("plan", "own-service.toml").stdout.partition("cannot run here")[0]
    assert printed.partition("`run` refuses")[0] == shown


def test_plan_warns_of_a_url_that_is_the_same_place_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "fixed.toml"
    head, _, _ = GOOD.partition("[services.api]")
    workload = '[[workloads]]\nname = "web"\nkind = "http"\nworkers = "{workers}"\nurl = "http://%s:8080/"\n'
    text = head.replace('["host", "docker"]', '["one", "other"]') + "".join(
        f'[environments.{name}]\nkind = "mock"\n' for name in ("one", "other")
    )
    file.write_text(text + workload % "10.0.0.1")
    assert "does not lead to $server" in " ".join(called("plan", str(file)).stdout.split())
    found = json.loads(called("plan", str(file), "--json").stdout)
    assert found["fixed_urls"] == ["web"]
    file.write_text(text + workload % "$server")
    assert json.loads(called("plan", str(file), "--json").stdout)["fixed_urls"] == []


@pytest.mark.parametrize(
    "added",
    ['[machine]\nimage = "mine"\n', '[factors.image]\nlevels = ["mine", "other"]\n'],
)
def test_an_image_of_ones_own_may_start_a_service(added: str) -> None:
    text = GOOD.replace('["/srv/api", "8080"]', '"image"', 1) + added
    study = read(text, "s.toml")
    assert study.services["api"].start == "image"
    for resolved in resolve_treatments(study):
        assert resolved.services["api"].start == "image"


def test_a_level_that_not_every_treatment_has_is_no_word_of_a_service() -> None:
    text = GOOD.replace('["redis-server"]', '["redis-server", "{threads}"]')
    nested = '[factors.threads]\nlevels = [1, 2]\nwhen = { environment = "docker" }\n'
    with pytest.raises(BadInput, match="has no level where the `when` of `threads` does not hold"):
        read(text + nested, "s.toml")


def test_a_factor_may_stand_in_services_alone() -> None:
    text = GOOD.replace('["/srv/api", "8080"]', '["/srv/api", "{threads}"]') + "[factors.threads]\nlevels = [1, 2]\n"
    study = read(text, "s.toml")
    # What asks another service is measured at each level in vain.
    assert {(spec.name, name) for spec, name in list_unused(study, installed_names())} >= {("filling", "threads")}
    assert ("web", "threads") not in {(spec.name, name) for spec, name in list_unused(study, installed_names())}
    plain = study.services["api"]
    filled = fill_in_levels(resolve_service("api", plain, FileReader()), {"environment": "host", "threads": 2})
    assert filled.start == ("/srv/api", "2")
