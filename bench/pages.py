"""Time the catalogue: how long its build takes, and how soon Chromium shows and filters it.

python -m bench.pages [COUNT ...] [--times N] [--applied].  Each build is a process of its own.  The
page is opened from disk, each time in a new tab; a filter is timed from the key to the next frame.
With --applied the chains of the datasets are there, without rows.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.layered import for_odfbuild, layered
from bench.measure import spread
from bench.runs import command
from tests.support.process.chromium import Browser, browsing, why_no_chromium

__all__ = ["main"]

WORDS = ("1", "12", "123", "amount", "amount 7", "nothing like it")
_FILTER = """
(async word => {
  const frame = () => new Promise(done => requestAnimationFrame(done));
  const field = document.getElementById('words');
  await frame();
  const began = performance.now();
  field.value = word;
  field.dispatchEvent(new Event('input'));
  await frame();
  await frame();
  return performance.now() - began;
})
"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def main() -> None:
    """Build and open the catalogue of so many datasets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("counts", nargs="*", type=int, default=[1000, 10000])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--applied", action="store_true")
    given = parser.parse_args()
    for count in given.counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            project = folder / "project"
            for_odfbuild(project, layered(count))
            if given.applied:
                command("apply", "--yes", "--no-data", folder=project).run()
            built = command("docs", "build", "--out", str(folder / "page.html"), folder=project)
            runs = [built.run() for _ in range(given.times)]
            size = (folder / "page.html").stat().st_size
            wall, spent = spread([r.wall for r in runs]), spread([r.cpu for r in runs])
            print(f"\n## {count:,} datasets, {size:,} bytes\n")
            print(f"docs build: {wall} s, processor {spent} s", flush=True)
            if (why := why_no_chromium()) is not None:
                raise SystemExit(why)
            (folder / "profile").mkdir()
            with browsing(folder / "profile") as browser:
                seen = [opened(browser, folder / "page.html") for _ in range(given.times)]
            for each in seen[0]:
                unit = "MB" if each == "heap" else "ms"
                print(f"{each}: {spread([found[each] for found in seen])} {unit}")


def opened(browser: Browser, path: Path) -> Mapping[str, float]:
    """Open a page once; return what was timed, in milliseconds, and the heap in MB."""
    page = browser.open(path.as_uri())
    page.wait("!!document.querySelector('.view:not([hidden]) h1')")
    page.wait(f"({_PAINT}) > 0")
    found = {"first paint": float(page.evaluate(_PAINT))}
    for word in WORDS:
        found[f"filter {word!r}"] = float(page.evaluate(f"({_FILTER})({json.dumps(word)})"))
    began = "void (window.began = performance.now(), location.hash = '#/graph')"
    page.evaluate(began)
    page.wait("document.querySelectorAll('#graph svg *').length > 20")
    found["graph"] = float(page.evaluate("performance.now() - window.began"))
    memory = page.evaluate("performance.memory ? performance.memory.usedJSHeapSize / 1e6 : 0")
    found["heap"] = float(memory)
    browser.close_pages()
    return found


if __name__ == "__main__":
    main()
