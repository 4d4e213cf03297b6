"""Tests of a project's datasets: fixtures for its queries, checks on existing rows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.load_project import load
from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.executors.engine.registry import engine_of
from odfbuild.executors.testing.files import Tests, load_tests
from odfbuild.executors.testing.model import On, RowCheck, SqlRule
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.project.config.engines import DEFAULT_ENGINE
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.testing.fixtures import FixtureResult
    from odfbuild.executors.testing.problems import Schemas
    from odfbuild.executors.testing.results import Result


Choose = Callable[[Sequence[Declared]], Collection[DatasetAlias]]


@dataclass(frozen=True, slots=True)
class Testing:
    """A project, and the tests that are to be run: sound as far as their texts tell."""

    project: Opened
    tests: Tests
    schemas: "Schemas"


def prepared(project: Opened, choose: Choose | None, *, unit: bool, data: bool) -> Testing:
    """Read the tests of a project and keep those of some datasets.

    Raises ProjectErrors with all that is wrong in the files.
    """
    from odfbuild.executors.testing.problems import Schemas, test_problems

    declared = load(project).declared
    tests = load_tests(project.root, unit=unit, data=data)
    schemas = Schemas(project, declared)
    found = (*tests.found, *test_problems(project.root, schemas, tests))
    if found:
        raise ProjectErrors(sorted(found, key=_by_place))
    if choose is not None:
        chosen = choose(declared)
        tests = Tests(
            fixtures=tuple(each for each in tests.fixtures if each.dataset in chosen),
            checks=tuple(each for each in tests.checks if each.dataset in chosen),
        )
    return Testing(project, tests, schemas)


def _by_place(found: Diagnostic) -> tuple[str, int, int]:
    span = found.span
    return ("", 0, 0) if span is None else (span.file, span.line, span.column)


def unit_tests(testing: Testing, *, merged: bool, jobs: int) -> "Iterator[FixtureResult]":
    """Run the fixtures, `jobs` at a time, on one engine; yield what became of each, in order.

    Raises ProjectErrors, before anything runs, with all rows that do not fit their datasets.
    """
    from odfbuild.executors.process.interrupt import result_of, stop, stoppable
    from odfbuild.executors.testing.fixtures import portions, run_fixture

    if not testing.tests.fixtures:
        return
    project, root = testing.project, testing.project.root
    engine = engine_of(project)
    with ExitStack() as stack:
        stack.callback(engine.close)
        engine.prepare(0)
        found: list[Diagnostic] = []
        ready = []
        for fixture in testing.tests.fixtures:
            subject = testing.schemas.subject(fixture, found)
            if subject is not None:
                ready.append((fixture, subject, portions(root, subject, fixture, found)))
        if found:
            raise ProjectErrors(found)
        folder = stack.enter_context(project.workspace.staging())
        stack.enter_context(stoppable())
        pool = stack.enter_context(ThreadPoolExecutor(jobs, "fixture"))
        running = [
            pool.submit(
                run_fixture, root, *each, engine, folder / f"fixture-{number}", merged=merged
            )
            for number, each in enumerate(ready)
        ]
        try:
            for each in running:
                yield result_of(each)
        except BaseException:
            stop()
            engine.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def data_tests(testing: Testing) -> "Iterator[Result]":
    """Make the checks on the rows of the workspace; yield what became of each, in their order.

    An engine is started only if there are queries among them.
    """
    groups: dict[tuple[DatasetAlias, On], list[RowCheck]] = {}
    for check in testing.tests.checks:
        groups.setdefault((check.dataset, check.on), []).append(check)
    found: dict[int, Result] = {}
    engine = engine_of(testing.project)
    try:
        if any(isinstance(check.rule, SqlRule) for check in testing.tests.checks):
            engine.prepare(queries=[DEFAULT_ENGINE])
        for (dataset, on), checks in groups.items():
            for result in _results(testing, engine, dataset, on, checks):
                found[id(result.check)] = result
    finally:
        engine.close()
    yield from (found[id(check)] for check in testing.tests.checks)


def _results(
    testing: Testing, engine: object, dataset: DatasetAlias, on: On, checks: Sequence[RowCheck]
) -> "Sequence[Result]":
    from odfbuild.executors.testing.datasets import run_checks

    now = Timestamp.from_millis(time_ns() // 1_000_000)
    return run_checks(testing.project.workspace, engine, dataset, on, checks, now)
