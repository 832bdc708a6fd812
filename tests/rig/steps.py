"""What is tried in the machine, a function a step, in their order. StepFailed says what came out otherwise."""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.lab import container_privileges, image

from . import unusual_hosts
from .in_machine import (
    LONG,
    PROGRAM,
    RUNS,
    choose_levels,
    describe_monitors,
    execute,
    measure,
    parse_document,
    read_records,
    require_all_ok,
)
from .ordinary import PAYLOAD, Ordinary, StepFailed, run

ROOT = Path(__file__).parents[2]
_TESTED_WITH = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "cryptography")
_IMPORTED = tuple(name.replace("-", "_") for name in _TESTED_WITH)
"""What the tests import that are taken there; no browser, no type checker."""
STATE = (
    "ip -o link | cut -d: -f2 | sort; ip netns list; cut -d' ' -f2 /proc/mounts | sort; "
    "find /sys/fs/cgroup -maxdepth 1 -name '*nearmetal*' -o -maxdepth 1 -name 'engine-*'; "
    "pgrep -a qemu-system; pgrep -a nearmetal; docker ps -aq; sysctl -n net.ipv4.ip_forward"
)
"""A command that prints what nearmetal might leave on a host."""
PLACES = (
    "grep -hs Cpus_allowed_list /proc/[0-9]*/task/*/status | sort -u; "
    "cat /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask /sys/fs/cgroup/cgroup.subtree_control; "
    "sysctl kernel.sched_rt_runtime_us kernel.timer_migration vm.stat_interval"
)
"""A command that prints where programs may run, and what an isolation changes."""


