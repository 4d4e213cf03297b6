"""Samples of the tests that take long: those of `make test`, and of `make test EACH=1`.

Of a test with several cases, which differ little in what they hold, every eighth case stays.  One
with a single case is left out by `make test`; with EACH=1 an eighth of them stays, which differs by
the commit.  `make test ALL=1` runs all cases.  long_tests.txt names the tests that take long, with
their times:

    python -m pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder --junit-xml R.xml
    python -m tests.support.sample R.xml
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["LIST", "commit_number", "family", "listed", "long_tests", "sampled"]

LIST = Path(__file__).with_name("long_tests.txt")
_ALONE, _TOGETHER = 1.0, 1.0  # seconds: of a test with one case, of all cases of one with more
_PART = 8


def family(name: str) -> str:
    """Return what the cases of one test share of their names."""
    return name.partition("[")[0]


def listed() -> Mapping[str, float]:
    """Return the tests that take long, and their seconds."""
    lines = map(str.split, LIST.read_text("ascii").splitlines())
    return {name: float(seconds) for seconds, _, name in lines}


def commit_number() -> int:
    """Return a number that differs from commit to commit; 0 where there is none."""
    asked = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(asked, cwd=LIST.parent, capture_output=True, text=True, check=False)
    return int(done.stdout or "0", 16)


def sampled(
    names: Iterable[str], long: Mapping[str, float], *, each: bool = False, commit: int = 0
) -> list[bool]:
    """Say of each test whether it is in the sample, which differs by the number of a commit.

    With `each`, so is an eighth of those with one case.
    """
    cases: dict[str, list[int]] = defaultdict(list)
    found = []
    for place, name in enumerate(names):
        found.append(True)
        if family(name) in long:
            cases[family(name)].append(place)
    single = {name for name, places in cases.items() if len(places) == 1}
    spared = _spared(single, long, commit)
    for name, places in cases.items():
        for number, place in enumerate(places):
            stays = name not in single or (each and name not in spared)
            found[place] = number % _PART == 0 and stays
    return found


def _spared(names: Iterable[str], long: Mapping[str, float], commit: int) -> Collection[str]:
    """Return seven eighths of the tests; each eighth takes about as long."""
    in_order = sorted(names, key=lambda name: (long[name], name))
    return frozenset(in_order) - frozenset(in_order[commit % _PART :: _PART])


def long_tests(seconds: Mapping[str, float]) -> Iterable[str]:
    """Return lines of what takes long: seconds, cases and the test, in the order of names."""
    together: dict[str, list[float]] = defaultdict(list)
    for name, took in seconds.items():
        together[family(name)].append(took)
    for name, each in sorted(together.items()):
        if sum(each) >= (_TOGETHER if len(each) > 1 else _ALONE):
            yield f"{sum(each):6.1f} {len(each):4} {name}"


def _names(report: Path) -> Mapping[str, float]:
    """Return the seconds of each test of a JUnit report."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        parts = case.attrib["classname"].split(".")
        place = next(
            place
            for place in range(len(parts), 0, -1)
            if Path(*parts[:place]).with_suffix(".py").exists()
        )
        path = Path(*parts[:place]).with_suffix(".py").as_posix()
        found["::".join([path, *parts[place:], case.attrib["name"]])] = float(case.attrib["time"])
    return found


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in long_tests(_names(Path(sys.argv[1])))), "ascii")
