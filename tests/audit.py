"""Known vulnerabilities of what is locked: `python -m tests.audit PIP-AUDIT CARGO-DENY [--passes-without-data]`.

pip-audit looks up the Python packages of `locked/`, cargo-deny the probe's crates. Both fetch advisories: the one from
PyPI, the other from RustSec's database. Exits with 1 for a vulnerability, and with 3 if advisories cannot be had. With
`--passes-without-data` the latter is printed, and passes.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOCKED = Path("locked")
VULNERABLE, WITHOUT_DATA = 1, 3
_LIMIT = 600.0
"""Seconds for one tool. RustSec's database is 20 MB."""


def audit_python(tool: str) -> int:
    """Print what is known of the Python packages that are locked. Returns 0, VULNERABLE or WITHOUT_DATA."""
    files = [word for file in sorted(LOCKED.glob("*.txt")) for word in ("-r", str(file))]
    options = ("--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json")
    ran = _run([tool, *options, *files])
    try:
        packages = json.loads(ran.stdout)["dependencies"]
    except ValueError:
        print(f"== NOT AUDITED: the Python packages. {_last_line(ran.stderr)}")
        return WITHOUT_DATA
    found = [(one, known) for one in packages for known in one.get("vulns", ())]
    for one, known in found:
        mended = " or ".join(known["fix_versions"]) or "no version"
        print(f"== VULNERABLE: {one['name']} {one['version']}: {known['id']}, mended in {mended}")
    skipped = [one for one in packages if "skip_reason" in one]
    if skipped:
        print(f"== NOT AUDITED: {len(skipped)} of {len(packages)} Python packages. {skipped[0]['skip_reason']}")
    if found:
        return VULNERABLE
    if skipped or not packages:
        return WITHOUT_DATA
    print(f"no vulnerability is known of {len(packages)} Python packages")
    return 0


def audit_probe(tool: str) -> int:
    """Print what is known of the probe's crates. Returns 0, VULNERABLE or WITHOUT_DATA."""
    fetched = _run([tool, "--locked", "fetch", "db"])
    if fetched.returncode:
        print(f"== NOT AUDITED: the probe's crates. {_last_line(fetched.stderr)}")
        return WITHOUT_DATA
    checked = _run([tool, "--locked", "--log-level=error", "check", "--hide-inclusion-graph", "advisories"])
    print(checked.stdout + checked.stderr, end="")
    return VULNERABLE if checked.returncode else 0


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT, check=False)


def _last_line(text: str) -> str:
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["It printed nothing."])[-1]


def main(pip_audit: str, cargo_deny: str, *options: str) -> int:
    results = {audit_python(pip_audit), audit_probe(cargo_deny)}
    if VULNERABLE in results:
        return VULNERABLE
    return WITHOUT_DATA if WITHOUT_DATA in results and "--passes-without-data" not in options else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
