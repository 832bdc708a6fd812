"""The uncompressed kernel inside a bzImage.

QEMU boots an ELF kernel with a PVH entry directly; the guest then need not decompress itself, which under
emulation takes seconds. Where the payload lies: Documentation/arch/x86/boot.rst of the kernel, "payload_offset".
"""

import lzma
import shutil
import struct
import subprocess
import zlib

from nearmetal.errors import HostCannot, ToolFailed

_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248


def vmlinux(bzimage: bytes, where: str) -> bytes:
    """The ELF kernel of a bzImage; `where` names the file in errors.

    Raises ToolFailed if this is no bzImage or its payload is no ELF file, HostCannot if its compression is unknown.
    """
    if len(bzimage) < _PAYLOAD + 8 or bzimage[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise ToolFailed("this is not an x86 kernel image", where)
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


def decompress_zstd(payload: bytes) -> bytes:
    """What is before the first byte that is none of zstd's, by its program: Python 3.13 has no such library. HostCannot
    without the program; ToolFailed if it is damaged."""
    if shutil.which("zstd") is None:
        raise HostCannot("the kernel is compressed by zstd, which is not installed", remedy="apt-get install zstd")
    ended = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, timeout=120, check=False)
    if not ended.stdout:
        raise ToolFailed(
            f"the kernel image does not decompress: {ended.stderr.decode(errors='replace').strip()[-200:]}"
        )
    return ended.stdout


def _decompressed(payload: bytes, where: str) -> bytes:
    # Four bytes with the kernel's length follow the compressed stream, so only decoders that stop at its end will do.
    try:
        if payload.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
        if payload.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(payload)
        if payload.startswith(b"\x28\xb5\x2f\xfd"):
            return decompress_zstd(payload)
    except (lzma.LZMAError, zlib.error) as error:
        raise ToolFailed(f"the kernel image does not decompress: {error}", where) from error
    raise HostCannot(f"the kernel image is compressed in an unknown way ({payload[:6].hex()})", where)
