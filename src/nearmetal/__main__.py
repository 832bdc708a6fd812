"""The console script, and `python -m nearmetal`.

Ctrl-C ends it without a word while the command line is imported, and when it has come to its end: Python would answer
with a traceback then, of which some part of a library is the last line.
"""

import signal


def main() -> None:
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored, as in the background
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nearmetal import cli

    try:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
