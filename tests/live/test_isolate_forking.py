"""`nearmetal isolate` while programs are started all the time, each by the one before: nobody escapes, and nobody is
forgotten. In namespaces where this host's own programs are not to be seen, and its values cannot be changed.
"""

import json
import os
import subprocess
import sys

import pytest

from .test_isolate_refused import READ_ONLY

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="of one CPU none can be kept free"),
]

# One goes on as its own child for ever; the other has children that live for a moment. The namespace's end is theirs.
FORKING = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
is_chain = os.fork() == 0
while True:
    if is_chain:
        if os.fork():
            os._exit(0)
    elif os.fork() == 0:
        time.sleep(0.03)
        os._exit(0)
    else:
        time.sleep(0.001)
"""

# Where they may run, of many at many moments.
LOOKED = """
import collections, json, pathlib
found = collections.Counter()
for _ in range(30):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"is_chain" in (folder / "cmdline").read_bytes()
            status = (folder / "status").read_text()
        except OSError:
            continue
        if is_one:
            found[next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))] += 1
print(json.dumps(found))
"""

INSIDE = """
"$PYTHON" -c "$FORKING" &
sleep 0.3
look() { "$PYTHON" -c "$LOOKED"; }
look
"$PYTHON" -m nearmetal isolate on --json || [ $? = 1 ]
look
"$PYTHON" -m nearmetal isolate off --json
look
"""


@pytest.mark.long
def test_what_is_started_meanwhile_is_moved_and_let_loose() -> None:
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", READ_ONLY + INSIDE]
    environment = {**os.environ, "PYTHON": sys.executable, "FORKING": FORKING, "LOOKED": LOOKED}
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment)
    assert ended.returncode == 0, ended.stderr
    before, on, during, _, after = map(json.loads, ended.stdout.splitlines())
    everywhere = set(before)
    assert sum(before.values()) > 30
    assert len(everywhere) == 1
    assert set(during) & everywhere == set()
    assert all(on["cpus"] not in cpus.split(",") for cpus in during)
    assert len(during) == 1
    assert set(after) == everywhere
