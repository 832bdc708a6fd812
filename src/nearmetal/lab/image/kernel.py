"""The uncompressed kernel inside a bzImage.

QEMU boots an ELF kernel with a PVH entry directly; the guest then need not decompress itself, which under
emulation takes seconds. Where the payload lies: Documentation/arch/x86/boot.rst of the kernel, "payload_offset".
"""

import lzma
import struct
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


def _decompressed(payload: bytes, where: str) -> bytes:
    # Four bytes with the kernel's length follow the compressed stream, so only decoders that stop at its end will do.
    try:
        if payload.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
        if payload.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(payload)
    except (lzma.LZMAError, zlib.error) as error:
        raise ToolFailed(f"the kernel image does not decompress: {error}", where) from error
    raise HostCannot(f"the kernel image is compressed in an unknown way ({payload[:6].hex()})", where)
