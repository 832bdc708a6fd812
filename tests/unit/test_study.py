"""Reading a study: what it becomes, and what each mistake is answered with."""

import difflib
from unittest.mock import Mock

import pytest

from nearmetal.errors import BadInput
from nearmetal.planning.plan import digest_study
from nearmetal.study import study_file
from nearmetal.study.key_paths import cut_text
from tests.unit.study_text import GOOD, refused


def test_what_is_written_and_what_is_not() -> None:
    read = study_file.read(GOOD, "s.toml")
    assert (read.machine.vcpus, read.machine.memory, read.link.rate) == (2, 512 * 2**20, 10**9)
    assert (read.design.margin, read.design.crossing, read.design.repeats) == (0.02, "full", 1)
    assert read.observe.capture is not None
    assert read.observe.capture.snap == 96
    assert read.environment("slow").options == {"speed": 0.5}
    assert read.environment("mock").kind == "mock"


THIRD = '[[workloads]]\nname = "third"\nkind = "ping"\nunder = "more"\n'
MORE = '[[workloads]]\nname = "more"\n'

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
    ("blocks = 6", 'blocks = "8"', "blocks", 'a whole number, "auto", or as in blocks = { min = 8, max = 40 }'),
    ("blocks = 6", "blocks = [8, 40]", "blocks", 'a whole number, "auto", or as in blocks = { min = 8, max = 40 }'),
    ("blocks = 6", 'blocks = "auto"', "blocks", 'blocks = "auto" has no aim'),
    ("blocks = 6", 'blocks = 6\ndetect = "5%"\nprecision = "2%"', "precision", "two aims for one number of blocks"),
    ("blocks = 6", 'blocks = 6\ndetect = "1%"', "detect", "a difference of 1 % lies within the margin of 2 %"),
    ("blocks = 6", "blocks = 6\npower = 1.0", "power", "`design.power` cannot be 1.0"),
    ("blocks = 6", "blocks = { min = 0, max = 7 }", "blocks", "`design.blocks.min` cannot be 0"),
    ("blocks = 6", "blocks = 0", "blocks = 0", "it must be at least 1"),
    ("blocks = 6", "blocks = -1", "blocks = -1", "it must be at least 1"),
    ("blocks = 6", 'blocks = "6"', "blocks", "`design.blocks` cannot be '6'"),
    ("blocks = 6", "blocks = true", "blocks", "`design.blocks` cannot be true"),
    ("blocks = 6", "blocks = 2.0", "blocks", "`design.blocks` cannot be 2.0"),
    ("blocks = 6", "blocks = 1000000000", "blocks =", "more than 1,000,000 trials"),
    ("seed = 1", "repeats = 1000000000", "[factors]|[design]", "more than 1,000,000 trials"),
    ("seed = 1", "repeats = 0", "repeats", "at least 1"),
    ("seed = 1", "seed = 1.5", "seed", "it must be a whole number"),
    ("seed = 1", 'provision = "none"', "provision", "one of 'boot', 'restart'"),
    ("seed = 1", 'share_boot = "yes"', "share_boot", "true or false"),
    ("alpha = 0.05", "alpha = 2", "alpha", "less than 1"),
    ("alpha = 0.05", "alpha = 0", "alpha", "more than 0"),
    ("alpha = 0.05", "alpha = nan", "alpha", "cannot be nan"),
    ("alpha = 0.05", "alpha = inf", "alpha", "write a finite number"),
    ("blocks = 6", "blocks = nan", "blocks", "write a finite number"),
    ("vcpus = 2", 'vcpus = 1\nisolation = "kernel"', "vcpus", "of one CPU none can be kept free, as 'kernel' wants it"),
    ("alpha = 0.05", 'alpha = "5%"', "alpha", "cannot be '5%'"),
    ('margin = "2%"', 'margin = "-1%"', "margin", "'-1%' must not be negative"),
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
    ('environment = ["base", "slow"]', 'environment = "base"', "environment", 'environment = ["base"]'),
    ("[machine]", "[factors.x]\nlevels = 3\n[machine]", "levels = 3", "levels = [3]"),
    ("[machine]", "[factors.x]\nlevels = [[3]]\n[machine]", "levels = [[3]]", 'levels = ["a", "b"]'),
    ("workers = [1, 4]", "workers = []", "workers", "has no levels"),
    ("workers = [1, 4]", "workers = 4", "workers", "must be a list"),
    ("workers = [1, 4]", "workers = [1, [2]]", "workers", "must be a list"),
    ("workers = [1, 4]", "workers = [1, 4, 1]", "workers", "the level 1 twice"),
    ("workers = [1, 4]", "workers = [1, nan]", "workers", "cannot be nan"),
    ("workers = [1, 4]", f"workers = [1, {10**400}]", "workers", "no number of 64 bits"),
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
    ('name = "web"', "", "[[workloads]]", '`name` of the first workload is missing add it: name = "web"'),
    ('kind = "http"', 'kind = "htp"', 'kind = "htp"', "did you mean `http`"),
    ('duration = "1s"', 'duratoin = "1s"', "duratoin", "did you mean `duration`"),
    ('duration = "1s"', "form = 1", "form", "did you mean `from`"),
    ('duration = "1s"', "from_ = 1", "from_", "unknown key `from_`"),
    ('duration = "1s"', "duration = 1", "duration", "1 has no unit"),
    ('duration = "1s"', 'duration = "-1s"', "duration", "'-1s' must not be negative"),
    ('kind = "http"', "kind = 3", "kind", "`kind` of the first workload cannot be 3"),
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
    (
        "[quick.design]\nblocks = 2",
        "[quick]\nblocks = 2",
        "blocks = 2",
        "unknown key `blocks` write it under [quick.design]",
    ),
    ('name = "good"', 'name = "good"\nmargin = "2%"', "margin", "unknown key `margin` write it under [design]"),
    ('name = "good"', 'name = "good"\ncpus = "1"', "cpus", "write it under [machine] or [clients]"),
    ('duration = "1s"', f"paths = {['/'] * 1001}", "paths", "`paths` has 1,001 entries it must have at most 1,000"),
    (
        'kind = "http"\nworkers = "{workers}"\nduration = "1s"\nprimary = "throughput"',
        'kind = "command"\nresponse = "rate"\nargv = []\njson = "{workers}"',
        "argv",
        "`argv` is empty it must have at least 1 entry",
    ),
    ("[design]", f"[hosts.far]\nssh = '{'a' * 301}'\n[design]", "ssh", "a text of at most 300 characters"),
    ("[design]", MORE + 'kind = "ping"\nunder = "wib"\n[design]', "under", "did you mean `web`"),
    ("[design]", MORE + 'kind = "http"\nunder = "web"\n[design]', "under", "each start a server on port 80"),
    ("[design]", MORE + 'kind = "ping"\nunder = "more"\n[design]', "under", "no workload is under itself"),
    ("[design]", MORE + 'kind = "ping"\n' + THIRD + "[design]", "under", "makes no load that goes on"),
    (
        "[design]",
        MORE + 'kind = "httperf"\nrate = "{workers}"\nunder = "web"\n[design]',
        "under",
        "a server on port 80",
    ),
    ("[design]", "[hosts.local]\nssh = 'a'\n[design]", "[hosts.local]", "this host itself"),
    ("[design]", "[hosts.far]\nssh = '-oProxyCommand=x'\n[design]", "ssh", 'such as "user@10.0.0.2"'),
    ("[design]", "[hosts.far]\nssh = 'a b'\n[design]", "ssh", "where an SSH server answers"),
    ("[design]", "[hosts.far]\nssh = 'root@'\n[design]", "ssh", "where an SSH server answers"),
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


