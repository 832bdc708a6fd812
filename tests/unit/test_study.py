"""Reading a study: what it becomes, and what each mistake is answered with."""

import sys

import pytest

from nearmetal import errors, factors, studies, study
from nearmetal.model import VIRTUAL_HARDWARE, CaptureSpec
from tests.unit.study_text import GOOD, line, refused


def test_what_is_written_and_what_is_not() -> None:
    read = study.read(GOOD, "s.toml")
    assert (read.machine.vcpus, read.machine.memory, read.link.rate) == (2, 512 * 2**20, 10**9)
    assert (read.design.margin, read.design.crossing, read.design.repeats) == (0.02, "full", 1)
    assert read.observe.capture is not None
    assert read.observe.capture.snap == 96
    assert read.environment("slow").options == {"speed": 0.5}
    assert read.environment("mock").kind == "mock"


BAD: list[tuple[str, str, str, str]] = [
    # replace, by, where (begin of the line), what is said
    ("blocks = 6", "bloks = 6", "bloks", "did you mean `blocks`"),
    ("vcpus = 2", "vcpu = 2", "vcpu ", "did you mean `vcpus`"),
    ("question =", "qestion =", "qestion", "did you mean `question`"),
    ("[quick.design]", "[quik.design]", "[quik", "did you mean `quick`"),
    ("snap = 96", "snip = 96", "capture", "did you mean `snap`"),
    ("blocks = 6", "blocks = { min = 8, mox = 16 }", "blocks", "did you mean `max`"),
    ("blocks = 6", "blocks = { min = 8 }", "blocks", "`design.blocks.max` is missing"),
    ("blocks = 6", "blocks = { min = 8, max = 7 }", "blocks", "min = 8 is more than max = 7"),
    ("blocks = 6", 'blocks = "8"', "blocks", "a whole number, or as in blocks = { min = 8, max = 40 }"),
    ("blocks = 6", "blocks = [8, 40]", "blocks", "a whole number, or as in blocks = { min = 8, max = 40 }"),
    ("blocks = 6", "blocks = { min = 0, max = 7 }", "blocks", "`design.blocks.min` cannot be 0"),
    ("blocks = 6", "blocks = 0", "blocks = 0", "it must be at least 1"),
    ("blocks = 6", "blocks = -1", "blocks = -1", "it must be at least 1"),
    ("blocks = 6", 'blocks = "6"', "blocks", "`design.blocks` cannot be '6'"),
    ("blocks = 6", "blocks = true", "blocks", "`design.blocks` cannot be true"),
    ("blocks = 6", "blocks = 2.0", "blocks", "`design.blocks` cannot be 2.0"),
    ("blocks = 6", "blocks = 1000000000", "[factors]|[design]", "more than 1,000,000 trials"),
    ("seed = 1", "repeats = 1000000000", "[factors]|[design]", "more than 1,000,000 trials"),
    ("seed = 1", "repeats = 0", "repeats", "at least 1"),
    ("seed = 1", "seed = 1.5", "seed", "it must be a whole number"),
    ("seed = 1", 'provision = "none"', "provision", "one of 'boot', 'restart'"),
    ("seed = 1", 'share_boot = "yes"', "share_boot", "true or false"),
    ("alpha = 0.05", "alpha = 2", "alpha", "less than 1"),
    ("alpha = 0.05", "alpha = 0", "alpha", "more than 0"),
    ("alpha = 0.05", "alpha = nan", "alpha", "cannot be nan"),
    ("alpha = 0.05", "alpha = inf", "alpha", "write a finite number"),
    ("blocks = 6", "blocks = nan", "blocks", "write a whole number from 1 on"),
    ("vcpus = 2", 'vcpus = 1\nisolation = "kernel"', "vcpus", "of one CPU none can be kept free, as 'kernel' wants it"),
    ("alpha = 0.05", 'alpha = "5%"', "alpha", "cannot be '5%'"),
    ('margin = "2%"', 'margin = "-1%"', "margin", "'-1%' is not a percentage"),
    ('margin = "2%"', 'margin = "0%"', "margin", "more than 0"),
    ('margin = "2%"', "margin = 0.02", "margin", "0.02 has no unit"),
    ('margin = "2%"', 'margin = "2000%"', "margin", "at most 1"),
    ("vcpus = 2", "vcpus = 0", "vcpus", "at least 1"),
    ("vcpus = 2", 'vcpus = "2"', "vcpus", "a whole number"),
    ("vcpus = 2", "vcpus = true", "vcpus", "a whole number"),
    ('memory = "512MiB"', 'memory = "1B"', "memory", "at least 16 MiB"),
    ('memory = "512MiB"', 'memory = "512mib"', "memory", "'512mib' is not a size"),
    ('memory = "512MiB"', "memory = 512", "memory", "512 has no unit"),
    ('memory = "512MiB"', f'memory = "{"9" * 400}B"', "memory", "more than anything can have"),
    ('memory = "512MiB"', 'cpus = "two"', "cpus", "not a list of CPUs"),
    ('memory = "512MiB"', 'cpus = "0-99999999999"', "cpus", "names no CPUs"),
    ('memory = "512MiB"', 'cpus = ""', "cpus", "names no CPU"),
    ('memory = "512MiB"', 'host = "far"', "host", "which is no host"),
    ('memory = "512MiB"', "isolation = 3", "isolation", "isolation cannot be 3"),
    ('memory = "512MiB"', 'isolation = ["none"]', "isolation", "isolation cannot be a list"),
    ('memory = "512MiB"', 'isolatoin = "none"', "isolatoin", "did you mean `isolation`"),
    ('environment = "mock"', "count = 0", "count", "at least 1"),
    ('environment = "mock"', 'environment = "moc"', 'environment = "moc', "did you mean `mock`"),
    ('environment = "mock"', 'connect = "ring"', "connect", "one of 'shared' or 'pairs'"),
    ('rate = "1Gbit/s"', 'rate = "1GB"', "rate", "not a rate"),
    ('rate = "1Gbit/s"', 'rate = "0bit/s"', "rate", "at least 1"),
    ('rate = "1Gbit/s"', 'loss = "101%"', "loss", "at most 1"),
    ('rate = "1Gbit/s"', 'switch = "hub"', "switch", "one of 'bridge' or 'direct'"),
    ("capture = { snap = 96 }", "packets = true", "packets", "there is no observer 'packets'"),
    ("capture = { snap = 96 }", 'capture = "yes"', "capture", "it must be true, false, or a table like"),
    ("capture = { snap = 96 }", 'capture = { ring = true, limit = "1MiB" }', "capture", 'a limit of "3MiB" or more'),
    ("capture = { snap = 96 }", "capture = { snap = 1 }", "capture", "at least 64"),
    ("speed = 0.5", "sped = 0.5", "sped", "did you mean `speed`"),
    ("speed = 0.5", "speed = 0", "speed", "more than 0"),
    ("speed = 0.5", 'provision = "reborn"', "provision", "one of 'boot'"),
    ('kind = "mock"', 'kind = "mok"', 'kind = "mok"', "did you mean `mock`"),
    (
        'kind = "mock"\n\n[environments.slow]',
        "[environments.slow]",
        "[environments.base]",
        "`environments.base.kind` is",
    ),
    (
        "[environments.slow]",
        '[environments.host]\nkind = "docker"\n[environments.slow]',
        "[environments.host]",
        "'host' is the name of another kind of environment than docker: reports would call it that",
    ),
    ("[environments.base]", '[environments."ba se"]', '[environments."ba', 'such as "ba-se"'),
    ("[environments.base]", '[environments."bäse"]', '[environments."b', "cannot be a name"),
    (
        'environment = ["base", "slow"]',
        'environment = ["base", "quick"]',
        "environment",
        "there is no environment 'quick'",
    ),
    ('environment = ["base", "slow"]', "environment = [1, true]", "environment", "there is no environment 1"),
    ('environment = ["base", "slow"]', "", "[factors]", "no factor `environment`"),
    ("workers = [1, 4]", "workers = []", "workers", "has no levels"),
    ("workers = [1, 4]", "workers = 4", "workers", "must be a list"),
    ("workers = [1, 4]", "workers = [1, [2]]", "workers", "must be a list"),
    ("workers = [1, 4]", "workers = [1, 4, 1]", "workers", "the level 1 twice"),
    ("workers = [1, 4]", "workers = [1, nan]", "workers", "cannot be nan"),
    ("workers = [1, 4]", "workers = [1, 0]", 'workers = "{', "at least 1"),
    ("workers = [1, 4]", 'workers = [1, "a\\nb"]', "workers", "on one line"),
    ("workers = [1, 4]", 'workers = [1, "\\u0007"]', "workers", "control character"),
    ("workers = [1, 4]", "workers = [1, 2000-01-01]", "workers", "must be a list of numbers"),
    ("workers = [1, 4]", "workers = [1, 4]\nspeed = [1, 2]", "speed = [1", "sets nothing and fills nothing"),
    ("workers = [1, 4]", "workers = [1, 4]\nvcpus = [1, 0]", "vcpus = [1", "the level 0 of `vcpus`"),
    (
        "workers = [1, 4]",
        'workers = [1, 4]\nmemory = ["1GB", "1000MB"]',
        "memory = [",
        "'1000MB' of `memory` are the same",
    ),
    ("workers = [1, 4]", 'workers = [1, 4]\nmemory = ["1GiB", "1 gig"]', "memory = [", "'1 gig' is not a size"),
    ("workers = [1, 4]", 'workers = [1, 4]\nisolation = ["none", "all"]', "isolation", "one of none, user, kernel"),
    ("workers = [1, 4]", "workers = [1, 4]\ncpus = ['0', 'x']", "cpus", "not a list of CPUs"),
    ("workers = [1, 4]", "workers = [1, 4]\nhost = ['local', 'far']", "host", "which is no host"),
    ("workers = [1, 4]", "workers = [1, 4]\nworker = [1]", "worker =", "sets nothing"),
    (
        "[machine]",
        '[factors.card]\nlevels = ["e1000"]\nsets = "machine.nic"\n[machine]',
        "[factors.card]",
        "both set nic",
    ),
    (
        "[machine]",
        '[factors.x]\nlevels = [1]\nsets = "machine.noc"\n[machine]',
        "[factors.x]",
        "names nothing that can",
    ),
    ("[machine]", '[factors.x]\nlevels = [true]\nsets = "observe.x"\n[machine]', "[factors.x]", "no observer 'x'"),
    (
        "[machine]",
        '[factors.x]\nlevels = ["a"]\nsets = "clients.environment"\n[machine]',
        "[factors.x]",
        "environment 'a'",
    ),
    ("[machine]", '[factors.x]\nlevls = ["a"]\n[machine]', "levls|[factors.x]", "levels"),
    ('when = { environment = "slow" }', 'when = { environment = "fast" }', "when", "never holds"),
    ('when = { environment = "slow" }', 'when = { envronment = "slow" }', "when", "did you mean `environment`"),
    ('when = { environment = "slow" }', "when = { environment = [] }", "when", "never holds"),
    ('when = { environment = "slow" }', "when = { nic = 'e1000' }", "[factors]", "in a circle"),
    ('when = { environment = "slow" }', "when = { workers = true }", "when", "never holds: workers is never true"),
    ('environment = "base", workers = 1', 'environment = "bas"', "reference", "none of its levels"),
    ('environment = "base", workers = 1', 'enviroment = "base"', "reference", "did you mean `environment`"),
    ('environment = "base", workers = 1', 'environment = "slow"', "reference", "the factor `nic` comes in"),
    ('environment = "base", workers = 1', "workers = true", "reference", "none of its levels"),
    ('name = "web"', 'name = "we b"', 'name = "we b', 'letters, digits and . _ - only, at most 100, such as "we-b"'),
    ('name = "web"', "", "[[workloads]]", "`workloads.0.name` is missing"),
    ('kind = "http"', 'kind = "htp"', 'kind = "htp"', "did you mean `http`"),
    ('duration = "1s"', 'duratoin = "1s"', "duratoin", "did you mean `duration`"),
    ('duration = "1s"', "form = 1", "form", "did you mean `from`"),
    ('duration = "1s"', "from_ = 1", "from_", "unknown key `from_`"),
    ('duration = "1s"', "duration = 1", "duration", "1 has no unit"),
    ('duration = "1s"', "threads = 4", "[[workloads]]", "with workers=1"),
    ('duration = "1s"', "path = '/{page}'", "path", "the placeholder {page} has no factor"),
    ('duration = "1s"', "path = '/{nic}'", "path", "has no level where"),
    ('primary = "throughput"', 'primary = "thruput"', "primary", "did you mean `throughput`"),
    ('primary = "throughput"', 'primary = "{workers}"', "primary", "it must be a text of letters, digits and"),
    (
        'primary = "throughput"',
        '[[workloads]]\nname = "web"\nkind = "http"',
        'name = "web"',
        "two workloads are called",
    ),
    ("[[workloads]]", "[workloads]", "[workloads]", "begin each with [[workloads]]"),
    ('name = "good"', "", "", "`name` is missing"),
    ('name = "good"', 'name = "a/b"', "name", 'such as "a-b"'),
    ('name = "good"', 'name = "Büro, 2. Versuch!"', "name", 'such as "Buro-2.-Versuch"'),
    ('name = "good"', 'name = ""', "name", 'such as "my-study"'),
    ('name = "good"', f'name = "{"x" * 101}"', "name", f'such as "{"x" * 100}"'),
    ('name = "good"', 'name = "good', "name", "this is not TOML"),
    ('name = "good"', 'name = "good"\nname = "x"', 'name = "x"', "this is not TOML"),
    ('name = "good"', 'name = "\\u001b[2J"', "name", "control character"),
    ('name = "good"', 'name = "good"\n"a\\u0000b" = 1', '"a', "control character"),
    ('name = "good"', 'name = "good"\n"a\\nb" = 1', '"a', "unknown key `a\\nb`"),
    ("[quick.design]\nblocks = 2", "[quick.design]\nblocks = 'x'", "blocks = 'x'", "`design.blocks` cannot be 'x'"),
    ("[quick.design]\nblocks = 2", "[quick]\nblocks = 2", "blocks = 2", "unknown key `blocks`"),
    ('duration = "1s"', f"paths = {['/'] * 1001}", "paths", "`paths` has 1,001 entries it must have at most 1,000"),
    (
        'kind = "http"\nworkers = "{workers}"\nduration = "1s"\nprimary = "throughput"',
        'kind = "command"\nresponse = "rate"\njson = "{workers}"\nargv = []',
        "argv",
        "`argv` is empty it must have at least 1 entry",
    ),
    ("[design]", f"[hosts.far]\nssh = '{'a' * 301}'\n[design]", "ssh", "a text of at most 300 characters"),
    ("[design]", "[hosts.local]\nssh = 'a'\n[design]", "[hosts.local]", "this host itself"),
    ("[design]", "[hosts.far]\nssh = '-oProxyCommand=x'\n[design]", "ssh", 'such as "user@10.0.0.2"'),
    ("[design]", "[hosts.far]\nssh = 'a b'\n[design]", "ssh", "where an SSH server answers"),
]


