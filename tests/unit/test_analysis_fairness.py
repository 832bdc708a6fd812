"""The fairness diff: what differs between environments, and only that."""

from collections.abc import Mapping
from typing import Any

from nearmetal.store.manifest import MachineFacts
from tests.analysis_inputs import manifest, run, whole_run


def facts(**more: Any) -> dict[str, Any]:
    return {
        "schema": "facts.v1",
        "kernel": {"release": "6.1", "boot_id": more.pop("boot_id", "x"), "uptime_seconds": 5.0},
        "processor": {"model": "EPYC", "flags": ["aes", "avx", "sse"], "allowed": "0", "allowed_count": 1},
        "memory": {"total_bytes": 2**30, "available_bytes": 12345},
        "limits": {"resources": {"open_files": {"soft": 1024, "hard": None}}},
        "sysctls": {"net.core.somaxconn": "4096"},
        "interfaces": {"data": {"mac": "02", "mtu": 1500, "up": True, "features": {"rx-gro": "on", "tx-all": "off"}}},
        "hashes": {"/usr/sbin/lighttpd": "ab" * 32, "/usr/bin/php": None},
        **more,
    }


def fairness(*of: tuple[dict[str, Any], dict[str, Any]]) -> dict[tuple[str, str], Mapping[str, str]]:
    machines = tuple(MachineFacts(treatment=treatment, role="server", facts=told) for treatment, told in of)
    analysis = run(manifest().model_copy(update={"fairness": machines}), [])
    return {(row.group, row.fact): row.values for row in analysis.fairness}


HOST, DOCKER = {"environment": "host"}, {"environment": "docker"}
SAME = {("binaries", "the program under test"): {"host": "identical", "docker": "identical"}}


def test_only_what_differs_is_in_the_diff() -> None:
    other = facts(boot_id="y", memory={"total_bytes": 2**30, "available_bytes": 1})
    assert fairness((HOST, facts()), (DOCKER, other)) == SAME


def test_lists_are_told_as_what_they_lack_and_add() -> None:
    other = facts(processor={"model": "TCG", "flags": ["sse", "hypervisor"], "allowed": "3", "allowed_count": 1})
    assert fairness((HOST, facts()), (DOCKER, other)) == {
        ("cpu", "model"): {"host": "EPYC", "docker": "TCG"},
        ("cpu", "flags"): {"host": "aes avx sse", "docker": "lacks aes avx; adds hypervisor"},
        **SAME,
    }


def test_offloads_differ_by_what_is_on_not_by_what_can_be_changed() -> None:
    features = {"rx-gro": "off", "tx-all": "fixed off", "new": "fixed off"}
    rows = fairness((HOST, facts()), (DOCKER, facts(interfaces={"data": {"mtu": 1500, "features": features}})))
    assert rows == {("offloads", "rx-gro"): {"host": "on", "docker": "off"}, **SAME}


def test_limits_sizes_and_what_was_not_told() -> None:
    other = facts(
        memory={"total_bytes": 2**29}, limits={"memory_bytes": 2**29, "resources": {"open_files": {"soft": None}}}
    )
    rows = fairness((HOST, facts()), (DOCKER, other))
    assert rows["memory", "total"] == {"host": "1 GiB", "docker": "512 MiB"}
    assert rows["limits", "memory"] == {"docker": "512 MiB"}
    assert rows["limits", "resources.open_files.soft"] == {"host": "1024", "docker": "unlimited"}


def test_a_setting_of_the_kernel_keeps_its_name() -> None:
    name = "net.ipv4.tcp_limit_output_bytes"
    rows = fairness((HOST, facts(sysctls={name: "1048576"})), (DOCKER, facts(sysctls={name: "4194304"})))
    assert rows["sysctls", name] == {"host": "1048576", "docker": "4194304"}


def kernel(command_line: str) -> dict[str, Any]:
    return facts(kernel={"release": "6.1", "command_line": command_line})


def test_of_a_command_line_only_the_words_that_differ_and_could_matter() -> None:
    rows = fairness(
        (HOST, kernel('BOOT_IMAGE=/boot/v root=UUID=1 ro quiet isolcpus=1 psi=1 dyndbg="a b" -- --token=x nohz=off')),
        (DOCKER, kernel("console=ttyS0 psi=1 nowatchdog nearmetal.hostname=nm-1 nearmetal.data=02:17,10.111.0.3/16")),
    )
    values = {"host": 'dyndbg="a b" isolcpus=1', "docker": "nowatchdog"}
    assert rows == {("kernel", "command_line"): values, **SAME}


def test_how_a_machine_boots_and_what_it_is_called_is_no_difference() -> None:
    first = "root=/dev/vda1 rootflags=x rw psi=1 initrd=a nearmetal.hostname=nm-1 nearmetal.control=52:54 audit=0"
    second = "audit=0 rdinit=/init console=ttyS0 net.ifnames=0 panic=-1 nearmetal.hostname=nm-2 psi=1"
    assert fairness((HOST, kernel(first)), (DOCKER, kernel(second))) == SAME
    guests = [{"environment": "qemu", "workers": workers} for workers in (1, 4)]
    rows = fairness((HOST, kernel("nohz=off")), *zip(guests, map(kernel, (first, second)), strict=True))
    assert rows["kernel", "command_line"] == {"host": "nohz=off", "qemu": "audit=0 psi=1"}