def send(machine: Ordinary, python: Path) -> str:
    """The wheel with its dependencies, the tests, and the lab image of this host, to where the machine reads them."""
    wheels = machine.payload / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    built = machine.folder / "wheel"
    shutil.rmtree(built, ignore_errors=True)
    build = (str(python), "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT))
    subprocess.run(build, check=True, env={**os.environ, **_name_probe(machine)})
    (wheel,) = built.glob("*.whl")
    there = {"bookworm": "3.11", "trixie": "3.13"}[machine.suite]
    platforms = (f"{one}_{machine.processor.machine}" for one in ("manylinux_2_28", "manylinux2014", "manylinux_2_17"))
    only = ["--only-binary=:all:", "--python-version", there, *(f"--platform={one}" for one in platforms)]
    pip = (str(python), "-m", "pip", "download", "-q", "--disable-pip-version-check", *only, "-d", str(wheels))
    run(*pip, f"--find-links={built}", str(wheel), *_TESTED_WITH)
    packed = machine.payload / "tests.tar"
    files = subprocess.run(
        ["git", "ls-files", "-z", "tests", "pyproject.toml"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    with tarfile.open(packed, "w") as archive:
        for name in filter(None, files.split("\0")):
            archive.add(ROOT / name, name)
    made = f"{describe_commit()}, {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB"
    lab = "an image built there" if machine.is_foreign else f"image {_send_image(machine)}"
    return f"{made}; {len(list(wheels.iterdir()))} wheels; {lab}"


def _name_probe(machine: Ordinary) -> Mapping[str, str]:
    """The variable by which a wheel has the probe for a processor that is not this host's."""
    if not machine.is_foreign:
        return {}
    probe = ROOT / f"target/{machine.processor.machine}-unknown-linux-gnu/release/nearmetal-probe"
    if not probe.exists():
        raise StepFailed(f"there is no probe for it: make wheel-{machine.processor.machine}")
    return {"NEARMETAL_PROBE": str(probe)}


def _send_image(machine: Ordinary) -> str:
    """The key of this host's lab image, which lies in the payload then."""
    lab = next((one for one in image.ls(Paths.default().cache) if one.name == "lab"), None)
    if lab is None:
        raise StepFailed("there is no lab image here: make image")
    images = machine.payload / "image.tar"
    if not images.exists() or (machine.payload / "image.key").read_text() != lab.key:
        # 1: something changed as it was read, as an image's folder does when a machine of this host is made of it.
        pack = 'tar -C "$0" --numeric-owner -cf "$1" "$2" || [ $? = 1 ]'
        run("sh", "-c", pack, str(lab.folder.parent), str(images), lab.folder.name)
        (machine.payload / "image.key").write_text(lab.key)
    return lab.key


def install(machine: Ordinary) -> str:
    """As a user does who has a wheel and no network; without what draws."""
    script = f"""set -e
mountpoint -q {PAYLOAD} || mount {PAYLOAD}
[ -x /opt/nearmetal/bin/pip ] || python3 -m venv /opt/nearmetal
pip="/opt/nearmetal/bin/pip install -q --no-compile --no-index --find-links {PAYLOAD}/wheels"
$pip --no-deps --force-reinstall nearmetal; $pip nearmetal
mkdir -p /var/cache/nearmetal/images {RUNS}
if [ -e {PAYLOAD}/image.tar ] && ! cmp -s {PAYLOAD}/image.key /var/cache/nearmetal/images/.rig; then
    tar -C /var/cache/nearmetal/images --numeric-owner -b 512 -xf {PAYLOAD}/image.tar
    cp {PAYLOAD}/image.key /var/cache/nearmetal/images/.rig
fi
cd {RUNS}; {PROGRAM} --version; du -sm /opt/nearmetal"""
    installed = execute(machine, script, LONG)
    return f"{installed}\n{_build_image(machine)}" if machine.is_foreign else installed


def _build_image(machine: Ordinary) -> str:
    """The lab image of a machine whose processor this host does not have: it fetches the packages itself."""
    build = f"echo nameserver 10.0.2.3 >/etc/resolv.conf; time {PROGRAM} image build"
    return _last(execute(machine, build, 2 * LONG))


def examine(machine: Ordinary) -> str:
    """`doctor` finds all that a study of host, docker and qemu needs, and that guests boot by KVM."""
    ended = machine.exec(f"{PROGRAM} doctor host docker qemu --json 2>/dev/null", LONG)
    found = parse_document(ended.text)
    findings = {one["what"]: one for one in found["findings"]}
    environments = (f"environment {name}: a machine that runs a command" for name in ("host", "docker"))
    named = ["accelerator kvm", "accelerator tcg", *environments]
    bad = [f"{name}: {findings.get(name)}" for name in named if not findings.get(name, {}).get("ok")]
    if bad or not found["able"]:
        raise StepFailed("\n".join([*bad, ended.text]))
    return "\n".join(
        f"{'ok' if one['ok'] else '--'}  {one['what']}: {one['detail']}".rstrip(": ") for one in found["findings"]
    )


def measure_by_kvm(machine: Ordinary) -> str:
    """The study quickstart on the host, in their Docker engine and in a KVM guest."""
    said = measure(machine, "kvm", 12, "--blocks 2 --set machine.accel=kvm --set machine.share=/usr/share:/mnt")
    return f"{describe_monitors(read_records(machine, 'kvm'))}\n{said}"


def restore_by_kvm(machine: Ordinary) -> str:
    """The study quickstart on the host and in a KVM guest that is restored from a snapshot."""
    restored = """--set 'environments.qemu={kind="qemu", provision="restore"}'"""
    said = measure(machine, "restored", 4, f"--blocks 1 --set machine.accel=kvm {restored} {choose_levels('qemu')}")
    return f"{describe_monitors(read_records(machine, 'restored'))}\n{said}"


def measure_in_docker(machine: Ordinary) -> str:
    """The study quickstart on the host and in their Docker engine, whose groups systemd makes."""
    said = measure(machine, "docker", 4, f"--blocks 1 {choose_levels('docker')}")
    return f"{execute(machine, 'docker info 2>/dev/null | grep -i cgroup')}\n{said}"


def measure_from_a_container(machine: Ordinary) -> str:
    """The study quickstart from a container: on the host, in their Docker engine and in a KVM guest; nothing is left.

    Its image has the machine's own programs, where the Containerfile's has Debian's: no package index is reached here.
    """
    picture = f"""set -e
rm -rf /tmp/picture; mkdir -p /tmp/picture/tmp /tmp/picture/root /tmp/picture/run /tmp/picture/var/tmp
cp -a /bin /sbin /lib /lib64 /etc /tmp/picture
given="ENV container=oci PATH=/usr/sbin:/usr/bin"
tar -C /tmp/picture -cf - . | docker import --change "$given" - contained
rm -rf /tmp/picture {RUNS}/contained"""
    execute(machine, picture, LONG)
    places = ("/usr:/usr:ro", "/opt:/opt:ro", "/var/run/docker.sock:/var/run/docker.sock")
    kept = (f"{one}:{one}" for one in ("/var/cache/nearmetal", "/var/lib/nearmetal", RUNS))
    volumes = " ".join(f"-v {one}" for one in (*places, *kept))
    within = f"docker run --rm {' '.join(container_privileges.FLAGS)} {volumes} -w {RUNS} contained {PROGRAM}"
    execute(machine, f"{within} --version", LONG)  # with the first container in the host's network Docker mounts that
    before = execute(machine, STATE)
    kvm = f"--set machine.accel=kvm {choose_levels('docker', 'qemu')}"
    ended = machine.exec(f"{within} run quickstart --blocks 1 {kvm} -o contained", LONG)
    records = read_records(machine, "contained")
    try:
        require_all_ok(records, 6)
    except StepFailed as failed:
        raise StepFailed(f"{failed}\n{ended.text}") from None
    if (after := execute(machine, STATE)) != before:
        raise StepFailed(f"{ended.text}\nbefore:\n{before}\nafter:\n{after}")
    return f"{describe_monitors(records)}\n{ended.text.strip()}\nthe host is as it was"


def measure_by_tcg(machine: Ordinary) -> str:
    """The study quickstart on the host and in a guest that is emulated twice."""
    return measure(machine, "tcg", 4, f"--blocks 1 --set machine.accel=tcg {choose_levels('qemu')}")


def measure_in_podman(machine: Ordinary) -> str:
    """The study quickstart on the host and in a container of Podman's service, which systemd starts."""
    execute(machine, "systemctl start podman.socket")
    return measure(machine, "podman", 4, f"--blocks 1 {choose_levels('podman')}")


def measure_by_libvirt(machine: Ordinary) -> str:
    """The study quickstart on the host and in a KVM guest of the libvirtd that systemd runs."""
    said = measure(machine, "libvirt", 4, f"--blocks 1 --set machine.accel=kvm {choose_levels('libvirt')}")
    return f"{execute(machine, 'virsh version --daemon')}\n{said}"


def measure_their_domain(machine: Ordinary) -> str:
    """A domain that is a user's, by KVM, at a libvirtd of the tests' own: measured, and shut down after a kill."""
    tests = "tests/live/test_existing_domain.py -k 'a_study_starts or killed_in_the_middle'"
    return _test(machine, tests, "NEARMETAL_TEST_ACCEL=kvm")


def measure_without_root(machine: Ordinary) -> str:
    """The study quickstart on the host, in Podman and in a KVM guest, by an ordinary user; nothing is left."""
    prepare = f"""set -e
id laptop >/dev/null 2>&1 || useradd --create-home --shell /bin/sh --groups kvm laptop
grep '^laptop:' /etc/subuid /etc/subgid; command -v newuidmap
mkdir -p {RUNS}; ln -sfn /home/laptop/rootless {RUNS}/rootless
runuser -l laptop <<'END'
mkdir -p .cache/nearmetal/images; cd .cache/nearmetal/images
exec /opt/nearmetal/bin/python - <<'CODE'
import os
from nearmetal.system import user_namespace
user_namespace.enter()
# Only root of the host makes devices, and a machine has its own.
os.execlp("tar", "tar", "--numeric-owner", "--exclude=*/root/dev/*", "-b", "512", "-xf", "{PAYLOAD}/image.tar")
CODE
END"""
    execute(machine, prepare, LONG)
    before = execute(machine, STATE)
    said = execute(
        machine,
        f"""runuser -l laptop <<'END'
rm -rf rootless
{PROGRAM} run quickstart --blocks 1 --set machine.accel=kvm {choose_levels("podman", "qemu")} -o rootless
END""",
        LONG,
    )
    records = read_records(machine, "rootless")
    require_all_ok(records, 6)
    after = execute(machine, STATE)
    left = execute(machine, "ls ~laptop/.local/state/nearmetal/machines 2>/dev/null || true")
    if after != before or left:
        raise StepFailed(f"{said}\nbefore:\n{before}\nafter:\n{after}\n{left}")
    return f"{describe_monitors(records)}\n{said}\nthe host is as it was"


def isolate_cpu(machine: Ordinary) -> str:
    """CPU 1 is kept free, a program runs there, and everything is as it was.

    In one login: before Linux 6.2 systemd's move of a new one into its group gives it all CPUs (docs/isolation.md).
    """
    before = execute(machine, PLACES)
    on = f"{PROGRAM} isolate off; {PROGRAM} isolate on --cpus 1 --json >/tmp/on.json"
    try:
        status = execute(machine, f"{on} && {PROGRAM} isolate status", LONG)
        way = parse_document(execute(machine, "cat /tmp/on.json"))["way"]["words"]
        allowed = execute(machine, f"{PROGRAM} isolate exec -- grep Cpus_allowed_list /proc/self/status")
        if allowed.split()[-1] != "1":
            raise StepFailed(f"it was to run on CPU 1: {allowed}")
    finally:
        off = execute(machine, f"{PROGRAM} isolate off", LONG)
    if (after := execute(machine, PLACES)) != before:
        raise StepFailed(f"{off}\nbefore:\n{before}\nafter:\n{after}")
    return f"{way}\n{status}\n{off}\nthe host is as it was"


def boot_isolated(machine: Ordinary) -> str:
    """GRUB is told to keep CPU 1 free and boots the machine so, from its disk; then it is told otherwise."""
    execute(machine, f"mkdir -p /boot/grub; grub-install /dev/vda && update-grub; {PROGRAM} isolate off", LONG)
    on = machine.exec(f"{PROGRAM} isolate on --boot --cpus 1", LONG)
    isolated = _boot_by_grub(machine)
    status = machine.exec(f"{PROGRAM} isolate status", LONG).text
    kept = execute(machine, "cat /sys/devices/system/cpu/isolated")
    off = machine.exec(f"{PROGRAM} isolate off", LONG).text
    after = _boot_by_grub(machine)
    if "isolcpus=" not in isolated or "isolcpus=" in after or kept != "1":
        raise StepFailed("\n".join((on.text, isolated, kept, status, off, after)))
    return "\n".join((on.text.strip(), isolated, status.strip(), off.strip(), after))


def _boot_by_grub(machine: Ordinary) -> str:
    """The kernel's command line, once GRUB has booted the machine from its disk."""
    machine.stop()
    machine.boot(by_grub=True)
    return execute(machine, f"mountpoint -q {PAYLOAD} || mount {PAYLOAD}; cat /proc/cmdline")


def shape_links(machine: Ordinary) -> str:
    """Links by each shaper of the kernel's, and hosts joined by VXLAN and by GRE."""
    return "\n".join(
        (
            _test(machine, "tests/live/test_link.py"),
            _test(machine, "tests/live/test_hosts.py -k 'compares_one_host_with_two or shaped_link'"),
        )
    )


def kill_and_clean(machine: Ordinary) -> str:
    """A run is killed as it measures in a guest; `clean` leaves what was there before; `resume` comes to its end."""
    before = execute(machine, STATE)
    folder, guest = f"{RUNS}/killed", "pgrep -f '[q]emu-system.*-accel kvm' >/dev/null"
    execute(
        machine,
        f"rm -rf {folder}; cd {RUNS}; setsid {PROGRAM} run quickstart --available --blocks 1 -o killed "
        f">{folder}.out 2>&1 </dev/null & echo $!",
    )
    execute(
        machine,
        # A guest is booted before the run's folder is there, too: it shows that KVM works. QEMU is also asked for its
        # version, and then has no accelerator.
        f"for n in $(seq 1800); do [ -e {folder} ] && {guest} && break; sleep 1; done; sleep 3; "
        f"{guest} || {{ cat {folder}.out; exit 1; }}; "
        # Also the process of its block, which would put all right by itself.
        f"kill -9 $(pgrep -f '[n]earmetal run quickstart|[n]earmetal.run.fork_server'); sleep 2",
        LONG,
    )
    cleaned = execute(machine, f"{PROGRAM} clean", LONG)
    after = execute(machine, STATE)
    if after != before or "removed: " not in cleaned:
        raise StepFailed(f"{cleaned}\nbefore:\n{before}\nafter:\n{after}")
    resumed = execute(machine, f"cd {RUNS}; {PROGRAM} resume killed", LONG)
    require_all_ok(read_records(machine, "killed"), 6)
    return f"{cleaned}\nthe host is as it was\n{_last(resumed)}"


def cut_power(machine: Ordinary) -> str:
    """The machine goes off as it measures. Once it is up the records are there as before; `resume` ends the run."""
    folder = f"{RUNS}/power"
    study = f"cd {RUNS}; {PROGRAM} run quickstart --available --blocks 2 {choose_levels('docker')} -o power"
    execute(machine, f"rm -rf {folder}; setsid sh -c {shlex.quote(study)} >{folder}.out 2>&1 </dev/null &")
    ended = f"grep -c '\"status\"' {folder}/journal.jsonl 2>/dev/null"
    wait = f"for n in $(seq 900); do [ $({ended} || true)0 -ge 30 ] && exit; sleep 1; done; cat {folder}.out; exit 1"
    execute(machine, wait, LONG)
    before = read_records(machine, "power")
    machine.cut_power()
    machine.boot()
    after = read_records(machine, "power")
    if (kept := after[: len(before)]) != before or not before:
        raise StepFailed(f"before: {before}\nafter: {kept}")
    cleaned = execute(machine, f"{PROGRAM} clean; {STATE}", LONG)
    resumed = execute(machine, f"cd {RUNS}; {PROGRAM} resume power", LONG)
    require_all_ok(read_records(machine, "power"), 8)
    return f"{len(before)} records before and after\n{cleaned}\n{_last(resumed)}"


def suffer_faults(machine: Ordinary) -> str:
    """The lines of the fault matrix that take control groups of version 2, and guests by KVM."""
    by_kvm = "qemu and (killed or stopped or hung or panic or livelocked or memory)"
    tests = f"-s tests/live/test_faults.py -k 'version or (memory and host) or ({by_kvm})'"
    return _test(machine, tests, "NEARMETAL_TEST_ACCEL=kvm")


def measure_hardened(machine: Ordinary) -> str:
    """The host closed more than most: read only, noexec, without IPv6, behind a firewall; or refused by name."""
    return _test(machine, "tests/live/test_hardened_hosts.py", "NEARMETAL_TEST_ACCEL=kvm")


STEPS: Mapping[str, Callable[[Ordinary], str]] = {
    "install": install,
    "doctor": examine,
    "faults": suffer_faults,
    "hardened": measure_hardened,
    "docker": measure_in_docker,
    "kvm": measure_by_kvm,
    "restored": restore_by_kvm,
    "isolate": isolate_cpu,
    "grub": boot_isolated,
    "links": shape_links,
    "clean": kill_and_clean,
    "power": cut_power,
    "podman": measure_in_podman,
    "libvirt": measure_by_libvirt,
    "domain": measure_their_domain,
    "container": measure_from_a_container,
    "tcg": measure_by_tcg,
    "rootless": measure_without_root,
    "firewalls": unusual_hosts.measure_behind_firewalls,
    "nfs": unusual_hosts.refuse_state_on_nfs,
    "groups": unusual_hosts.measure_by_both_versions,
    "selinux": unusual_hosts.measure_under_selinux,
}
"""The first is what all others rest on."""


def _test(machine: Ordinary, chosen: str, variables: str = "") -> str:
    """What the tests that are chosen so print, taken with the wheel."""
    script = f"""set -e
pip="/opt/nearmetal/bin/pip install -q --no-index --find-links {PAYLOAD}/wheels"
/opt/nearmetal/bin/python -c 'import {", ".join(_IMPORTED)}' 2>/dev/null || $pip {" ".join(_TESTED_WITH)}
if ! cmp -s {PAYLOAD}/tests.tar /opt/checkout/.sent; then
    rm -rf /opt/checkout; mkdir -p /opt/checkout; tar -C /opt/checkout -xf {PAYLOAD}/tests.tar
    cp {PAYLOAD}/tests.tar /opt/checkout/.sent
fi
cd /opt/checkout
export NEARMETAL_PATIENCE=20 {variables}
/opt/nearmetal/bin/python -m pytest -q -p no:cacheprovider --timeout=0 --tb=line -rs {chosen}"""
    return execute(machine, script, LONG)


def _last(text: str, lines: int = 12) -> str:
    return "\n".join(text.splitlines()[-lines:])


def python_here() -> Path:
    return Path(sys.executable)


def describe_commit() -> str:
    """Of the checkout that the wheel is built from."""
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "no commit"
