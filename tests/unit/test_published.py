"""What was published: complete, as printed, and with the relations that the sources' own texts state."""

import statistics
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from nearmetal import studies
from nearmetal.model import Level
from nearmetal.studies.published.figures import PublishedStudy, find_published

ENVIRONMENTS = ("physical", "e1000", "virtio", "containers")


def found(name: str) -> PublishedStudy:
    one = find_published(name)
    assert one is not None
    return one


def printed(name: str, table: str, **levels: Level) -> tuple[float, ...]:
    figure = found(name).find_table(table).find_figure(**levels)
    assert figure is not None, levels
    return figure.values


FOLDERS = sorted(path.parent.name for path in Path(studies.__file__).parent.glob("*/published.toml"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_read_and_says_where_it_is_from(folder: str) -> None:
    name = folder.replace("_", "-")
    assert studies.find_folder(name) == folder
    one = found(name)
    assert one.source.title and one.source.authors and one.source.date
    assert one.tables or one.statements
    for table in one.tables:
        cells = [tuple(sorted((key, str(level)) for key, level in figure.at.items())) for figure in table.figures]
        assert len(cells) == len(set(cells)), table.name


def test_studies_of_a_folder_replicate_the_same() -> None:
    assert len(FOLDERS) == 4
    both = [find_published(name) for name in ("virtual-vs-physical", "virtual-servers")]
    assert both[0] is both[1] is not None


def test_nothing_was_published_under_a_name_of_ones_own() -> None:
    assert find_published("quickstart") is None
    assert find_published("../shared-network") is None


def test_a_unit_or_an_environment_without_a_word_about_it_is_refused() -> None:
    raw = tomllib.loads(studies.read_published("shared_network"))
    without = {name: unit for name, unit in raw["units"].items() if name != "%"}
    with pytest.raises(ValidationError, match="no word about the unit '%'"):
        PublishedStudy.model_validate({**raw, "units": without})
    with pytest.raises(ValidationError, match="no word about the environment 'bare metal'"):
        PublishedStudy.model_validate({**raw, "environments": {}})
    backwards = [{**raw["statements"][0], "low": 801}]
    with pytest.raises(ValidationError, match="is no range"):
        PublishedStudy.model_validate({**raw, "statements": backwards})


# ── Virtually the same? ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_environment_offload_and_number_of_workers_has_a_count_in_both_tables() -> None:
    for table in ("one-host", "several-hosts"):
        cells = found("virtual-vs-physical").find_table(table).figures
        levels = {(cell.at["environment"], cell.at["offloading"], cell.at["workers"]) for cell in cells}
        assert levels == {(e, o, w) for e in ENVIRONMENTS for o in (True, False) for w in (1, 4, 16)}
        assert all(cell.spread is not None and len(cell.values) == 1 for cell in cells)


def test_the_counts_look_like_a_full_link_but_for_e1000_without_offloading() -> None:
    for table in ("one-host", "several-hosts"):
        for figure in found("virtual-vs-physical").find_table(table).figures:
            slow = figure.at["environment"] == "e1000" and not figure.at["offloading"]
            assert (figure.mean < 550) == slow
            assert slow or 879 <= figure.mean <= 934


def test_a_level_is_found_with_its_type_only() -> None:
    table = found("virtual-vs-physical").find_table("one-host")
    assert table.find_figure(environment="e1000", offloading=False, workers=16) is not None
    assert table.find_figure(environment="e1000", offloading=0, workers=16) is None
    assert table.find_figure(environment="e1000", offloading=False) is None


def test_oddities_that_are_told_of_the_counts_are_there() -> None:
    name = "virtual-vs-physical"
    both = [
        [figure for figure in found(name).find_table(table).figures if figure.at["environment"] == "physical"]
        for table in ("one-host", "several-hosts")
    ]
    assert both[0] == both[1]
    on, off = (
        printed(name, "one-host", environment="physical", offloading=offloading, workers=1)
        for offloading in (True, False)
    )
    assert on < off
    for table in ("one-host", "several-hosts"):
        few, some, many = (
            printed(name, table, environment="e1000", offloading=False, workers=workers) for workers in (1, 4, 16)
        )
        assert few < many < some
    below = {
        (table, *figure.at.values())
        for table in ("one-host", "several-hosts")
        for figure in found(name).find_table(table).figures
        if figure.mean < printed(name, table, **{**figure.at, "environment": "physical"})[0]
        and (figure.at["environment"] != "e1000" or figure.at["offloading"])
    }
    assert below == {("several-hosts", "e1000", True, 16)}


# ── A shared network ──────────────────────────────────────────────────────────────────────────────────────────────


def each(table: str, clients: int) -> float:
    """The mean of what one client has, in the SI unit."""
    one = found("shared-network")
    figure = one.find_table(table).find_figure(environment="bare metal", clients=clients)
    assert figure is not None
    assert len(figure.values) == 10
    return sum(one.convert_to_si(one.find_table(table), figure)) / 10


def test_clients_add_up_to_what_is_told() -> None:
    together = {clients: clients * each("bandwidth", clients) / 1e6 for clients in range(1, 6)}
    assert together[1] == pytest.approx(937, abs=1)
    assert together[2] == pytest.approx(944, abs=1)
    assert together[3] == pytest.approx(919, abs=1)
    assert together[4] == pytest.approx(944, abs=1)
    assert together[5] == pytest.approx(616, abs=1)


def test_transfer_in_powers_of_two_tells_what_bandwidth_tells() -> None:
    for clients in range(1, 6):
        assert each("transfer", clients) * 8 / 10 == pytest.approx(each("bandwidth", clients), rel=0.01)
    table = found("shared-network").find_table("transfer")
    assert [figure.unit for figure in table.figures] == ["Gigabytes", None, None, None, None]


def test_the_tenth_value_of_two_clients_is_the_lowest_and_of_four_the_highest() -> None:
    two = printed("shared-network", "bandwidth", environment="bare metal", clients=2)
    four = printed("shared-network", "bandwidth", environment="bare metal", clients=4)
    assert two[9] < min(two[:9]) and four[9] > max(four[:9])


def test_the_figures_of_the_text_are_there() -> None:
    told = {
        (statement.what.split(",")[0], statement.at.get("environment"), statement.at.get("clients")): statement
        for statement in found("shared-network").statements
        if statement.kind == "result"
    }
    ranges = {key: (one.low, one.high) for key, one in told.items()}
    assert ranges == {
        ("request rate that was answered without extra load", "bare metal", 1): (800, 800),
        ("saturation of the heavy page", "bare metal", 1): (17, 20),
        ("saturation of the heavy page", "bare metal", 2): (8, 10),
        ("datagram loss", "VMware", None): (80, 80),
    }


@pytest.mark.parametrize("name", ["virtual-vs-physical", "shared-network"])
def test_what_is_replicated_has_a_study_of_that_name(name: str) -> None:
    assert name in studies.list_names()


# ── System against operating system ───────────────────────────────────────────────────────────────────────────────


def test_the_tables_follow_from_all_five_values_of_the_appendix() -> None:
    one = found("system-vs-os")
    compared = 0
    for test in ("cpu", "read", "written", "latency"):
        for figure in one.find_table(test).figures:
            assert len(figure.values) == 5
            expected = {
                "Min": min(figure.values),
                "Max": max(figure.values),
                "Avg": statistics.fmean(figure.values),
                "StdDev": statistics.pstdev(figure.values),
            }
            for statistic, value in expected.items():
                told = printed("system-vs-os", "summary", **figure.at, test=test, statistic=statistic)[0]
                # They cut as often as they round, to as few as two digits.
                assert told == pytest.approx(value, rel=0.01, abs=0.0101), (figure.at, statistic)
                compared += 1
    assert compared == 7 * 4 * 4


def test_the_spread_is_the_population_s() -> None:
    figure = found("system-vs-os").find_table("cpu").find_figure(environment="Docker", memory="2G", cpus=2)
    assert figure is not None
    told = printed("system-vs-os", "summary", **figure.at, test="cpu", statistic="StdDev")[0]
    assert told == pytest.approx(statistics.pstdev(figure.values), rel=0.001)
    assert told < 0.95 * statistics.stdev(figure.values)


def test_reads_fell_under_whpx() -> None:
    by = {
        accelerator: printed(
            "system-vs-os",
            "summary",
            environment="QEMU",
            accelerator=accelerator,
            memory="2G",
            cpus=2,
            test="read",
            statistic="Avg",
        )[0]
        for accelerator in ("tcg", "whpx")
    }
    assert by == {"tcg": 6.37, "whpx": 4.47}


# ── CPU isolation ─────────────────────────────────────────────────────────────────────────────────────────────────


def output(isolation: str, heading: int, run: int = 1) -> dict[str, float]:
    """One output of httperf: what it says to the figure."""
    return {
        str(figure.at["what"]): figure.values[0]
        for figure in found("cpu-isolation").find_table("httperf").figures
        if (figure.at["isolation"], figure.at["heading"], figure.at["run"]) == (isolation, heading, run)
    }


def test_the_isolated_output_of_500_connections_repeats_the_other() -> None:
    first = output("none", 500)
    assert first == output("kernel+user", 500)
    assert (first["connection time avg"], first["connection time max"]) == (3.9, 1314.4)
    assert first != output("none", 500, run=2)


@pytest.mark.parametrize("isolation", ["none", "kernel+user"])
def test_the_outputs_of_100_connections_count_500_replies_and_have_no_totals(isolation: str) -> None:
    one = output(isolation, 100)
    assert one["reply status 2xx"] == 500
    assert "connections" not in one
    assert output(isolation, 500)["connections"] == 500
    assert one["reply size total"] == one["reply size header"] + one["reply size content"] + one["reply size footer"]


def test_an_even_reply_rate_stands_without_isolation_too() -> None:
    assert output("none", 500)["reply rate stddev"] == 0.0
    assert output("kernel+user", 100)["connection time max"] > output("none", 100)["connection time max"]