@pytest.mark.parametrize(("old", "new", "place", "said"), BAD)
def test_each_mistake_is_told_with_its_line_and_a_remedy(old: str, new: str, place: str, said: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    error = refused(text)
    assert said in f"{error.what} {error.remedy}"
    begin = [part for part in place.split("|") if any(one.startswith(part) for one in text.splitlines())]
    expected = {f"s.toml:{number}" for part in begin for number, one in _lines(text) if one.startswith(part)}
    assert error.where in (expected if place else {"s.toml:1"})


def _lines(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), 1))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_of_something_else_is_told(number: int) -> None:
    for text in ("", "\x00\x01", "[" * 100_000)[number : number + 1]:
        refused(text)


def test_a_number_too_long_for_python_is_told() -> None:
    refused(GOOD.replace("seed = 1", f"seed = {'9' * 5000}"))
    refused(GOOD.replace("vcpus = 2", f"vcpus = -{'9' * 4000}"))


def test_nesting_without_end_is_told() -> None:
    deep = ".".join("a" * 3000)
    assert "nested" in refused(GOOD.replace("[quick.design]", f"[machine.{deep}]\nx = 1\n[quick.design]")).what
    assert "nested" in refused(GOOD.replace("seed = 1", f"seed = {'[' * 900}{']' * 900}")).what


