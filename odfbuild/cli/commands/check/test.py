"""odfbuild test: fixtures for queries, checks on rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from odfbuild.app.test import Testing, data_tests, prepared, unit_tests
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import CheckSelection, PlanExclude, Reports
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.files import parse_reports
from odfbuild.cli.formats.tests import FAILED, PASSED, SKIPPED, WARNED, Tested, of_check, of_fixture
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared

_WORDS: Final = {PASSED: "ok     ", FAILED: "FAILED ", WARNED: "warned ", SKIPPED: "skipped"}
_LEVELS: Final = {FAILED: "error", WARNED: "warning"}
_REPORTS: Final = {"junit": "a test case for each test", "json": "what -o json prints"}


def test(
    given: ProjectArguments,
    selection: CheckSelection = None,
    exclude: PlanExclude = None,
    unit: Annotated[
        bool, typer.Option("--unit", help="Only the fixtures of queries, below tests/unit.")
    ] = False,
    data: Annotated[
        bool, typer.Option("--data", help="Only the checks on rows, below tests/data.")
    ] = False,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="Run each fixture a second time with all of its batches in one, which must give "
            "the same rows.",
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=1, help="Number of fixtures at a time.")
    ] = 4,
    output: Annotated[
        Literal["text", "json", "ndjson"],
        typer.Option("-o", "--output", help="Format of the findings."),
    ] = "text",
    report: Reports = None,
) -> int:
    """Run unit tests of queries and checks of rows. Only the checks need a workspace."""
    unit, data = unit or not data, data or not unit
    reports = parse_reports(report or (), _REPORTS)
    if batches and not unit:
        raise UsageRefusedError(
            what="--batches is for fixtures, which --data leaves out",
            why="checks read the present rows",
            fix="omit one of the two",
        )
    project = open_given(given)
    testing = prepared(
        project,
        _choosing(project, selection or (), exclude or ()),
        unit=unit,
        data=data,
    )
    tests = _tests(testing, merged=batches, jobs=jobs)
    tested = list(_WRITERS[output](tests, testing))
    for format, text in (("json", _document), ("junit", _junit)):
        if reports.wants(format):
            reports.write(format, text(tested))
    failed = any(each.outcome == FAILED for each in tested)
    return exits.NOT_VERIFIED if failed else exits.DONE


def _choosing(
    project: app.Opened, selectors: Sequence[str], exclude: Sequence[str]
) -> Callable[[Sequence[Declared]], Collection[DatasetAlias]] | None:
    if not selectors and not exclude:
        return None
    from odfbuild.cli.arguments.selection import selected_datasets

    return lambda declared: selected_datasets(project, declared, selectors, exclude)


def _tests(testing: Testing, *, merged: bool, jobs: int) -> Iterator[Tested]:
    for ran in unit_tests(testing, merged=merged, jobs=jobs):
        yield of_fixture(ran)
    for result in data_tests(testing):
        yield of_check(result)


def _text(tests: Iterator[Tested], testing: Testing) -> Iterator[Tested]:
    """Print a line a test as it is done, and below it what is said of it."""
    tests_of = testing.tests
    names = [each.dataset for each in tests_of.fixtures] + [c.dataset for c in tests_of.checks]
    width = max((len(str(each)) for each in names), default=0)
    tested = []
    for each in tests:
        name = printable(f"{each.dataset:<{width}}  {each.name}")
        line = f"{_WORDS[each.outcome]} {each.kind}  {name}: {printable(each.few)}"
        said = [f"  {part}".rstrip() for part in each.said.split("\n")] if each.said else []
        sys.stdout.write("".join(f"{part}\n" for part in (line, *said)))
        sys.stdout.flush()
        tested.append(each)
        yield each
    sys.stdout.write(_last_line(tested))


def _last_line(tested: Sequence[Tested]) -> str:
    if not tested:
        return "No tests: no file below tests/unit or tests/data is for these datasets.\n"
    summary = _summary(tested)
    shown = (PASSED, WARNED, SKIPPED, FAILED)
    parts = [f"{summary[each]} {each}" for each in shown if summary[each] or each == PASSED]
    return f"{count(len(tested), 'test')}: {', '.join(parts)}.\n"


def _json(tests: Iterator[Tested], _: Testing) -> Iterator[Tested]:
    tested = list(tests)
    sys.stdout.write(_document(tested))
    yield from tested


def _ndjson(tests: Iterator[Tested], testing: Testing) -> Iterator[Tested]:
    """Print an event for each test as it is done."""
    from odfbuild.cli.terminal.events import printed_events

    count_of = len(testing.tests.fixtures) + len(testing.tests.checks)
    with printed_events(testing.project, "test", count_of) as (events, counts):
        counts.update(_summary(()))
        for each in tests:
            told = {key: value for key, value in each.entry.items() if key != "dataset"}
            level = _LEVELS.get(each.outcome, "info")
            events.add("check_result", each.dataset, level, **told)
            counts[each.outcome] += 1
            yield each


def _document(tested: Sequence[Tested]) -> str:
    document = {
        "format_version": "1.0",
        "tests": [each.entry for each in tested],
        "summary": _summary(tested),
    }
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def _summary(tested: Sequence[Tested]) -> dict[str, int]:
    return {
        word: sum(each.outcome == word for each in tested)
        for word in (PASSED, WARNED, SKIPPED, FAILED)
    }


def _junit(tested: Sequence[Tested]) -> str:
    from odfbuild.cli.formats.junit import render_cases

    return render_cases("odfbuild test", [each.case for each in tested])


_WRITERS: Final[Mapping[str, Callable[[Iterator[Tested], Testing], Iterator[Tested]]]] = {
    "text": _text,
    "json": _json,
    "ndjson": _ndjson,
}
