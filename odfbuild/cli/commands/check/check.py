"""odfbuild check: everything that is wrong with a project, in one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from odfbuild.app.check import (
    broken_datasets,
    examine_all,
    query_findings,
    settings_findings,
    unused_inputs,
)
from odfbuild.app.load_project import granted_at, load, wrong_of
from odfbuild.app.plan.changed_inputs import changed_inputs
from odfbuild.app.plan.sources import name_findings
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import CheckSelection
from odfbuild.cli.arguments.problems import all_problems
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.formats.check import CheckOutput, CheckReport, report_text
from odfbuild.cli.formats.findings import placed_hits
from odfbuild.cli.terminal.streams import as_it_is
from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors, by_place, merged
from odfbuild.planner.evolution.rules.policy import ACCEPTANCE_UNUSED
from odfbuild.planner.exclusion import plannable
from odfbuild.planner.plan.changes import Judgement
from odfbuild.project.checks.secrets import literal_secrets
from odfbuild.project.config.project_file import find_project
from odfbuild.project.lock import read_lock
from odfbuild.project.lock.state import Definitions, LockDifference, differences
from odfbuild.project.packages import package_differences

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan.changes import Hit
    from odfbuild.project.load import Project


_FETCHING = frozenset({"unsupported-source"})
"""Codes of problems that make nothing else look wrong."""


def check(
    given: ProjectArguments,
    selection: CheckSelection = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Rewrite manifests of older specifications first.")
    ] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="Exit with 3 if odfbuild.lock is out of date.")
    ] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="Also check queries and sources with the engine.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="git:REV",
            help="A reviewed revision: what the project permits itself (Python, the environment) "
            "is permitted only if it is there, too.",
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json", "github", "sarif"], typer.Option("-o", "--output")
    ] = "text",
) -> int:
    """Report all problems of the project. Needs no network and starts no JVM.

    With `fix`, manifests of older specifications are rewritten first.  `against` is a revision of
    git: of what the project switches on by itself, only that is on which is on there.
    """

    def opened(given: ProjectArguments) -> app.Opened:
        nonlocal fix
        project = open_given(given)
        if fix:
            fix = False
            _upgrade(project)
        return project

    report = project_report(
        given, opened, selection or (), against=against, locked=locked, engine=engine
    )
    root = find_project(Path.cwd(), given.directory).absolute()
    with as_it_is(output == "github"):
        sys.stdout.write(report_text(report, CheckOutput(output), _prefix(root)))
    if report.errors:
        return exits.ERROR
    return exits.REFUSED if report.outdated else exits.DONE


def project_report(
    given: ProjectArguments,
    opened: Callable[[ProjectArguments], app.Opened],
    selectors: Sequence[str] = (),
    *,
    against: str | None = None,
    locked: bool = False,
    engine: bool = False,
) -> CheckReport:
    """Return what a check of a project finds; `opened` gives the project of the arguments.

    Of what is wrong with its files nothing is raised.  Raises other OdfBuildErrors.
    """
    try:
        project = opened(given)
        granted = None if against is None else granted_at(project, against)
        loaded = load(project, granted=granted)
        read_lock(project.root)
    except ProjectErrors as error:
        return _report_with(given, opened, selectors, error, against)
    return _checked(project, loaded, selectors, locked=locked, engine=engine)


def _report_with(
    given: ProjectArguments,
    opened: Callable[[ProjectArguments], app.Opened],
    selectors: Sequence[str],
    met: ProjectErrors,
    against: str | None,
) -> CheckReport:
    """Return all problems of the files, and those of all definitions that can be judged: what is
    wrong itself, or reads such a dataset, is left out.
    """
    found = all_problems(given, met, against, opened)
    try:
        project = opened(given)
        granted = None if against is None else granted_at(project, against)
        loaded = load(project, granted=granted, tolerated=_FETCHING, partly=True)
        states = project.workspace.states()
        wrong = {
            alias: problems
            for alias, each in loaded.wrong.items()
            if (problems := [problem for problem in each if problem.code not in _FETCHING])
        }
        sound = plannable(loaded.declared, states, wrong_of(project, replace(loaded, wrong=wrong)))
        rest = replace(loaded, declared=sound.declared)
        report = _checked(project, rest, selectors, locked=False, engine=False)
    except OdfBuildError:
        return CheckReport(datasets=None, found=found)
    return _joined(found, report)


def _joined(found: tuple[Diagnostic, ...], report: CheckReport) -> CheckReport:
    """Return a report of what can be judged, with problems that were found before."""
    known = set(map(_matter, found))
    more = (each for each in report.found if _matter(each) not in known)
    everything = tuple(sorted((*found, *merged(more)), key=by_place))
    joined = CheckReport(datasets=None, found=everything, hits=report.hits)
    judged = report.judged
    return joined if judged is None else replace(joined, judged=lambda: _joined(found, judged()))


def _matter(found: Diagnostic) -> tuple[object, ...]:
    """Return what tells findings apart: their place, or what they say where they have none."""
    place = by_place(found)
    return (found.code, *(place if found.span is None else place[:3]))


def _as_unused(found: Diagnostic) -> tuple[object, ...]:
    """Return what the gate says of an acceptance of a dataset that is not declared."""
    return _matter(
        replace(found, code=ACCEPTANCE_UNUSED.code) if found.code == "idle-acceptance" else found
    )


def _prefix(root: Path) -> str:
    """Return the folder of a project in its repository, with a slash behind it if it is below."""
    top = next((each for each in (root, *root.parents) if (each / ".git").exists()), root)
    inside = root.relative_to(top).as_posix()
    return "" if inside == "." else f"{inside}/"


def _upgrade(project: app.Opened) -> None:
    from odfbuild.cli.commands.author.upgrade import upgrade_safely

    sys.stderr.write(upgrade_safely([project.root / folder for folder in project.folders]))


def _checked(
    project: app.Opened,
    loaded: Project,
    selectors: Sequence[str],
    *,
    locked: bool,
    engine: bool,
) -> CheckReport:
    wanted = selected_datasets(project, loaded.declared, selectors)
    everything = not (selectors or loaded.wrong or loaded.unread)
    selected = [each for each in loaded.declared if each.alias in wanted]
    facts = examine_all(loaded.declared if engine else selected)
    texts = query_findings(loaded.declared if engine else selected, facts)
    found = [p for alias, problems in texts.items() if alias in wanted for p in problems]
    found += [doubt for each in selected for doubt in unused_inputs(each, facts)]
    found += [each for at in selected for each in literal_secrets(at, Level.WARNING)]
    found += _notes(project, loaded, selected, everything=everything)
    broken = broken_datasets(texts)
    states = project.workspace.states()
    if engine:
        from odfbuild.app.check import engine_findings

        found += engine_findings(project, loaded.declared, wanted, broken)
    else:
        from odfbuild.app.plan.query_errors import column_findings, quick_engines

        lock = read_lock(project.root)
        with quick_engines(project, selected) as asker:
            problems = column_findings(
                loaded.declared, states, lock, wanted, broken=broken, asker=asker
            )
            found += [problem for _, problem in problems]
    found += name_findings(project, selected, states)
    found += [
        p
        for alias, each in changed_inputs(project, states).items()
        if alias in wanted
        for p in each
    ]
    found += _test_findings(project, loaded, wanted, everything=everything)
    outdated = _outdated(project, loaded, wanted, everything=everything) if locked else None
    report = CheckReport(
        datasets=len(wanted), found=tuple(sorted(found, key=by_place)), outdated=outdated
    )
    return replace(report, judged=partial(_judged, project, loaded, states, report))


def _judged(
    project: app.Opened,
    loaded: Project,
    states: Mapping[DatasetAlias, ChainState],
    report: CheckReport,
) -> CheckReport:
    """Return a report with what a plan of the definitions finds, against these chains."""
    from odfbuild.app.plan.make_plan import plan_definitions

    hits: Iterator[Hit] = iter(())
    try:
        plan = plan_definitions(project, loaded, states)
    except OdfBuildError as error:
        objections = error.diagnostics()
    else:
        objections = tuple(each for each in plan.notes if each.level is not Level.NOTE)
        hits = filter(_is_objection, placed_hits(plan))
    known = {*map(_matter, report.found), *map(_as_unused, report.found)}
    more = (each for each in objections if _matter(each) not in known)
    found = tuple(sorted((*report.found, *more), key=by_place))
    return replace(report, found=found, hits=tuple(hits), judged=None)


def _is_objection(hit: Hit) -> bool:
    return hit.judged not in (Judgement.ACCEPTED, Judgement.PASSED)


def _test_findings(
    project: app.Opened,
    loaded: Project,
    wanted: Collection[DatasetAlias],
    *,
    everything: bool,
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the files of tests, of those that are about selected datasets."""
    from odfbuild.executors.testing.files import Tests, load_tests

    tests = load_tests(project.root)
    yield from tests.found
    if not everything:
        tests = Tests(
            fixtures=tuple(each for each in tests.fixtures if each.dataset in wanted),
            checks=tuple(each for each in tests.checks if each.dataset in wanted),
        )
    if tests.fixtures or tests.checks:
        from odfbuild.executors.testing.problems import Schemas, test_problems

        yield from test_problems(project.root, Schemas(project, loaded.declared), tests)


def _notes(
    project: app.Opened, loaded: Project, selected: Sequence[Declared], *, everything: bool
) -> Iterator[Diagnostic]:
    """Yield what was noted when the files were read, of the files of selected datasets only."""
    files = {each.file for each in selected}
    for note in loaded.notes:
        if everything or (note.span is not None and note.span.file in files):
            yield note
    if everything:
        yield from settings_findings(project.config, {each.alias for each in loaded.declared})


def _outdated(
    project: app.Opened,
    loaded: Project,
    wanted: Collection[DatasetAlias],
    *,
    everything: bool,
) -> tuple[LockDifference, ...]:
    lock = read_lock(project.root)
    names = project.workspace.aliases()
    found = differences(lock, Definitions(loaded.declared, names))
    if everything:
        return (*package_differences(project.root, project.config, lock), *found)
    selected = {str(alias) for alias in wanted}
    return tuple(each for each in found if each.name in selected)
