"""Which process is meant, beyond its number, and the boot_id of a machine that has no kernel of its own."""

from pathlib import Path

_EXITING = 0x4
"""PF_EXITING in the flags of /proc/PID/stat: on its way out, whatever its state says."""


def start_time(pid: int) -> int | None:
    """When a process of this host started, in clock ticks since the kernel did; None when it is no more.

    No two processes share both number and start time while a kernel runs.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Its name, in brackets, may hold anything; see proc(5) for the fields, the state being the third.
    fields = text.rpartition(")")[2].split()
    state, flags, started = fields[0], int(fields[6]), int(fields[19])
    return None if state in "ZX" or flags & _EXITING else started


def boot_id(pid: int, started: int) -> str:
    """The kernel's boot_id, "+", and the machine's first process: fresh with each machine, and telling whose kernel."""
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{kernel}+{pid}.{started}"
