"""An ordinary machine, as an emulated guest: Debian with systemd, control groups of version 2 and a working /dev/kvm.

QEMU's TCG emulates AMD's SVM, so real KVM guests boot in it. It tells whether a path works and is read back, never how
fast it is. `make rig` builds and boots it, and takes each of the steps that were not taken yet.
"""
