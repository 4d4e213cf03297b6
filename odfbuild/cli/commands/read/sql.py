"""odfbuild sql: one SELECT over datasets by name; nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    ALL_ROWS,
    AsAt,
    AsOf,
    Key,
    Log,
    RowOutput,
    SafeCsv,
    StoreOffline,
    To,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.errors import UsageRefusedError
from odfbuild.project.config.engines import DEFAULT_ENGINE

if TYPE_CHECKING:
    from odfbuild.cli.formats.rows import Destination
    from odfbuild.executors.data.frames import Frame
    from odfbuild.odf.schema.value_paths import ValuePath

_MOST_BYTES = 1 << 20


def sql(
    given: ProjectArguments,
    query: Annotated[
        str | None,
        typer.Argument(help="One SELECT; names of datasets with dots go in backticks."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the query from this file; - is stdin.")
    ] = None,
    log: Log = False,
    as_at: AsAt = None,
    as_of: AsOf = None,
    key: Key = None,
    output: RowOutput = None,
    to: To = None,
    safe_csv: SafeCsv = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help=f"The first N rows. {ALL_ROWS}")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", help="The dialect of the SQL: spark, or datafusion without Java."),
    ] = DEFAULT_ENGINE,
    offline: StoreOffline = False,
) -> int:
    """Query datasets by name. Read-only."""
    from odfbuild.app.inspection.question import Question, answered
    from odfbuild.app.inspection.views import ViewOptions
    from odfbuild.cli.formats.rows import TABLE_ROWS, destination
    from odfbuild.planner.queries import copied_uuids

    asked = ViewOptions(at=as_at, of=as_of, log=log, key=tuple(key or ()))
    goal = destination(output, to, safe_csv=safe_csv)
    question = Question(*_question(query, file), engine)
    project = open_given(given, offline=offline)
    most = limit
    if goal.is_table and limit is None:
        most = TABLE_ROWS + 1  # one more tells that there are more
    views = question.views(project, asked)
    with answered(project, question, views, most) as found:
        inputs = {each: (view.schema, view.uuids) for each, view in views.items()}
        uuids = copied_uuids(question.steps, inputs)
        _print(found, goal, uuids, cut=limit is None)
    return exits.DONE


def _print(found: Frame, to: Destination, uuids: frozenset[ValuePath], *, cut: bool) -> None:
    from odfbuild.cli.commands.read.show import hint_more_rows, hint_no_rows
    from odfbuild.cli.formats.rows import TABLE_ROWS, shown_uuids, write_out

    if to.is_table and cut and found.rows > TABLE_ROWS:
        hint_more_rows("first", TABLE_ROWS)
        found = found.slice(0, TABLE_ROWS)
    if not found.rows:
        hint_no_rows(to)
    write_out(to, *shown_uuids(to, found.schema, found.batches(), uuids))


def _question(text: str | None, file: Path | None) -> tuple[str, str]:
    """Return the text of the question and the name under which errors show it."""
    from odfbuild.cli.files import read_bounded, refusal_of

    if (text is None) == (file is None):
        raise UsageRefusedError(
            what="one query is run at a time" if text is not None else "there is no query",
            why="it is given as text or in a file",
            fix='write odfbuild sql "select ...", or odfbuild sql -f FILE',
        )
    if file is None:
        return text or "", "query"
    try:
        return read_bounded(file, _MOST_BYTES).decode(), str(file)
    except OSError as error:
        found = f"the file cannot be read: {error.strerror or error}"
        raise refusal_of(file, found, "it holds the query", "check its name") from None
    except UnicodeDecodeError:
        raise refusal_of(file, "the file is not text in UTF-8", "", "convert it") from None
