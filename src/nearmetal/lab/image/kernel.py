"""The uncompressed kernel in Debian's vmlinuz: inside a bzImage, or, for arm64, the file itself.

QEMU boots an ELF kernel with a PVH entry directly; the guest then need not decompress itself, which under
emulation takes seconds. Where the payload lies: Documentation/arch/x86/boot.rst of the kernel, "payload_offset".
"""

import bz2
import lzma
import shutil
import struct
import subprocess
import zlib

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.architecture import HERE, X86_64, Architecture

_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_VERSION = 0x20E
_PAYLOAD = 0x248
_IMAGE, _IMAGE_MAGIC = slice(0x38, 0x3C), b"ARM\x64"
"""Documentation/arm64/booting.rst of the kernel, "magic"."""


def read_release(bzimage: bytes) -> str | None:
    """The release that a bzImage names before its payload ("kernel_version" of the boot protocol); None for others."""
    if len(bzimage) < _PAYLOAD + 8 or bzimage[_MAGIC : _MAGIC + 4] != b"HdrS":
        return None
    start = 0x200 + struct.unpack_from("<H", bzimage, _VERSION)[0]
    words = bzimage[start : start + 256].partition(b"\0")[0].split()
    return words[0].decode("ascii", "replace") if words else None


def unpack_kernel(vmlinuz: bytes, where: str, here: Architecture = HERE) -> bytes:
    """What QEMU boots fastest on this host. Raises ToolFailed and HostCannot as `vmlinux` does."""
    if here.is_pc:
        return find_vmlinux(vmlinuz, where)
    if vmlinuz[_IMAGE] != _IMAGE_MAGIC:
        raise ToolFailed(f"this is not a kernel image for {here.title}", where)
    return vmlinuz


def find_vmlinux(bzimage: bytes, where: str) -> bytes:
    """The ELF kernel of a bzImage; `where` names the file in errors.

    Raises ToolFailed if this is no bzImage or its payload is no ELF file, HostCannot if its compression is unknown.
    """
    if len(bzimage) < _PAYLOAD + 8 or bzimage[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise ToolFailed(f"this is not a kernel image for {X86_64.title}", where)
    setup = (bzimage[_SETUP_SECTORS] or 4) + 1
    offset, length = struct.unpack_from("<II", bzimage, _PAYLOAD)
    start = setup * 512 + offset
    payload = bzimage[start : start + length]
    if len(payload) != length:
        raise ToolFailed("the kernel image is cut short", where)
    kernel = _decompressed(payload, where)
    if kernel[:4] != b"\x7fELF":
        raise ToolFailed("the kernel image holds no ELF kernel", where)
    return kernel


def decompress_by(program: str, payload: bytes, where: str) -> bytes:
    """What "zstd" or "lz4" unpacks before the first byte that is not its own: Python 3.13 has neither library.

    HostCannot without that program; ToolFailed if the payload is damaged.
    """
    if shutil.which(program) is None:
        raise HostCannot(f"it is compressed by {program}, which is not installed", where, f"apt-get install {program}")
    ended = subprocess.run([program, "-dcq"], input=payload, capture_output=True, timeout=120, check=False)
    if not ended.stdout:
        raise ToolFailed(f"it does not decompress: {ended.stderr.decode(errors='replace').strip()[-200:]}", where)
    return ended.stdout


def _decompressed(payload: bytes, where: str) -> bytes:
    # Told apart as lib/decompress.c of the kernel does. Four bytes with the kernel's length follow the compressed
    # stream, so only decoders that stop at its end will do.
    try:
        if payload.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
        if payload.startswith(b"\x5d\0\0"):
            return lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload)
        if payload.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(payload)
        if payload.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(payload)
    except (lzma.LZMAError, zlib.error, OSError) as error:
        raise ToolFailed(f"the kernel image does not decompress: {error}", where) from error
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return decompress_by("zstd", payload, where)
    if payload.startswith(b"\x02\x21\x4c\x18"):  # LZ4's legacy format, as in Debian's kernels for clouds
        return decompress_by("lz4", payload, where)
    what = f"the kernel image is compressed in an unknown way ({payload[:6].hex()})"
    raise HostCannot(what, where, "name the uncompressed kernel, vmlinux")
