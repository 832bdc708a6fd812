"""Which arguments of QEMU a study may add."""

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.qemu.user_arguments import WHERE, check_arguments


@pytest.mark.parametrize(
    "words",
    [
        "",
        "-global virtio-net-pci.mrg_rxbuf=off",
        "--global max-x86_64-cpu.avx2=off -mem-prealloc",
        "-machine kernel-irqchip=split -overcommit mem-lock=on",
        "-object iothread,id=io1 -device virtio-balloon-pci",
    ],
)
def test_what_leaves_alone_what_a_study_holds_is_taken(words: str) -> None:
    check_arguments(words.split())


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        ("-m 2G", "-m is set by a key", "machine.memory"),
        ("-cpu host", "-cpu is set by a key", "machine.cpu_model"),
        ("--accel kvm", "-accel is set by a key", "machine.accel"),
        ("-netdev user,id=x", "-netdev is set by a key", "machine.nic"),
        ("-icount shift=1", "clock would follow its instructions", "-global"),
        ("-daemonize", "outlive the run", "-global"),
        ("-qmp stdio", "second monitor", "-global"),
        ("-incoming defer", "memory of another", "-global"),
        ("-no-such-thing", "is refused", "-global"),
        ("virtio", "is no argument of QEMU's", "begin with"),
        ("-global", "has no value", "VALUE"),
        ("-global -mem-prealloc", "has no value", "VALUE"),
        ("-global virtio-net-pci", "DRIVER.PROPERTY=VALUE", "leave it out"),
        ("-global virtio-net-pci.mac=02:00:00:00:00:01", "the lab sets 'mac'", "leave it out"),
        ("-device virtio-net-pci,netdev=data", "'data' is the lab's own", "leave it out"),
        ("-device vfio-pci,host=00:01.0", "a device of the host's", "leave it out"),
        ("-object secret,id=s,file=/etc/shadow", "it is none of iothread", "leave it out"),
        ("-machine pc", "machine.board says which", "leave it out"),
        ("-machine accel=kvm", "sets 'accel'", "leave it out"),
    ],
)
def test_what_would_break_it_is_refused(words: str, what: str, remedy: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_arguments(words.split())
    assert (what in caught.value.what, remedy in caught.value.remedy) == (True, True), str(caught.value)
    assert caught.value.where == WHERE