def test_a_message_is_short_and_on_one_line() -> None:
    error = refused(GOOD.replace('environment = "mock"', f'connect = "{"x" * 9000}"'))
    assert len(str(error)) < 500


# ── What is varied in vain ────────────────────────────────────────────────────────────────────────────────────────


def compared(factors: str, more: str = "") -> str:
    return f"""name = "s"
[factors]
environment = ["host", "qemu"]
{factors}
[[workloads]]
name = "w"
kind = "ping"
{more}"""


@pytest.mark.parametrize("key", sorted(VIRTUAL_HARDWARE))
def test_hardware_is_not_varied_where_there_is_none(key: str) -> None:
    levels = {"nic": ("virtio-net", "e1000"), "disk": ("virtio-blk", "ide"), "disk_format": ("raw", "qcow2")}
    one, other = levels.get(key, ("none", "unsafe") if key == "disk_cache" else ("auto", "max"))
    error = refused(compared(f'{key} = ["{one}", "{other}"]'))
    assert error.where == "s.toml:4" and "'host'" in error.what and 'environment = ["qemu"]' in error.remedy
    # One level compares nothing, and what is varied where it means something is in order.
    study.read(compared(f'{key} = ["{one}"]'), "s.toml")
    nested = f'[factors.{key}]\nlevels = ["{one}", "{other}"]\nwhen = {{ environment = "qemu" }}'
    study.read(compared(nested), "s.toml")


