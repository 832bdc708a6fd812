"""A picture of the beginning of a report, for docs/pictures: by Chromium, without what floats above the page.

python -m docs_site.picture RUN/report.html docs/pictures/report.png 1100 1600
"""

import subprocess
import sys
import tempfile
from pathlib import Path

_FLOATING = ".back,#filter,body::after{display:none!important}"


def draw_page(page: Path, picture: Path, width: int, height: int) -> None:
    """Its first pixels, as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        still = Path(folder) / "page.html"
        still.write_text(page.read_text("utf-8").replace("</style>", f"{_FLOATING}</style>", 1), "utf-8")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=3000"]
        size = [f"--window-size={width},{height}", f"--screenshot={picture.resolve()}"]
        subprocess.run(["chromium", *options, *size, still.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    draw_page(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
