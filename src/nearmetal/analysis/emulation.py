"""Which machines were emulated: what a verdict about them means depends on it more than on anything else."""

from collections.abc import Iterable, Sequence

from nearmetal.model import TrialRecord, Warned

_EMULATORS = ("tcg",)
"""Accelerators, as QEMU calls them, that are none: they translate each of the guest's instructions."""


def about_emulation(records: Sequence[TrialRecord]) -> Iterable[Warned]:
    """By what was read back of the accelerator, whatever was asked for."""
    emulated = dict.fromkeys(
        str(record.trial.treatment.get("environment", "the machine"))
        for record in records
        if record.readback.get("resources", {}).get("accel") in _EMULATORS
    )
    if emulated:
        names = " and ".join(emulated)
        yield Warned(
            code="emulated",
            text=f"{names} ran by emulation (tcg), without the processor's virtualization: its figures say what "
            "emulation costs here, and nothing of the same guest with hardware acceleration",
        )