def test_all_mistakes_of_one_kind_are_told_at_once_in_the_order_of_lines() -> None:
    text = GOOD.replace("vcpus = 2", 'vcpus = "two"\nmemroy = 1').replace("margin =", "magrin =")
    text = text.replace("question =", "qestion =")
    told = [str(one).splitlines()[0] for one in split(refused(text))]
    assert told == [
        "s.toml:2: unknown key `qestion`",
        "s.toml:21: `machine.vcpus` cannot be 'two'",
        "s.toml:22: unknown key `machine.memroy`",
        "s.toml:43: unknown key `design.magrin`",
    ]
    assert str(refused(text)).count("\n  remedy: ") == len(told)


def test_a_key_that_is_missing_and_misspelt_is_one_mistake() -> None:
    text = GOOD.replace("blocks = 6", "blocks = { min = 8, maxx = 40 }")
    assert [one.what for one in split(refused(text))] == ["unknown key `design.blocks.maxx`"]


def test_each_workload_and_environment_is_told_of() -> None:
    text = GOOD.replace('duration = "1s"', 'durtion = 1\nwrkers = 2\n[[workloads]]\nname = "b"\nkind = "http"\nrat = 1')
    told = [one.what for one in split(refused(text))]
    assert told == [f"unknown key `{key}` in a workload of kind http" for key in ("durtion", "wrkers", "rat")]
    text = GOOD.replace("speed = 0.5", "spede = 1").replace('kind = "mock"', 'kind = "mok"', 1)
    assert [one.remedy for one in split(refused(text))] == ["did you mean `mock`?", "did you mean `speed`?"]


