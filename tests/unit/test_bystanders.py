from nearmetal.lab.cpus.free_cpus import NAMED, find_bystanders
from nearmetal.shortened_list import shorten_list


def listed(**named: str) -> dict[str, object]:
    return {"movable": {key.replace("_", ":"): {"name": name, "cpus": "1"} for key, name in named.items()}}


def test_programs_are_named_before_the_many_interrupt_lines_of_a_large_host() -> None:
    lines = {f"irq_{number}": f"PCI-MSIX queue {number:02}" for number in range(40)}
    names = find_bystanders(listed(**lines, irq_default="interrupts to come", task_7="sleep", task_8="sleep"))
    assert names[:3] == ["interrupts to come", "sleep", "PCI-MSIX queue 00"]
    assert shorten_list(names, NAMED).endswith("queue 07, and 32 more")


def test_a_line_that_is_served_elsewhere_is_in_nobodys_way() -> None:
    assert find_bystanders(listed(irq_0="timer") | {"elsewhere": ["irq:0"]}) == []
