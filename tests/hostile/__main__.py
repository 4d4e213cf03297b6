"""Count the cases of the attackers' corpus by boundary: `python -m tests.hostile`."""

import sys
from collections import Counter

import pytest


class _Counted:
    """How many cases there are by the first word of the sentence that they hold."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("holds"):
                self.cases.update({str(name).partition("-")[0] for name in mark.args})


def main() -> int:
    """Print a line for each boundary, and the sum."""
    counted = _Counted()
    code = pytest.main(["--collect-only", "-qq", "--no-header", "tests"], plugins=[counted])
    for boundary, cases in sorted(counted.cases.items()):
        print(f"{cases:6}  {boundary}")
    print(f"{counted.cases.total():6}  in all")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
