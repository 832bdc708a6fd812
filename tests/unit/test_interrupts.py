"""Ctrl-C: what was begun is tidied up, and what there is to say about it is said."""

import subprocess
import sys

PROGRAM = """
import asyncio, os, signal, threading, time
from nearmetal.interrupts import until_interrupted

async def work():
    try:
        # It is waited for after all was tidied up, which is when somebody loses patience.
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 1)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    finally:
        print("tidied up", flush=True)

finished = until_interrupted(work())
print("go on with:", finished, flush=True)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("ended", flush=True)
"""


def test_who_presses_it_again_still_reads_how_to_go_on() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "tidied up\ngo on with: False\nended\n"), ended.stderr