def test_a_kernel_that_adds_no_word_says_so() -> None:
    rows = fairness((HOST, kernel("psi=1")), (DOCKER, kernel("root=/dev/vda1")))
    assert rows["kernel", "command_line"] == {"host": "psi=1", "docker": "none of these"}


def test_folders_of_an_overlay_are_mere_names() -> None:
    def mounted(machine: str, *options: str) -> dict[str, Any]:
        overlay = {"type": "overlay", "source": machine, "options": [f"upperdir=/{machine}/upper", *options]}
        return facts(filesystems={"/": {**overlay, "mounted_at": "/"}})

    assert fairness((HOST, mounted("nm-e756a8-1", "rw")), (DOCKER, mounted("nm-e756a8-2", "rw"))) == SAME
    rows = fairness((HOST, mounted("a", "rw")), (DOCKER, facts(filesystems={"/": {"source": "/dev/vda"}})))
    assert rows["disk", "filesystems./.source"] == {"docker": "/dev/vda"}
    assert rows["disk", "filesystems./.options"] == {"host": "rw"}


def test_another_binary_is_shown_by_its_hash() -> None:
    rows = fairness((HOST, facts()), (DOCKER, facts(hashes={"/usr/sbin/lighttpd": "cd" * 32, "/usr/bin/php": None})))
    assert rows == {("binaries", "/usr/sbin/lighttpd"): {"host": "abababababab", "docker": "cdcdcdcdcdcd"}}


def test_treatments_that_differ_within_an_environment_are_told_apart() -> None:
    rows = fairness(
        (HOST, facts()),
        ({"environment": "qemu", "nic": "e1000"}, facts(network={"driver": "e1000"})),
        ({"environment": "qemu", "nic": "virtio"}, facts(network={"driver": "virtio_net"})),
    )
    assert rows["network", "driver"] == {
        "environment=qemu nic=e1000": "e1000",
        "environment=qemu nic=virtio": "virtio_net",
    }


def test_an_environment_that_is_told_apart_is_so_for_its_clients_too() -> None:
    cards = [{"environment": "docker", "nic": nic} for nic in ("a", "b")]
    machines = tuple(
        MachineFacts(treatment=treatment, role=role, facts=facts(**({"nic": treatment} if role == "server" else {})))
        for treatment in (HOST, *cards)
        for role in ("server", "client")
    )
    rows = run(manifest().model_copy(update={"fairness": machines}), []).fairness
    each = {"host", "environment=docker nic=a", "environment=docker nic=b"}
    assert {row.fact for row in rows if set(row.values) == each} >= {"client: the program under test"}
    assert not [row for row in rows if not set(row.values) <= each]


def test_strange_facts_do_not_break_the_diff() -> None:
    strange = {"schema": "facts.v1", "gpu": {"memory_bytes": None, "cards": []}, "interfaces": {}, "answer": 42}
    rows = fairness((HOST, strange), (DOCKER, facts()))
    assert rows["answer", "answer"] == {"host": "42"}


def test_machines_that_were_emulated_are_named_whatever_was_asked_for() -> None:
    accels = {"host": None, "docker": "tcg"}
    of = manifest()
    records = [
        one.model_copy(update={"readback": {"resources": {"accel": accels[str(one.trial.treatment["environment"])]}}})
        for one in whole_run(of, lambda block, environment, repeat: 1.0 + block)
    ]
    (warning,) = [warning for warning in run(of, records).warnings if warning.code == "emulated"]
    assert warning.text.startswith("docker ran by emulation (tcg)")
    native = [one.model_copy(update={"readback": {"resources": {"accel": "kvm"}}}) for one in records]
    assert "emulated" not in [warning.code for warning in run(of, native).warnings]


def test_clients_that_show_that_they_are_emulated_are_named_where_their_server_is_not() -> None:
    shown = facts() | {"virtualization": {"hypervisor_flag": True, "hypervisor_signature": "TCGTCGTCGTCG"}}
    machines = tuple(
        MachineFacts(treatment=treatment, role=role, facts=of)
        for treatment, server in ((HOST, facts()), (DOCKER, shown))
        for role, of in (("server", server), ("client", shown))
    )
    of = manifest().model_copy(update={"fairness": machines})
    records = whole_run(of, lambda block, environment, repeat: 1.0 + block)
    told = [warning.text for warning in run(of, records).warnings if warning.code == "emulated"]
    assert len(told) == 2
    assert told[0].startswith("docker ran by emulation (tcg)")
    assert told[1].startswith("the clients of host ran by emulation (tcg)")


def test_a_guest_of_somebody_s_that_shows_itself_that_it_is_emulated_is_named_too() -> None:
    shown = {"hypervisor_flag": True, "hypervisor_signature": "TCGTCGTCGTCG"}
    machines = tuple(
        MachineFacts(treatment=treatment, role="server", facts=facts() | {"virtualization": virtual})
        for treatment, virtual in ((HOST, {"hypervisor_flag": False}), (DOCKER, shown))
    )
    of = manifest().model_copy(update={"fairness": machines})
    records = whole_run(of, lambda block, environment, repeat: 1.0 + block)
    (warning,) = [warning for warning in run(of, records).warnings if warning.code == "emulated"]
    assert warning.text.startswith("docker ran by emulation (tcg)")
