"""Samples of the tests that take long: those of `make test`, and of `make test EACH=1`.

Of a test with several cases, which differ little in what they hold, every sixth case stays.  One
with a single case is left out by `make test`, and stays with EACH=1, which so runs each test.
`make test ALL=1` runs all cases.  long_tests.txt names the tests that take long, with their times:

    python -m pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder --junit-xml R.xml
    python -m tests.support.sample R.xml
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["LIST", "family", "listed", "long_tests", "sampled"]

LIST = Path(__file__).with_name("long_tests.txt")
_ALONE, _TOGETHER = 2.0, 1.0  # seconds: of a test with one case, of all cases of one with more
_EVERY = 6


def family(name: str) -> str:
    """Return what the cases of one test share of their names."""
    return name.partition("[")[0]


def listed() -> frozenset[str]:
    """Return the tests that take long."""
    return frozenset(line.split()[-1] for line in LIST.read_text("ascii").splitlines())


def sampled(names: Iterable[str], long: frozenset[str], *, each: bool = False) -> list[bool]:
    """Say of each test whether it is in the sample; with `each` a case of every test is."""
    cases: dict[str, list[int]] = defaultdict(list)
    found = []
    for place, name in enumerate(names):
        found.append(True)
        if family(name) in long:
            cases[family(name)].append(place)
    for places in cases.values():
        for number, place in enumerate(places):
            found[place] = number % _EVERY == 0 and (each or len(places) > 1)
    return found


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
