"""odfbuild show: the rows of a dataset, as of some block, as a changelog or what it stands for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    ALL_ROWS,
    AsAt,
    AsOf,
    Key,
    Log,
    Name,
    RowOutput,
    SafeCsv,
    StoreOffline,
    To,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.formats.rows import (
    TABLE_ROWS,
    Destination,
    destination,
    shown_uuids,
    write_out,
)
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.app.inspection.views import ViewOptions
    from odfbuild.executors.data.views import DatasetView


def show(
    given: ProjectArguments,
    name: Name,
    current: Annotated[
        bool,
        typer.Option("--current", help="Show the current rows: those that were not retracted."),
    ] = False,
    log: Log = False,
    as_at: AsAt = None,
    as_of: AsOf = None,
    key: Key = None,
    output: RowOutput = None,
    to: To = None,
    safe_csv: SafeCsv = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help=f"The last N rows. {ALL_ROWS}")
    ] = None,
    offline: StoreOffline = False,
) -> int:
    """Show rows of a dataset: the changelog or the current rows.

    Without anything asked for these are the last ones of the changelog.
    """
    from odfbuild.app.inspection.views import ViewOptions

    asked = ViewOptions(at=as_at, of=as_of, log=log, key=tuple(key or ()))
    if log and current:
        raise UsageRefusedError(
            what="--log and --current exclude each other",
            why="the first shows the recorded changelog, the second the rows that result",
            fix="omit one of them",
        )
    goal = destination(output, to, safe_csv=safe_csv)
    project = open_given(given, offline=offline)
    plain = not (current or log or as_at is not None or as_of is not None)
    view = _view(project, name, asked, plain=plain and not goal.is_binary)
    schema, batches = view.columns(), view.batches()
    if goal.is_table and not schema.names:
        sys.stdout.write(f"{app.find_name(project, name)} has no rows yet\n")
        return exits.DONE
    if goal.is_table or limit is not None:
        most = limit or TABLE_ROWS
        found = view.last(most + 1)
        if limit is None and found.num_rows > most:
            hint_more_rows("last", most)
        if not found.num_rows:
            hint_no_rows(goal)
        batches = iter(found.slice(max(0, found.num_rows - most)).to_batches())
    if log and not goal.is_binary:
        schema, batches = _with_signs(view, schema, batches)
    write_out(goal, *shown_uuids(goal, schema, batches, view.uuids))
    return exits.DONE


def hint_more_rows(which: str, rows: int) -> None:
    """Say that a table does not have all rows."""
    hint(f"only the {which} {count(rows, 'row')}; -n N shows more, -o csv all\n")


def hint_no_rows(to: Destination) -> None:
    """Say of a table that it has no rows, which headings alone leave open."""
    if to.is_table:
        hint("no rows\n")


def _view(project: app.Opened, name: str, asked: ViewOptions, *, plain: bool) -> DatasetView:
    from odfbuild.app.inspection.views import NoDataError, view_of
    from odfbuild.executors.data.views import DatasetView
    from odfbuild.odf.chain.state import vocabulary
    from odfbuild.odf.events import DataSchema, SetVocab

    try:
        return view_of(project, name, replace(asked, log=True) if plain else asked)
    except NoDataError:
        if not plain:
            raise
        return DatasetView(paths=(), schema=DataSchema(()), vocab=vocabulary(SetVocab()))


def _with_signs(
    view: DatasetView, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the rows with the names of the operations in the place of their numbers.

    A number that is no operation stays, with a question mark.
    """
    import pyarrow as pa

    from odfbuild.executors.data.changelog import OPERATIONS

    at = schema.get_field_index(view.vocab.operation_type_column)
    if at < 0:
        return schema, iter(batches)
    signed = schema.set(at, schema.field(at).with_type(pa.string()))
    signs = dict(enumerate(OPERATIONS))

    def named(column: pa.Array) -> pa.Array:
        return pa.array([signs.get(each, f"{each}?") for each in column.to_pylist()], pa.string())

    return signed, (
        pa.RecordBatch.from_arrays(
            [named(each) if i == at else each for i, each in enumerate(batch.columns)],
            schema=signed,
        )
        for batch in batches
    )