def test_tunnels_are_not_varied_on_one_host() -> None:
    far = '[hosts.far]\nssh = "far"\n[clients]\nhost = "far"'
    assert "on one host" in refused(compared('tunnel = ["vxlan", "gre"]')).what
    study.read(compared('tunnel = ["vxlan", "gre"]', far), "s.toml")


# ── A size that cannot be enumerated ──────────────────────────────────────────────────────────────────────────────


def many(factors: int, levels: int, when: str = "") -> str:
    lines = "".join(
        f"[factors.f{number}]\nlevels = {list(range(1, levels + 1))}\n{when}\n" for number in range(factors)
    )
    words = ", ".join(f'"{{f{number}}}"' for number in range(factors))
    command = (
        f'[[workloads]]\nname = "c"\nkind = "command"\nargv = [{words}]\nresponse = "x"\nbetter = "higher"\njson = "x"'
    )
    return f'name = "many"\n[factors]\nenvironment = ["mock"]\n{lines}[clients]\nenvironment = "mock"\n{command}\n'


def test_forty_factors_of_ten_levels_are_refused_without_counting_them() -> None:
    """10^40 combinations: who enumerates them runs into the limit of every test."""
    assert "more than 1,000,000 trials" in refused(many(40, 10)).what


def test_nested_factors_count_only_where_they_apply() -> None:
    inner = '[factors.cpu]\nlevels = [1, 2]\nsets = "machine.vcpus"\nwhen = { nic = "e1000" }\n[machine]'
    read = study.read(GOOD.replace("[machine]", inner), "s.toml")
    # base: 2 levels of workers; slow: 2 with virtio-net, and with e1000 2 x 2
    assert factors.number_of_treatments(read, 10**6) == len(list(factors.treatments_of(read))) == 8


