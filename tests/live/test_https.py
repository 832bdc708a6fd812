"""A study of a service that speaks TLS: whole handshakes, a checked certificate, and one that is refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.lab.networks.network import SUBNET
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.run import study_execution
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader
from tests.tls_server import new_authority

pytestmark = pytest.mark.live

STUDY = """
name = "https"
[factors]
environment = [@ENVIRONMENTS@]
[services.tls]
start = ["/srv/openssl", "s_server", "-accept", "$server:8443", "-cert", "/srv/server.pem", "-www", "-quiet"]
port = 8443
env = { LD_LIBRARY_PATH = "/srv" }
files = [@FILES@]
[[workloads]]
name = "checked"
kind = "http"
server = "tls"
tls = { ca = "@CA@" }
workers = 1
new_connections = true
requests = 20
warmup = "0s"
[[workloads]]
name = "refused"
kind = "http"
server = "tls"
tls = { ca = "@OTHER@" }
workers = 1
requests = 20
[design]
blocks = 1
share_boot = true
"""


def files_of(folder: Path) -> list[str]:
    """OpenSSL's program with its libraries, which the image need not have."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl: a service over TLS was NOT measured; apt-get install openssl")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    needed = [program, *re.findall(r"=> (\S*/lib(?:ssl|crypto)\S*)", linked)]
    for one in needed:
        shutil.copy(one, folder)
    return [f"./{Path(one).name}:/srv/{Path(one).name}" for one in needed]


@pytest.mark.parametrize("environments", [("host",), pytest.param(("host", "qemu"), marks=pytest.mark.long)], ids=len)
@pytest.mark.usefixtures("one_attempt", "lab_image")
async def test_a_service_is_asked_by_https_and_its_certificate_is_checked(
    environments: tuple[str, ...], tmp_path: Path, home: Path
) -> None:
    authority, other = new_authority(tmp_path), new_authority(tmp_path, "other")
    certificate = authority.issue(tmp_path, *(str(SUBNET[number]) for number in range(1, 9)))
    certificate.rename(tmp_path / "server.pem")
    files = [*files_of(tmp_path), "./server.pem:/srv/server.pem"]
    text = STUDY.replace("@FILES@", ", ".join(f'"{one}"' for one in files))
    text = text.replace("@ENVIRONMENTS@", ", ".join(f'"{one}"' for one in environments))
    text = text.replace("@CA@", str(authority.file)).replace("@OTHER@", str(other.file))
    study = read(text, "https.toml")
    request = study_execution.RunRequest(
        study, text, (), False, home / "run", available=False, files=FileReader(tmp_path)
    )
    await study_execution.start_run(request, print, ())
    found: list[TrialRecord] = list(read_records(RunFolder(home / "run").journal))
    for one in found:
        if one.trial.workload == "checked":
            assert (one.status, one.reason) == (TrialStatus.OK, None)
            assert one.responses["errors"].value == 0
            assert one.responses["handshake_cpu_p50"].value > 0
            assert one.responses["handshake_p50"].value < one.responses["latency_p50"].value
        else:
            assert one.status is TrialStatus.FAILED
            assert "certificate" in str(one.reason)
    assert {str(one.trial.treatment["environment"]) for one in found} == {*environments}
