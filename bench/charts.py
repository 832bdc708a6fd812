"""How soon the charts of a report answer in headless Chromium, and how soon Vega's own runtime would have drawn them.

For a run of few trials and two of 10,000: the page's bytes; seconds from asking for it to charts that answer, and how
much CPU time the tab's processes take for that; milliseconds from a pointer that moves onto a mark to the next picture.
Each is the least of the rounds, since other work on the host only adds. Then the same charts by Vega's runtime, with
its interpreter of expressions, since the page's policy has no `unsafe-eval`: bytes of a page of the runtime and the
specifications, seconds until the first chart and until all are drawn.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import vl_convert
from playwright import sync_api
from tests import plausible_run
from tests.browser.chromium import CHROMIUM, QUIET

from nearmetal.report.write import write
from nearmetal.store.run_folder import RunFolder

_SHAPES = {
    "3 treatments x 2 workloads x 8 blocks": (8, ""),
    "3 treatments x 2 workloads x 1,667 blocks": (1667, ""),
    "51 treatments x 2 workloads x 98 blocks": (98, f"vcpus = {[*range(1, 18)]}"),
}

_READY = "() => document.getElementById('sift') && !document.getElementById('sift').hidden"

_POINTED = """() => new Promise((go) => {
  const mark = [...document.querySelectorAll('.mark')].find((one) => one.checkVisibility());
  const box = mark.getBoundingClientRect(), began = performance.now();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
  mark.dispatchEvent(new PointerEvent('pointermove', at));
  requestAnimationFrame(() => setTimeout(() => go(performance.now() - began)));
})"""

_DRAW = """
(async () => {
  const drawn = [], specs = JSON.parse(document.getElementById('specs').textContent);
  for (const spec of specs) {
    const place = document.body.appendChild(document.createElement('div'));
    await vegaEmbed(place, spec, { ast: true, renderer: 'svg', actions: false });
    drawn.push(performance.now() / 1000);
  }
  window.drawn = drawn;
})();
"""


@contextmanager
def chromium() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


def cpu(browser: sync_api.Browser) -> float:
    """Seconds of CPU time that the processes of its tabs have had."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return float(sum(process["cpuTime"] for process in processes if process["type"] == "renderer"))


def ready(browser: sync_api.Browser, page: Path) -> tuple[float, float, float]:
    """Seconds until its charts answer, seconds of CPU of them, and milliseconds that an answer takes."""
    tab = browser.new_page()
    tab.goto("file:///")
    before, began = cpu(browser), time.monotonic()
    tab.goto(page.as_uri(), wait_until="commit")
    tab.wait_for_function(_READY, polling=10)
    seconds = time.monotonic() - began
    spent = cpu(browser) - before
    answered: float = tab.evaluate(_POINTED)
    tab.close()
    return seconds, spent, answered


def by_vega(browser: sync_api.Browser, report: Path, page: Path, runtime: str) -> tuple[float, float]:
    """Seconds until the first of its charts and until all are drawn by Vega; the page for it is written."""
    specs = [json.loads(path.read_text()) for path in sorted(report.glob("*.vl.json"))]
    script = runtime + _DRAW
    policy = f"script-src 'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    data = json.dumps(specs).replace("<", "\\u003c")
    page.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<body><script id="specs" type="application/json">{data}</script><script>{script}</script>'
    )
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_function("() => window.drawn")
    drawn: list[float] = tab.evaluate("window.drawn")
    tab.close()
    return drawn[0], drawn[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    began = time.monotonic()
    runtime = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # whose stub lacks the default
    print(f"Vega's runtime: {len(runtime) / 1e6:.2f} MB, bundled in {time.monotonic() - began:.1f} s")
    with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as place, chromium() as browser:
        for number, (shape, (blocks, factors)) in enumerate(_SHAPES.items()):
            folder: RunFolder = plausible_run.make(Path(place) / str(number), blocks, factors, faults=False)
            page = write(folder)
            found = [ready(browser, page) for _ in range(rounds)]
            seconds, spent, answered = (min(values) for values in zip(*found, strict=True))
            soon = f"ready in {seconds:.2f} s ({spent:.2f} s of CPU), answers in {answered:.0f} ms"
            print(f"{shape}: {page.stat().st_size / 1e6:.2f} MB, {soon}")
            other = folder.path / "vega.html"
            times = [by_vega(browser, folder.report, other, runtime) for _ in range(rounds)]
            first, last = (min(values) for values in zip(*times, strict=True))
            size = other.stat().st_size / 1e6
            print(f"  by Vega's runtime: {size:.2f} MB, the first drawn after {first:.2f} s, all after {last:.2f} s")


if __name__ == "__main__":
    main()