def test_one_at_a_time_keeps_a_huge_study_small() -> None:
    read = study.read(many(40, 10) + '[design]\ncrossing = "one-at-a-time"\n', "s.toml")
    assert factors.number_of_treatments(read, 10**6) == 1 + 40 * 9


def test_a_level_list_of_a_hundred_thousand_is_counted_and_refused() -> None:
    assert "more than" in refused(GOOD.replace("[1, 4]", str(list(range(1, 300_001))))).what


def test_more_factors_than_calls_may_be_nested_are_read_without_recursion() -> None:
    count = sys.getrecursionlimit() + 10
    assert len(study.read(many(count, 1), "s.toml").factors) == count + 1


# ── Provisions and hosts ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_provision_that_an_environment_has_not_is_set_for_it_alone() -> None:
    metal = '[environments.metal]\nkind = "host"\nprovision = "reuse"\n[factors]'
    text = GOOD.replace('["base", "slow"]', '["base", "slow", "metal"]').replace("[factors]", metal)
    error = refused(text)
    assert "'metal' cannot be provisioned by 'reuse'" in error.what
    assert error.where == f"s.toml:{line('provision', text)}"
    can = text.replace('kind = "host"\nprovision = "reuse"', 'kind = "mock"\nprovision = "boot"')
    read = study.read(can, "s.toml")
    assert read.provision_of(read.environment("metal")) == "boot"


