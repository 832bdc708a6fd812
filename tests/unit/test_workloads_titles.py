"""How the report calls what our workloads measure, and compares two treatments by it."""

from collections.abc import Mapping

from nearmetal import plugins
from nearmetal.model import ResponseKind
from nearmetal.workloads import ping
from nearmetal.workloads._load import responses as load_responses
from nearmetal.workloads.httperf import responses as httperf_responses
from nearmetal.workloads.iperf3 import responses as iperf3_responses
from nearmetal.workloads.iperf3.parameters import Iperf3Parameters
from nearmetal.workloads.sysbench import output as sysbench_responses
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

KINDS: dict[str, Mapping[str, ResponseKind]] = {
    "http": {**load_responses.RATE, **load_responses.RAMP},
    "httperf": httperf_responses.KINDS,
    "iperf3": iperf3_responses.list_kinds(Iperf3Parameters()),
    "ping": ping.RESPONSES,
    "sysbench": sysbench_responses.list_kinds(SysbenchParameters.model_validate({"test": "cpu"})),
}


def test_a_clause_names_the_ratio_and_what_it_is_compared_with() -> None:
    clauses = [kind.clause for kinds in KINDS.values() for kind in kinds.values() if kind.clause]
    assert len(clauses) >= len(KINDS)
    for clause in clauses:
        told = clause.format(ratio="0.97", reference="host")
        assert "0.97 × " in told
        assert " host" in told


def test_the_response_that_a_verdict_is_about_has_both() -> None:
    parameters: dict[str, dict[str, object]] = {"sysbench": {"test": "cpu"}, "httperf": {"rate": 10}}
    for name in KINDS:
        workload = plugins.load("workloads", name)
        made = workload(workload.Parameters.model_validate(parameters.get(name, {})))
        primary = made.responses[made.primary]
        assert primary.title, name
        assert primary.clause, name


def test_one_response_has_one_title() -> None:
    titles: dict[str, set[str]] = {}
    for kinds in KINDS.values():
        for name, kind in kinds.items():
            titles.setdefault(name, set()).add(kind.title)
    assert all(len(found) == 1 for found in titles.values())