def test_of_very_many_mistakes_the_first_are_told() -> None:
    text = GOOD.replace("vcpus = 2", "\n".join(f"x{number} = 1" for number in range(100)))
    told = split(refused(text))
    assert len(told) == 21 and told[0].what == "unknown key `machine.x0`" and told[-1].what == "and more mistakes"


@pytest.mark.parametrize("place", ["vcpus = 2", 'duration = "1s"', 'name = "'])
def test_only_mistakes_that_are_told_take_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a machine, of a workload, of the study itself."""
    compared = Mock(wraps=difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", compared)
    refused(GOOD.replace(place, "".join(f"x{number} = 1\n" for number in range(1000)) + place, 1))
    assert 20 <= compared.call_count <= 21


def split(error: BadInput) -> list[BadInput]:
    return [error, *error.others]


def test_an_empty_file_is_told_all_that_a_study_has_to_have() -> None:
    told = [one.what for one in split(refused(""))]
    assert told == ["the study has no factor `environment`", "`name` is missing", "`workloads` is missing"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_of_something_else_is_told(number: int) -> None:
    for text in ("", "\x00\x01", "[" * 100_000)[number : number + 1]:
        refused(text)


def test_a_number_too_long_for_python_is_told() -> None:
    refused(GOOD.replace("seed = 1", f"seed = {'9' * 5000}"))
    refused(GOOD.replace("vcpus = 2", f"vcpus = -{'9' * 4000}"))


@pytest.mark.parametrize("number", ["9" * 400, "999999999"])
def test_an_option_is_named_as_it_was_typed(number: str) -> None:
    for typed in (None, {f"design.blocks={number}": f"--blocks {number}"}):
        told = refused(GOOD, overrides=[f"design.blocks={number}"], typed=typed)
        assert told.where.startswith("s.toml, --blocks 999" if typed else "s.toml, --set design.blocks=999")
        assert "--set" not in told.remedy and "9223" not in told.remedy
        assert "1,000,000 trials" in told.remedy + told.what


def test_a_quotation_that_is_cut_is_closed() -> None:
    assert cut_text("'" + 300 * "a" + "'", 100) == "'" + 99 * "a" + "…'"
    assert refused(GOOD.replace('"good"', f'"{"a b" * 100}"')).what.endswith("…'")


def test_nesting_without_end_is_told() -> None:
    deep = ".".join("a" * 3000)
    assert "nested" in refused(GOOD.replace("[quick.design]", f"[machine.{deep}]\nx = 1\n[quick.design]")).what
    assert "nested" in refused(GOOD.replace("seed = 1", f"seed = {'[' * 900}{']' * 900}")).what


def test_a_message_is_short_and_on_one_line() -> None:
    error = refused(GOOD.replace('environment = "mock"', f'connect = "{"x" * 9000}"'))
    assert len(str(error)) < 500


def test_the_digest_is_of_what_is_asked_not_of_how_it_is_written() -> None:
    parts = GOOD.split("\n[")
    other = "\n[".join([parts[0], *reversed(parts[1:])])
    assert other != GOOD
    same = study_file.read(other, "t.toml")
    good = study_file.read(GOOD, "s.toml")
    assert digest_study(same) == digest_study(good)
    assert digest_study(study_file.read(GOOD, "s.toml", ["design.seed=2"])) != digest_study(good)