def test_the_design_does_not_weaken_an_environment_silently() -> None:
    text = GOOD.replace("seed = 1", 'seed = 1\nprovision = "restart"')
    error = refused(text)
    assert "weaker than 'boot'" in error.what
    assert error.where == f"s.toml:{line('provision', text)}"
    meant = text.replace("[environments.slow]", '[environments.slow]\nprovision = "restart"').replace(
        "[environments.base]", '[environments.base]\nprovision = "reuse"'
    )
    read = study.read(meant, "s.toml")
    assert read.provision_of(read.environment("base")) == "reuse"


def test_machines_are_placed_on_hosts_that_are_declared() -> None:
    text = GOOD.replace("[machine]", '[hosts.far]\nssh = "root@10.0.0.2"\n[machine]\nhost = "far"')
    assert study.read(text, "s.toml").machine.host == "far"
    assert "no host" in refused(text.replace('host = "far"', 'host = "fra"')).what
    factor = text.replace("[factors]", '[factors]\nhost = ["local", "far"]')
    assert study.read(factor, "s.toml").factors["host"].levels == ("local", "far")


@pytest.mark.parametrize("kind", ["host", "docker", "podman"])
def test_a_machine_on_its_hosts_kernel_has_as_many_cpus_as_are_named(kind: str) -> None:
    text = f"""name = "cpus"
[machine]
vcpus = 1
cpus = "0-1"
[factors]
environment = ["qemu", "{kind}"]
[[workloads]]
name = "web"
kind = "http"
"""
    error = refused(text)
    assert error.what == f"`cpus` names 2 CPUs for a machine of {kind!r} that is to have 1"
    assert error.where == f"s.toml:{line('cpus = ', text)}"
    assert error.remedy == "name as many as `vcpus` says, or set vcpus = 2"
    assert study.read(text.replace("vcpus = 1", "vcpus = 2"), "s.toml").machine.cpus == "0-1"
    guests = text.replace(f'["qemu", "{kind}"]', '["qemu"]')
    assert study.read(guests, "s.toml").machine.vcpus == 1
    varied = text.replace("vcpus = 1", "").replace("[factors]", "[factors]\nvcpus = [2, 1]")
    assert refused(varied).what == error.what
    assert refused(varied).where == f"s.toml:{line('vcpus = ', varied)}"


SETTING = """name = "set"
[machine]
vcpus = 1
[clients]
environment = "host"
[environments.metal]
kind = "ssh"
address = "root@10.0.0.1"
provision = "reuse"
[hosts.far]
ssh = "root@10.0.0.2"
[factors]
environment = ["host"]
[[workloads]]
name = "web"
kind = "http"
"""


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ('vcpus = [1, 2]\nisolation = ["none", "user"]\n', "of one CPU none can be kept free, as 'user' wants it"),
        ('cpus = ["0", "0-1"]\n', "`cpus` names 2 CPUs for a machine of 'host' that is to have 1"),
        (
            '[factors.pinned]\nlevels = ["0", "0-1"]\nsets = "machine.cpus"\n',
            "`cpus` names 2 CPUs for a machine of 'host' that is to have 1",
        ),
        ('[factors.place]\nlevels = ["local", "far"]\nsets = "machine.host"\n', "machine.host places 'metal' on 'far'"),
        ("count = [1, 3]\n", "3 clients are to have a server each, but 'metal' is one machine"),
        ('switch = ["bridge", "direct"]\n', "a direct cable has two ends, and 2 clients share a server"),
        ("[factors.wobble]\nlevels = ['0ms', '3ms']\nsets = 'link.jitter'\n", "the jitter is more than the delay"),
    ],
)
def test_a_level_that_cannot_be_is_shown_at_its_factor(factors: str, what: str) -> None:
    text = SETTING.replace("[[workloads]]", f"{factors}[[workloads]]")
    if "metal" in what:
        text = text.replace('environment = ["host"]', 'environment = ["host", "metal"]')
        text = text.replace("[environments", 'connect = "pairs"\n[environments', 1) if "each" in what else text
    if "cable" in what:
        text = text.replace("[clients]", "[clients]\ncount = 2")
    error = refused(text)
    assert error.what.startswith(what)
    assert error.where == f"s.toml:{line(factors.splitlines()[0], text)}"


