"""The ELF kernel inside a bzImage."""

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial

import pytest

from nearmetal.errors import HostCannot, NearmetalError, ToolFailed
from nearmetal.lab.image.kernel import find_vmlinux

ELF = b"\x7fELF" + bytes(range(256)) * 64


def bzimage(payload: bytes, *, sectors: int = 3, offset: int = 40) -> bytes:
    """As the boot protocol lays it out: setup sectors, then code, then the payload at `offset` in it."""
    setup = bytearray((sectors + 1) * 512)
    setup[0x1F1] = sectors
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", setup, 0x248, offset, len(payload))
    return bytes(setup) + b"\x90" * offset + payload + b"after"


def with_length(compressed: bytes) -> bytes:
    return compressed + struct.pack("<I", len(ELF))


def compress_by(program: str, *options: str) -> Callable[[bytes], bytes]:
    def compress(content: bytes) -> bytes:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: kernels compressed by it were NOT unpacked; apt-get install {program}")
        return subprocess.run([program, "-cq", *options], input=content, capture_output=True, check=True).stdout

    return compress


@pytest.mark.parametrize(
    "compress",
    [
        lzma.compress,
        partial(lzma.compress, format=lzma.FORMAT_ALONE),
        gzip.compress,
        bz2.compress,
        compress_by("zstd"),
        compress_by("lz4", "-l"),
    ],
)
def test_the_payload_is_found_and_decompressed(compress) -> None:  # type: ignore[no-untyped-def]
    assert find_vmlinux(bzimage(with_length(compress(ELF))), "vmlinuz") == ELF


def test_no_setup_sectors_means_four() -> None:
    image = bytearray(bzimage(with_length(lzma.compress(ELF)), sectors=4))
    image[0x1F1] = 0
    assert find_vmlinux(bytes(image), "vmlinuz") == ELF


@pytest.mark.parametrize(
    ("image", "error", "says"),
    [
        (b"", ToolFailed, "not a kernel image for x86-64"),
        (b"MZ" + bytes(4096), ToolFailed, "not a kernel image for x86-64"),
        (bzimage(with_length(lzma.compress(ELF)))[:2400], ToolFailed, "cut short"),
        (bzimage(with_length(lzma.compress(b"no ELF"))), ToolFailed, "no ELF kernel"),
        (bzimage(b"\xfd7zXZ\0" + b"rubbish" * 9), ToolFailed, "does not decompress"),
        (bzimage(b"BZh" + b"rubbish" * 9), ToolFailed, "does not decompress"),
        (bzimage(b"\x02\x21\x4c\x18" + b"rubbish" * 9), ToolFailed, "does not decompress"),
        (bzimage(b"\x89LZO\0\r\n\x1a\n" + b"lzo" * 9), HostCannot, "unknown way"),
    ],
)
def test_what_is_no_kernel_is_said(image: bytes, error: type[NearmetalError], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        find_vmlinux(image, "vmlinuz-6.1")
    assert raised.value.where == "vmlinuz-6.1"
