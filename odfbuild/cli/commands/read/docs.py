"""odfbuild docs: the catalogue of a project as one offline file of HTML."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, Selection, StoreOffline
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.files import require_folder, write_output
from odfbuild.cli.saved import load_plan, stale_datasets
from odfbuild.cli.terminal.console import hint, printable
from odfbuild.cli.unreadable import is_damaged, load_readable, read_code
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild.app.inspection.catalogue import Catalogue
    from odfbuild.app.inspection.trial import RowsTried
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import Plan
    from odfbuild.project.opened import Opened
    from odfbuild.state.runs import RunSummary

DEFAULT_FILE = Path("catalogue.html")


def build(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="The file to write; - is standard output."),
    ] = DEFAULT_FILE,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Also show a plan that `plan --out FILE` saved: the page begins with it.",
        ),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(
            "--tests",
            metavar="FILE",
            help="Also show test results, as written by `test --report json=FILE`.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Also show a recorded run as a timeline: its id, a part of it, or `last`.",
        ),
    ] = None,
    data_diff: Annotated[
        int | None,
        typer.Option(
            "--data-diff",
            metavar="N",
            min=1,
            help="With --plan: run changed queries over the last N rows of each input, and show "
            "which result rows differ. Starts an engine.",
        ),
    ] = None,
    blocks: Annotated[
        int,
        typer.Option("--blocks", min=0, help="Show the newest N blocks of each chain."),
    ] = 30,
    offline: StoreOffline = False,
) -> int:
    """Write the catalogue of the project as one offline HTML file: datasets, graph, plan, run."""
    if str(out) != "-":
        require_folder(out)
    if data_diff is not None and plan is None:
        raise UsageRefusedError(
            what="--data-diff compares rows of the changed queries of a plan, and there is none",
            why="without a plan no query changes",
            fix="add --plan FILE, of `odfbuild plan --out FILE`",
        )
    saved = None if plan is None else load_plan(plan)
    project = open_given(given, offline=offline)
    from odfbuild.app.inspection.catalogue import catalogue_of
    from odfbuild.cli.page.catalogue.document import catalogue_document
    from odfbuild.cli.page.catalogue.outcomes import read_outcomes

    recorded = None if run is None else _recorded(project, run)
    outcomes = {} if tests is None else read_outcomes(tests)
    loaded = load_readable(project)
    chosen = None
    if selection or exclude:
        chosen = selected_datasets(project, loaded.declared, selection or (), exclude or ())
    found = catalogue_of(project, loaded, chosen=chosen, blocks=blocks, outcomes=outcomes)
    moved: tuple[DatasetAlias, ...] = ()
    if saved is not None and saved.against is None and project.workspace.root.exists():
        moved = stale_datasets(saved, project)
    tried = () if saved is None or data_diff is None else _tried(project, saved, moved, data_diff)
    text = catalogue_document(found, plan=saved, moved=moved, tried=tried, run=recorded)
    if str(out) == "-":
        sys.stdout.write(text)
    else:
        write_output(out, text)
        hint(printable(_summary(found, out, len(text))) + "\n")
    _report(found)
    shown = [each.alias for each in found.entries]
    damaged = is_damaged(project.workspace, shown, all_of=chosen is None)
    return exits.ERROR if damaged or found.wrong_tests else read_code(loaded)


def _tried(
    project: Opened, plan: Plan, moved: Sequence[DatasetAlias], rows: int
) -> Sequence[RowsTried]:
    """Return what changed queries make of the newest rows of each input."""
    from odfbuild.app.inspection.trial import try_queries

    if moved or plan.against is not None:
        raise UsageRefusedError(
            what="the rows of this plan cannot be compared",
            why="datasets moved since it was made"
            if moved
            else "it is not against the workspace, which has the rows",
            fix="make the plan again, or omit --data-diff",
        )
    return try_queries(project, plan, rows)


def _recorded(project: Opened, text: str) -> tuple[RunSummary, list[Mapping[str, Any]]]:
    """Return a run and its events.  Raises UnknownRunError, DamagedRunError."""
    from odfbuild.state.runs import find_run, read_events

    project.workspace.bring_runs()
    root = project.workspace.root
    summary = find_run(root, text)
    return summary, list(read_events(root, summary.id))


def _summary(found: Catalogue, out: Path, size: int) -> str:
    from odfbuild.cli.render.words import bytes_text, count

    applied = "" if found.is_applied or not found.entries else ", none of them applied yet"
    return f"{out}: {count(len(found.entries), 'dataset')}{applied}, {bytes_text(size)}"


def _report(found: Catalogue) -> None:
    """Write to stderr what is wrong with files of tests; of definitions that was said before."""
    if found.wrong_tests:
        from odfbuild.cli.render.diagnostics import render_diagnostics

        sys.stderr.write(render_diagnostics(found.wrong_tests) + "\n")