def test_an_observer_of_no_plugin_is_refused_also_as_a_factor() -> None:
    text = GOOD.replace("[machine]", '[factors.tap]\nlevels = [false, true]\nsets = "observe.capture"\n[machine]')
    assert study.read(text, "s.toml").factors["tap"].levels == (False, True)


CAPTURED = """[factors.snap]
levels = [64, 256]
sets = "observe.capture.snap"
[factors.inside]
levels = [false, true]
sets = "observe.capture.inside"
[machine]"""


def test_how_captures_are_made_is_a_factor() -> None:
    read = study.read(GOOD.replace("[machine]", CAPTURED), "s.toml")
    found = [
        (treatment["snap"], treatment["inside"], factors.ask(read, treatment, ()).observe.capture)
        for treatment in factors.treatments_of(read)
    ]
    assert {(snap, inside) for snap, inside, _ in found} == {(64, False), (64, True), (256, False), (256, True)}
    assert all(capture == CaptureSpec(snap=snap, inside=inside) for snap, inside, capture in found)


@pytest.mark.parametrize(
    ("old", "new", "what", "remedy"),
    [
        ("[64, 256]", "[64, 32]", "the level 32 of `snap` cannot be 32", "at least 64"),
        ("[64, 256]", '[64, "big"]', "the level 'big' of `snap` cannot be 'big'", "a whole number"),
        ("[false, true]", "[false, 1]", "the level 1 of `inside` cannot be 1", "true or false"),
        ('sets = "observe.capture.snap"', "", "the factor 'snap' sets nothing", 'sets = "observe.capture.snap"'),
        ("capture.snap", "capture.limit", "sets = 'observe.capture.limit' names nothing that can be set", "sets = "),
        ("capture.snap", "capture.snip", "sets = 'observe.capture.snip' names nothing that can be set", "sets = "),
        ("capture.inside", "capture.snap", "`inside` and `snap` both set capture.snap", "one factor"),
    ],
)
def test_what_captures_cannot_be_is_told_at_the_factor(old: str, new: str, what: str, remedy: str) -> None:
    text = GOOD.replace("[machine]", CAPTURED.replace(old, new))
    error = refused(text)
    assert what in error.what and remedy in error.remedy
    assert error.where == f"s.toml:{line('[factors.inside]' if 'inside' in what else '[factors.snap]', text)}"


def test_captures_that_are_not_made_are_not_varied() -> None:
    off = GOOD.replace("capture = { snap = 96 }", "").replace("[machine]", CAPTURED)
    error = refused(off)
    assert error.what == "`snap` is varied where nothing is captured"
    assert error.where == f"s.toml:{line('[factors.snap]', off)}"
    assert "[observe] capture = true" in error.remedy
    whether = off.replace("workers = [1, 4]", "workers = [1, 4]\ncapture = [false, true]")
    assert refused(whether).what == error.what
    nested = whether.replace("levels = [64", "when = { capture = true }\nlevels = [64")
    nested = nested.replace("levels = [false", "when = { capture = true }\nlevels = [false")
    assert [one.get("snap") for one in factors.treatments_of(study.read(nested, "s.toml"))].count(None) > 0


def test_an_override_of_what_a_factor_sets_everywhere_does_nothing_and_is_refused() -> None:
    text = GOOD.replace("[machine]", CAPTURED)
    for written in ("observe.capture.snap=512", "observe.capture.inside=true"):
        error = refused(text, overrides=[written])
        assert "in every treatment, so that this does nothing" in error.what
        assert error.where.endswith(f"--set {written}")


def test_the_digest_is_of_what_is_asked_not_of_how_it_is_written() -> None:
    parts = GOOD.split("\n[")
    other = "\n[".join([parts[0], *reversed(parts[1:])])
    assert other != GOOD
    same = study.read(other, "t.toml")
    good = study.read(GOOD, "s.toml")
    assert study.digest(same) == study.digest(good)
    assert study.digest(study.read(GOOD, "s.toml", ["design.seed=2"])) != study.digest(good)


