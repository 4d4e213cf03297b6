"""odfbuild sql: one SELECT over datasets by name; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import ALL_ROWS, AsAt, AsOf, Key, Log, RowOutput, SafeCsv, To
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.exits import UsageRefusedError
from odfbuild.errors import Diagnostic, InvalidQueryError, OdfBuildError, ProjectErrors, SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.texts.suggest import did_you_mean

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.cli.commands.read.views import ViewOptions
    from odfbuild.cli.formats.rows import Destination
    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.data.views import DatasetView
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.odf.schema.value_paths import ValuePath
    from odfbuild.sql.analysis.facts import QueryFacts

_MOST_BYTES = 1 << 20
_REFUSED = (Reason.SYNTAX, Reason.UNKNOWN_INPUT, Reason.ENVIRONMENT, Reason.FOREIGN_CODE)


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
) -> int:
    """Query datasets by name with Spark SQL; nothing is changed."""
    from odfbuild.app.inspection.query import answered
    from odfbuild.cli.commands.read.views import ViewOptions
    from odfbuild.cli.formats.rows import TABLE_ROWS, destination
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.planner.queries import copied_uuids

    asked = ViewOptions(at=as_at, of=as_of, log=log, key=tuple(key or ()))
    goal = destination(output, to, safe_csv=safe_csv)
    question, name = _question(query, file)
    project = open_given(given)
    most = limit
    if goal.is_table and limit is None:
        most = TABLE_ROWS + 1  # one more tells that there are more
    views = _views(project, question, name, asked)
    try:
        with answered(project, question, views, most) as found:
            inputs = {each: (view.schema, view.uuids) for each, view in views.items()}
            uuids = copied_uuids((QueryStep(None, question),), inputs)
            _print(found, goal, uuids, cut=limit is None)
    except PlacedQueryError as error:
        raise _placed(error, question, name) from None
    return exits.DONE


def _print(found: Frame, to: Destination, uuids: frozenset[ValuePath], *, cut: bool) -> None:
    from odfbuild.cli.commands.read.show import tell_more, tell_none
    from odfbuild.cli.formats.rows import TABLE_ROWS, shown_uuids, write_out

    if to.is_table and cut and found.rows > TABLE_ROWS:
        tell_more("first", TABLE_ROWS)
        found = found.slice(0, TABLE_ROWS)
    if not found.rows:
        tell_none(to)
    write_out(to, *shown_uuids(to, found.schema, found.batches(), uuids))


def _question(text: str | None, file: Path | None) -> tuple[str, str]:
    """Return the text of the question and the name under which errors show it."""
    from odfbuild.cli.files import read_bounded, refusal_of

    if (text is None) == (file is None):
        raise UsageRefusedError(
            what="one question is asked" if text is not None else "there is no question",
            why="it is given as text, or in a file",
            fix='write odfbuild sql "select ...", or odfbuild sql -f FILE',
        )
    if file is None:
        return text or "", "query"
    try:
        return read_bounded(file, _MOST_BYTES).decode(), str(file)
    except OSError as error:
        found = f"the file cannot be read: {error.strerror or error}"
        raise refusal_of(file, found, "it holds the question", "check its name") from None
    except UnicodeDecodeError:
        raise refusal_of(file, "the file is not text in UTF-8", "", "convert it") from None


def _views(
    project: app.Opened, question: str, name: str, asked: ViewOptions
) -> Mapping[str, DatasetView]:
    """Return what the question reads, by the names that it uses."""
    from odfbuild.cli.commands.read.views import is_time, view_of
    from odfbuild.sql.analysis.facts import examine

    known = list(map(str, project.workspace.names()))
    used = tuple(dict.fromkeys(_known(question, project)))
    facts = examine((QueryStep(None, question),), (*used, *known), ())
    found = tuple(_findings(facts, question, name, known))
    if found:
        raise ProjectErrors(found)
    if asked.at is not None and len(used) > 1 and not is_time(asked.at):
        raise UsageRefusedError(
            what=f"--as-at {asked.at}: the question reads {len(used)} datasets",
            why="a block is one of a single dataset",
            fix="give the time of the block, which odfbuild log shows",
        )
    return {each: view_of(project, each, asked) for each in used}


def _known(question: str, project: app.Opened) -> Iterator[str]:
    """Yield the names in the question that are those of datasets, however they are spelled."""
    names = project.workspace.names()
    try:
        tables = read(question).tables
    except SqlTextError:
        return
    for each in tables:
        try:
            alias = DatasetAlias.parse(each.text)
        except OdfBuildError:
            continue
        if alias in names:
            yield each.text


def _findings(
    facts: QueryFacts, question: str, name: str, known: list[str]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the question, each at its place."""
    from odfbuild.sql.analysis.facts import diagnostics

    for each, told in zip(facts.about(*_REFUSED), diagnostics(facts, _REFUSED), strict=True):
        place = each.place
        what = told.what.removesuffix(f" (line {place.line}, column {place.column})")
        found = replace(told, what=what, span=_span(name, question, place))
        match each.reason:
            case Reason.UNKNOWN_INPUT if each.hint != each.name:
                yield _unknown(found, each.name, known)
            case Reason.ENVIRONMENT | Reason.FOREIGN_CODE:
                yield replace(found, why="a question reads datasets, and nothing else")
            case _:
                yield found


def _unknown(found: Diagnostic, name: str, known: list[str]) -> Diagnostic:
    return replace(
        found,
        what=f"no dataset named '{name}' in the workspace",
        why="a question reads datasets by name, in backticks if there are dots in it",
        fix=did_you_mean(name, known) or "odfbuild status lists the datasets",
    )


def _placed(error: PlacedQueryError, question: str, name: str) -> InvalidQueryError:
    """Return what an engine says with the line that it is about."""
    if error.at is None or error.at.start is None:
        return error
    place = TextPlace.of(question, error.at.start, error.at.length)
    placed = InvalidQueryError(error.message, error.why, error.fix)
    placed.span = _span(name, question, place)
    return placed


def _span(name: str, question: str, place: TextPlace) -> SourceSpan:
    line = (question.splitlines() or [""])[place.line - 1 :][:1]
    excerpt = line[0] if line else ""
    length = max(1, min(place.length, len(excerpt) - place.column + 1))
    return SourceSpan(
        file=name, line=place.line, column=place.column, length=length, excerpt=excerpt
    )
