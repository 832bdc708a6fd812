"""What an installation takes on disk: the wheel by itself, what it needs, and the demo's environment of a clone.

    make sizes

Bytes of files, as pip leaves them. Without pip: neither pip nor setuptools, which a virtual environment brings and
`pipx` and `uv tool` leave out. Without bytecode: `uv` has it made when a program first runs.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LARGEST = 6
_OF_THE_VENV = ("pip", "setuptools", "pkg_resources", "_distutils_hack")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        there = Path(temporary)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(there), str(ROOT))
        (wheel,) = there.glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        print(f"\n{'installed':28} {'MB':>5} {'no pip':>7} {'no pip, no bytecode':>20}")
        for number, extras in enumerate(("", "[pictures]", "[pictures,dashboard,query]")):
            folder = there / str(number)
            run(sys.executable, "-m", "venv", str(folder))
            run(str(folder / "bin/pip"), "install", "-q", "--disable-pip-version-check", f"{wheel}{extras}")
            tell(f"nearmetal{extras}", folder)
            if not extras:
                largest = weigh(folder)
        print("\nof nearmetal alone, the largest (MB, with bytecode):")
        for name, size in largest.most_common(_LARGEST):
            print(f"{name:28} {size / 1e6:5.0f}")


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def tell(name: str, folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    ours = [file for file in files if not package_of(file).startswith(_OF_THE_VENV)]
    sizes = [sum(file.stat().st_size for file in some) / 1e6 for some in (files, ours)]
    bare = sum(file.stat().st_size for file in ours if file.suffix != ".pyc") / 1e6
    print(f"{name:28} {sizes[0]:5.0f} {sizes[1]:7.0f} {bare:20.0f}", flush=True)


def weigh(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            found[package_of(file).removesuffix(".libs")] += file.stat().st_size
    return found


def package_of(file: Path) -> str:
    """The folder below site-packages that a file is in, or ""."""
    parts = file.parts
    return parts[parts.index("site-packages") + 1] if "site-packages" in parts else ""


if __name__ == "__main__":
    main()
