"""Outcomes of tests, as `odfbuild test --report json=FILE` wrote them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odfbuild.app.inspection.catalogue import TestKey, TestOutcome
from odfbuild.cli.files import read_bounded
from odfbuild.cli.formats.tests import FAILED, PASSED, SKIPPED, WARNED
from odfbuild.errors import ProjectError
from odfbuild.host.json_text import parse_json

MAX_BYTES = 1 << 28
_OUTCOMES = (PASSED, WARNED, FAILED, SKIPPED)


class NotTestResultsError(ProjectError):
    """A file is not a JSON report of `odfbuild test`."""

    code = "not-test-results"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            what=f"{path} has no results of tests",
            why=why,
            fix="name a file that `odfbuild test --report json=FILE` wrote",
        )


def read_outcomes(path: Path) -> Mapping[TestKey, TestOutcome]:
    """Return the outcome of each test; - is standard input.

    Raises NotTestResultsError; OSError when the file cannot be read.
    """
    try:
        document = parse_json(read_bounded(path, MAX_BYTES))
    except ValueError as error:
        raise NotTestResultsError(path, "it is no JSON document") from error
    tests = document.get("tests") if isinstance(document, dict) else None
    if not isinstance(tests, list):
        raise NotTestResultsError(path, "it has no list of tests")
    return dict(_outcome(path, each) for each in tests)


def _outcome(path: Path, entry: Any) -> tuple[TestKey, TestOutcome]:
    match entry:
        case {
            "kind": "unit" | "data" as kind,
            "dataset": str(dataset),
            "name": str(name),
            "outcome": str(outcome),
        } if outcome in _OUTCOMES:
            failing, looked = entry.get("failing"), entry.get("rows")
            return (kind, dataset, name), TestOutcome(
                outcome,
                failing if isinstance(failing, int) else None,
                looked if isinstance(looked, int) else None,
            )
    raise NotTestResultsError(path, "one of its tests has no kind, dataset, name or outcome")
