"""Steps that make the machine a host as some are: behind a firewall's own service, with its state on NFS, with control
groups of version 1 or of both, under SELinux. It measures there, or says by name why not; then it is ordinary again."""

from .in_machine import LONG, PROGRAM, RUNS, choose_levels, execute, measure
from .ordinary import Ordinary, StepFailed

_FIREWALLS = {
    "firewalld": ("systemctl start firewalld && firewall-cmd --state", "systemctl stop firewalld"),
    "ufw": ("ufw allow 22/tcp && ufw --force enable", "ufw --force disable"),
}
_NFS = """set -e
mkdir -p /srv/nfs /mnt/nfs
echo '/srv/nfs 127.0.0.1(rw,no_root_squash,no_subtree_check,fsid=0,insecure)' >/etc/exports
systemctl start nfs-server; exportfs -ra
mountpoint -q /mnt/nfs || mount -t nfs4 127.0.0.1:/ /mnt/nfs
rm -rf /mnt/nfs/*; stat -f -c %T /mnt/nfs"""
_BY_KVM = f"--blocks 1 --set machine.accel=kvm {choose_levels('docker', 'qemu')}"
_VERSION_1 = "systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"
_SELINUX = "security=selinux selinux=1"


def measure_behind_firewalls(machine: Ordinary) -> str:
    """The study quickstart on the host, in Docker and in a KVM guest while a firewall's own service is on."""
    said = []
    for name, (on, off) in _FIREWALLS.items():
        execute(machine, on)
        try:
            said.append(f"{name}: {measure(machine, name, 6, _BY_KVM)}")
        finally:
            execute(machine, off)
    return "\n".join(said)


def refuse_state_on_nfs(machine: Ordinary) -> str:
    """An NFS server of the machine's own: machines' files there are refused, a run's folder there is written."""
    kind = execute(machine, _NFS)
    try:
        said = _refused(machine, "nfs", choose_levels(), "an overlay cannot write to its file system", "/mnt/nfs/home")
        wrote = execute(
            machine,
            f"{PROGRAM} run quickstart --blocks 1 {choose_levels()} -o /mnt/nfs/run && {PROGRAM} verify /mnt/nfs/run",
            LONG,
        )
    finally:
        execute(machine, "umount /mnt/nfs; systemctl stop nfs-server")
    return f"{kind}\n{said}\n{wrote.splitlines()[-1]}"


def measure_by_both_versions(machine: Ordinary) -> str:
    """Control groups of version 1 beside version 2; then with memory's in version 2 alone, which is refused.

    The kernel of Debian 13 has those of memory and CPUs in version 2 alone, however it is booted.
    """
    measured, lacking, more = "", "cpuset, memory", ""
    try:
        if machine.suite == "bookworm":
            _boot(machine, _VERSION_1)
            measured, lacking, more = measure(machine, "both", 6, _BY_KVM), "memory", " cgroup_no_v1=memory"
        _boot(machine, _VERSION_1 + more)
        said = _refused(machine, "mixed", choose_levels("qemu"), f"/sys/fs/cgroup lacks {lacking} (version 1)")
    finally:
        _boot(machine, "")
    return f"{measured}\n{said}".strip()


def measure_under_selinux(machine: Ordinary) -> str:
    """SELinux enforces: host and KVM guest measure; what it keeps Docker from is named with its rule."""
    try:
        execute(machine, "sed -i s/^SELINUX=.*/SELINUX=permissive/ /etc/selinux/config; touch /.autorelabel")
        _boot(machine, _SELINUX)
        execute(machine, "setenforce 1")
        measured = measure(machine, "selinux", 4, f"--blocks 1 --set machine.accel=kvm {choose_levels('qemu')}")
        command = f"cd {RUNS}; rm -rf denied; {PROGRAM} run quickstart --blocks 1 {choose_levels('docker')} -o denied"
        denied = machine.exec(command, LONG).text
    finally:
        _boot(machine, "")
    told = [line for line in denied.splitlines() if "SELinux denied" in line and "its rule would be: allow" in line]
    if not told:
        raise StepFailed(f"no rule of SELinux was named:\n{denied}")
    return f"{measured}\n{told[0]}"


def _boot(machine: Ordinary, more: str) -> None:
    machine.stop()
    machine.boot(more=more)
    execute(machine, "mountpoint -q /payload || mount /payload")


def _refused(machine: Ordinary, name: str, options: str, why: str, home: str = "") -> str:
    """What was said. StepFailed unless the run was refused before it began, for that reason and with a remedy."""
    variables = f"NEARMETAL_HOME={home} " if home else ""
    command = f"cd {RUNS}; rm -rf {name}; {variables}{PROGRAM} run quickstart --blocks 1 {options} -o {name}"
    ended = machine.exec(command, LONG)
    if ended.status != 3 or why not in ended.text or "remedy: " not in ended.text:
        raise StepFailed(f"it was to be refused with 3, and ended with {ended.status}:\n{ended.text}")
    return ended.text.strip()
