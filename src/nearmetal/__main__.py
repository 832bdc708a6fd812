"""The console script, and `python -m nearmetal`.

Ctrl-C ends it at once while the command line is imported, and when it has come to its end: Python would answer with a
traceback then, of which some part of a library is the last line.
"""

import os
import signal


def main() -> None:
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored, as in the background
    if is_ours:
        signal.signal(signal.SIGINT, _end_interrupted)
    from nearmetal import cli

    try:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, _end_interrupted)


def _end_interrupted(*_: object) -> None:
    """As `cli` ends it, of which nothing may be there yet."""
    try:
        os.write(2, b"nearmetal: interrupted\n")
    finally:
        os._exit(4)


if __name__ == "__main__":
    main()
