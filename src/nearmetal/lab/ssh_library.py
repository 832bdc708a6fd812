"""asyncssh, imported from here alone: it is kept from searching the host for libraries of C.

It looks for libnettle and liboqs, which only add algorithms that no server requires. Python's search starts a compiler
and makes an empty file in the folder for temporary files, which stays if the process is killed meanwhile.
"""

import ctypes.util

_search = ctypes.util.find_library
ctypes.util.find_library = lambda name: None
try:
    import asyncssh
finally:
    ctypes.util.find_library = _search

__all__ = ["asyncssh"]
