"""What a study file may say of an HTTP workload."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.http import Http
from nearmetal.workloads.http.parameters import HttpParameters

RAMP = {"mode": "ramp", "from": 1, "step": 1, "to": 20}


def parameters(**given: Any) -> HttpParameters:
    return HttpParameters.model_validate(given, context=AS_WRITTEN)


def test_nothing_said_is_a_closed_loop_on_lighttpds_first_page() -> None:
    found = parameters()
    assert (found.server, found.all_paths, found.mode, found.measured_seconds) == ("lighttpd", ("/",), "closed", 10.0)


def test_levels_come_with_their_types() -> None:
    found = parameters(workers=4, mode="open", rate=250, duration="60s", new_connections=True, spin=False)
    assert (found.workers, found.rate, found.duration, found.new_connections) == (4, 250.0, 60.0, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 100}, '`rate` needs mode = "open"'),
        ({"mode": "open"}, 'mode = "open" needs `rate`'),
        ({"mode": "ramp", "from": 1, "step": 1}, "needs `to`"),
        ({**RAMP, "from": 30}, "from = 30 and to = 20: swap"),
        ({**RAMP, "duration": "5s"}, '`duration` needs mode = "closed" or "open"'),
        ({**RAMP, "per_step": "20"}, "is not the length of a step"),
        ({**RAMP, "per_step": "0x"}, "is not the length of a step"),
        ({"spin": True}, '`spin` needs mode = "open" or "ramp"'),
        ({"duration": "5s", "requests": 5}, "exclude each other"),
        ({"duration": 5}, "has no unit"),
        ({"duration": "0s"}, "greater than or equal"),
        ({"timeout": "99999h"}, "less than or equal"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"workers": "4"}, "valid integer"),
        ({"workers": True}, "valid integer"),
        ({"mode": "open", "rate": True}, "valid number"),
        ({"mode": "open", "rate": float("inf")}, "finite"),
        ({"mode": "open", "rate": float("nan")}, "finite"),
        ({"workers": 2, "threads": 3}, "leaves threads without one of the 2 workers"),
        ({"new_connections": 1}, "valid boolean"),
        ({"path": "100k"}, "is not a path"),
        ({"path": "/a b"}, "is not a path"),
        ({"path": "/a\r\nX: y"}, "is not a path"),
        ({"path": "/a#b"}, "is not a path"),
        ({"paths": ["/a", "b"]}, "is not a path"),
        ({"server": "probe", "writes": "10 x 1000"}, "is no number of writes"),
        ({"server": "probe", "writes": "0x1000"}, "is no number of writes"),
        ({"path": "/a", "paths": ["/b"]}, "exclude each other"),
        ({"url": "http://$server/", "path": "/a"}, "the path stands in the URL"),
        ({"url": "http://$server/", "server": "probe"}, "exclude each other"),
        ({"url": "ftp://x/"}, "not a URL that can be loaded"),
        ({"url": "http:///a"}, "not a URL that can be loaded"),
        ({"url": "http://u@x/"}, "not a URL that can be loaded"),
        ({"url": "http://x:99999/"}, "not a URL that can be loaded"),
        ({"url": "http://[x/"}, "not a URL that can be loaded"),
        ({"url": "http://x/a b"}, "not a URL that can be loaded"),
        ({"body": "1KiB"}, '`body` needs server = "probe"'),
        ({"delay": "5ms"}, '`delay` needs server = "probe"'),
        ({"server": "my nginx"}, "String should match pattern"),
        ({"worker": 4}, "Extra inputs"),
        ({"method": "G T"}, "should match pattern"),
        ({"headers": {"A": "b\r\nC: d"}}, "should match pattern"),
        ({"headers": {"A\r\nB": "c"}}, "should match pattern"),
        ({"headers": {"A": "b\n"}}, "should match pattern"),
        ({"headers": {"content-length": "5"}}, "the generator sets content-length itself"),
        ({"headers": {"Connection": "close"}}, "the generator sets Connection itself"),
        ({"headers": {"Host": "a", "host": "b"}}, "a header is there twice"),
        ({"send": "a", "send_file": __file__}, "`send` and `send_file` exclude each other"),
        ({"send_file": "/no/such/file"}, "cannot read '/no/such/file': No such file or directory"),
        ({"send_file": "/"}, "cannot read '/': Is a directory"),
        ({"mix": [{"path": "/a"}], "send": "b"}, "remove `method`, `send`, `send_file`"),
        ({"mix": [{"path": "/a"}], "path": "/b"}, "the paths stand in `mix`"),
        ({"mix": [{"path": "/a"}], "url": "http://x/b"}, "that of `url` would not be asked for"),
        ({"mix": [{"path": "/a"}], "url": "http://x?b"}, "that of `url` would not be asked for"),
        ({"mix": [{"path": "/a", "weight": 0}]}, "greater than or equal to 1"),
        ({"mix": [{"path": "/a", "weight": 60_000}, {"path": "/b", "weight": 60_000}]}, "add up to more than 100000"),
        ({"mix": [{"path": "/a", "send": "b", "send_file": __file__}]}, "exclude each other"),
        ({"mix": [{"path": "a"}]}, "is not a path"),
        ({"mix": [{"weight": 2}]}, "Field required"),
        ({"tls": {"insecure": True}}, "`tls` needs a service, or `url` with https://"),
        ({"tls": {"insecure": True, "ca": __file__}, "url": "https://x/"}, "`ca` and `insecure` exclude each other"),
        ({"tls": {"ca": "/no/such/file"}, "url": "https://x/"}, "cannot read"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_would(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parameters(**given)
    assert message in caught.value.errors()[0]["msg"]


def test_how_long_a_run_takes_is_told_beforehand() -> None:
    assert parameters(duration="3s").expected_seconds == 3.0
    assert parameters(mode="open", rate=100, requests=500).expected_seconds == 5.0
    twenty_steps_and_confirming = (20 + 12) * 20.0
    assert parameters(**RAMP).expected_seconds == twenty_steps_and_confirming
    assert parameters(**RAMP, per_step="2s").expected_seconds == (20 + 12) * 2.0
    assert parameters(mode="ramp", **{"from": 0.1, "step": 0.1, "to": 0.3, "per_step": "1s"}).expected_seconds == 15.0


def test_every_request_may_time_out_before_a_run_is_given_up() -> None:
    found = parameters(requests=100, workers=10, timeout="5s")
    assert found.longest_seconds >= 10 * 5.0
    assert parameters(duration="3s", timeout="2s").longest_seconds == 5.0


def test_a_ramp_may_wait_for_its_server_after_each_step() -> None:
    each = {"2s": 2.0 + 5.0 + 10.0, "20x": 20.0 + 5.0 + 20.0}
    for per_step, seconds in each.items():
        found = parameters(**RAMP, per_step=per_step, timeout="5s")
        assert found.longest_seconds == (20 + 12) * seconds


def test_a_file_is_pinned_by_its_checksum(tmp_path: Path) -> None:
    content = tmp_path / "order.json"
    content.write_text("{}")
    file = str(content)
    written: dict[str, Any] = {"mix": [{"path": "/a"}, {"path": "/b", "send_file": file}]}
    pinned = parameters(**written).pin_files(written)
    sha256 = hashlib.sha256(b"{}").hexdigest()
    assert pinned == {"mix": [{"path": "/a"}, {"path": "/b", "send_file": {"path": file, "sha256": sha256}}]}
    content.write_text("changed")
    later = parameters(**pinned).mix[1].send_file
    assert later is not None and later.sha256 == sha256
    with pytest.raises(ToolFailed, match="has changed since the study was planned"):
        later.read()
    content.unlink()
    with pytest.raises(ToolFailed, match="cannot read"):
        later.read()


def test_what_was_written_without_files_stays_as_it_is() -> None:
    written = {"workers": 4, "mix": [{"path": "/a", "weight": 2}], "headers": {"A": "b"}}
    assert parameters(**written).pin_files(written) == written


def test_a_service_with_tls_is_asked_by_https() -> None:
    given = HttpParameters.model_validate({"server": "api", "tls": {"insecure": True}})
    assert given.is_tls and given.scheme == "https"
    assert "handshake_p50" in Http(given).responses
    assert HttpParameters.model_validate({"server": "api"}).scheme == "http"
