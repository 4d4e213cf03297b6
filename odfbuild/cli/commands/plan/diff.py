"""odfbuild diff: differences of rows, schemas and definitions between two states."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.app.inspection.diff import Names, Side, both_sides, names_of
from odfbuild.app.inspection.uuids import with_uuids
from odfbuild.app.inspection.views import uuids_of_dataset
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.diff import event_difference, row_lines
from odfbuild.cli.render.words import column_text
from odfbuild.cli.terminal.console import printable
from odfbuild.cli.unreadable import load_readable, read_code, refuse_wrong
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.load import Project

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan.changes import ColumnChange


def diff(
    given: ProjectArguments,
    name: Name,
    before: Annotated[
        str | None,
        typer.Argument(
            metavar="[A]",
            help="A block (head, another reference, a number, a hash or six characters of it), "
            "`declared`, or git:REVISION. Default: head.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="The same. Default: declared; with --data head."),
    ] = None,
    data: Annotated[
        bool, typer.Option("--data", help="Compare the rows of two blocks instead.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=0, help="With --data: number of rows to show.")
    ] = 20,
) -> int:
    """Compare two states of a dataset. Definition and schema, or rows."""
    if data:
        return show_row_difference(given, name, before, after, limit)
    return show_difference(given, name, before, after)


def show_difference(
    given: ProjectArguments, name: str, before: str | None, after: str | None
) -> int:
    """Print how the definition and the schema differ between two states of a dataset."""
    project = open_given(given)
    alias, read = DatasetAlias.parse(name), list[Project]()

    def definitions() -> Sequence[Declared]:
        read.append(load_readable(project))
        refuse_wrong(read[-1], alias)
        return read[-1].sound

    sides = both_sides(project, alias, before or "head", after or "declared", definitions)
    sys.stdout.write("".join(f"{line}\n" for line in _lines(name, *sides, names_of(project))))
    return read_code(read[-1] if read else None)


def _lines(name: str, before: Side, after: Side, names: Names) -> Iterator[str]:
    yield printable(f"{name}: {before.title} -> {after.title}")
    found = [*_events(before, after, names), *_schema(before, after)]
    yield from found
    if not found:
        yield ""
        yield "No differences."


def _events(before: Side, after: Side, names: Names) -> Iterator[str]:
    for slot in dict.fromkeys((*before.events, *after.events)):
        if slot in before.unset or slot in after.unset:
            continue
        lines = event_difference(before.events.get(slot), after.events.get(slot), names)
        if lines:
            yield ""
            yield printable(slot)
            yield from (f"  {line}" for line in lines)


def _schema(before: Side, after: Side) -> Iterator[str]:
    unknown = before.unknown or after.unknown
    changes: Sequence[ColumnChange] = ()
    if before.schema is not None and after.schema is not None:
        from odfbuild.planner.evolution.columns.compare import compare_schemas

        changes = compare_schemas(before.schema, after.schema)
    lines = [column_text(each) for each in changes]
    lines += [f"not known: {unknown}"] if unknown is not None else []
    if lines:
        yield ""
        yield "Schema"
        yield from (f"  {printable(line)}" for line in lines)


def show_row_difference(
    given: ProjectArguments, name: str, before: str | None, after: str | None, limit: int
) -> int:
    """Print how the rows of a dataset differ between two blocks; by default what came last."""
    from odfbuild.executors.verify.row_difference import before_last, row_difference
    from odfbuild.state.chain.refs import find_block

    project = open_given(given)
    dataset = app.find_dataset(project, name)
    end = find_block(dataset, after or "head")
    start = before_last(dataset, end) if before is None else find_block(dataset, before)
    found = row_difference(dataset, start, end, limit)
    uuids = uuids_of_dataset(project, dataset.id)
    shown = (
        replace(each, before=with_uuids(each.before, uuids), after=with_uuids(each.after, uuids))
        for each in found.shown
    )
    found = replace(found, shown=tuple(shown))
    sys.stdout.write(f"{printable(name)}: rows at {start.short()} -> {end.short()}\n")
    sys.stdout.write("".join(f"{line}\n" for line in row_lines(found)))
    return exits.DONE