def test_a_table_called_after_a_kind_is_of_that_kind_unless_it_names_another() -> None:
    text = GOOD.replace("[environments.slow]\nkind", "[environments.mock]\nspeed = 0.9\n[environments.host]\nkind")
    text = text.replace('"slow"', '"mock", "host"', 1).replace('environment = "slow"', 'environment = "host"')
    read = study.read(text, "s.toml")
    assert (read.environment("mock").kind, read.environment("mock").options) == ("mock", {"speed": 0.9})
    assert (read.environment("host").kind, read.environment("host").options) == ("mock", {"speed": 0.5})
    set_by_hand = study.read(GOOD, "s.toml", ["environments.mock.speed=0.7"])
    assert set_by_hand.environment("mock").options == {"speed": 0.7}


@pytest.mark.parametrize(
    ("levels", "more", "clients"),
    [
        ("['mock']", "", "mock"),
        ("['slow']", "[environments.slow]\nkind = 'mock'", "mock"),
        ("['mock']", "[clients]\ncount = 2", "mock"),
        ("['host']", "", "host"),
        ("['mock']", "[clients]\nenvironment = 'other'\n[environments.other]\nkind = 'mock'", "other"),
    ],
)
def test_clients_are_pretended_where_every_machine_under_test_is(levels: str, more: str, clients: str) -> None:
    workload = "[[workloads]]\nname = 'w'\nkind = 'http'\n"
    read = study.read(f"name = 'x'\n[factors]\nenvironment = {levels}\n{more}\n{workload}", "x.toml")
    assert read.clients.environment == clients


@pytest.mark.parametrize(
    ("levels", "more", "line", "named"),
    [
        ("['mock', 'host']", "", 3, ("'mock'", "'host'")),
        ("['host', 'slow']", "[environments.slow]\nkind = 'mock'", 3, ("'slow'", "'host'")),
        ("['host']", "[clients]\nenvironment = 'mock'", 5, ("'mock'", "'host'")),
        ("['mock']", "[clients]\nenvironment = 'host'", 5, ("'mock'", "'host'")),
        ("['mock']", "[factors.at]\nlevels = ['mock', 'host']\nsets = 'clients.environment'", 1, ()),
    ],
)
def test_pretended_machines_are_not_put_beside_real_ones(
    levels: str, more: str, line: int, named: tuple[str, ...]
) -> None:
    workload = "[[workloads]]\nname = 'w'\nkind = 'http'\n"
    error = refused(f"name = 'x'\n[factors]\nenvironment = {levels}\n{more}\n{workload}")
    assert f":{line}" in error.where and "pretended machine (mock)" in error.what
    assert all(name in error.what for name in named)


def test_what_a_factor_sets_in_every_treatment_is_not_set_beside_it() -> None:
    text = GOOD.replace("workers = [1, 4]", "workers = [1, 4]\nvcpus = [1, 2]")
    assert text != GOOD and study.read(text, "s.toml")
    with pytest.raises(errors.BadInput, match="the factor `vcpus` sets") as told:
        study.read(text, "s.toml", ["machine.vcpus=2"])
    assert told.value.where == "s.toml, --set machine.vcpus=2"
    nested = text.replace("vcpus = [1, 2]", "vcpus = { levels = [1, 2], when = { workers = 4 } }")
    assert study.read(nested, "s.toml", ["machine.vcpus=2"]).machine.vcpus == 2


def test_a_level_that_switches_an_observer_on_leaves_its_settings_to_be_set() -> None:
    source = studies.text("probe-cost")
    read = study.read(source, "p.toml", ['observe.usage="100ms"', 'observe.capture={ ring = true, limit = "1GiB" }'])
    assert read.observe.chosen["usage"] == 0.1


def test_levels_of_an_observer_are_the_same_by_what_the_study_says_of_it() -> None:
    text = GOOD.replace("workers = [1, 4]", 'workers = [1, 4]\nusage = [false, true, "1s"]')
    assert text != GOOD
    said = text.replace("[observe]", '[observe]\nusage = "100ms"')
    assert study.read(said, "s.toml").factors["usage"].levels == (False, True, "1s")
    with pytest.raises(errors.BadInput, match="the levels true and '100ms' of `usage` are the same"):
        study.read(said.replace('"1s"]', '"100ms"]'), "s.toml")
