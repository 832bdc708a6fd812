"""How machines are provisioned, on which hosts they are, and on which CPUs."""

import pytest

from nearmetal.study import study_file
from tests.unit.study_text import GOOD, line, refused


def test_a_provision_that_an_environment_has_not_is_set_for_it_alone() -> None:
    metal = '[environments.metal]\nkind = "host"\nprovision = "reuse"\n[factors]'
    text = GOOD.replace('["base", "slow"]', '["base", "slow", "metal"]').replace("[factors]", metal)
    error = refused(text)
    assert "'metal' cannot be provisioned by 'reuse'" in error.what
    assert error.where == f"s.toml:{line('provision', text)}"
    can = text.replace('kind = "host"\nprovision = "reuse"', 'kind = "mock"\nprovision = "boot"')
    read = study_file.read(can, "s.toml")
    assert read.provision_of(read.environment("metal")) == "boot"


def test_the_design_does_not_weaken_an_environment_silently() -> None:
    text = GOOD.replace("seed = 1", 'seed = 1\nprovision = "restart"')
    error = refused(text)
    assert "weaker than 'boot'" in error.what
    assert error.where == f"s.toml:{line('provision', text)}"
    meant = text.replace("[environments.slow]", '[environments.slow]\nprovision = "restart"').replace(
        "[environments.base]", '[environments.base]\nprovision = "reuse"'
    )
    read = study_file.read(meant, "s.toml")
    assert read.provision_of(read.environment("base")) == "reuse"


def test_machines_are_placed_on_hosts_that_are_declared() -> None:
    text = GOOD.replace("[machine]", '[hosts.far]\nssh = "root@10.0.0.2"\n[machine]\nhost = "far"')
    assert study_file.read(text, "s.toml").machine.host == "far"
    assert "no host" in refused(text.replace('host = "far"', 'host = "fra"')).what
    factor = text.replace("[factors]", '[factors]\nhost = ["local", "far"]')
    assert study_file.read(factor, "s.toml").factors["host"].levels == ("local", "far")


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
    assert study_file.read(text.replace("vcpus = 1", "vcpus = 2"), "s.toml").machine.cpus == "0-1"
    guests = text.replace(f'["qemu", "{kind}"]', '["qemu"]')
    assert study_file.read(guests, "s.toml").machine.vcpus == 1
    varied = text.replace("vcpus = 1", "").replace("[factors]", "[factors]\nvcpus = [2, 1]")
    assert refused(varied).what == error.what
    assert refused(varied).where == f"s.toml:{line('vcpus = ', varied)}"


def test_clients_are_the_same_only_where_a_second_can_be_made() -> None:
    same = GOOD.replace('[clients]\nenvironment = "mock"', '[clients]\nenvironment = "same"')
    assert study_file.read(same, "s.toml").clients.environment == "same"
    metal = '[environments.metal]\nkind = "ssh"\naddress = "lab3"\nprovision = "reuse"\n[factors]'
    text = same.replace('["base", "slow"]', '["metal"]').replace("[factors]", metal)
    text = text.replace('reference = { environment = "base", workers = 1 }\n', "").replace(
        'when = { environment = "slow" }', 'sets = "clients.nic"'
    )
    written = 'environment = "same"'
    error = refused(text)
    assert "clients cannot be what 'metal' is" in error.what
    assert error.where == f"s.toml:{line(written, text)}"
    assert 'set clients.environment to "host"' in error.remedy


def test_same_is_no_environments_name() -> None:
    text = GOOD.replace("[environments.slow]", "[environments.same]").replace('"slow"', '"same"')
    assert "'same' cannot name an environment" in refused(text).what


def test_clients_get_as_many_cpus_as_are_named_for_them() -> None:
    text = GOOD.replace('[clients]\nenvironment = "mock"', '[clients]\nenvironment = "same"\nvcpus = 2\ncpus = "0"')
    error = refused(text)
    assert error.what == "`clients.cpus` names 1 CPUs for clients that are to have 2 each"
    assert error.where == f"s.toml:{line('cpus = ', text.replace('vcpus', 'VCPUS'))}"
    study_file.read(text.replace('cpus = "0"', 'cpus = "0-1"'), "s.toml")


def test_a_clients_network_card_is_one_that_boots() -> None:
    text = GOOD.replace('[clients]\nenvironment = "mock"', '[clients]\nenvironment = "same"\nnic = "virtio"')
    assert "cannot be a machine's nic" in refused(text).what
