"""Driving QEMU: its command line, its monitor, and whether an accelerator really boots a guest."""
