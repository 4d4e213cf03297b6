"""Questions: one SELECT over datasets by name, in the dialect of an engine; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from odfbuild.app.inspection.views import ViewOptions, is_time, view_of
from odfbuild.errors import (
    Diagnostic,
    InvalidQueryError,
    OdfBuildError,
    ProjectErrors,
    SourceSpan,
    UsageRefusedError,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.engines import DEFAULT_ENGINE, ENGINES
from odfbuild.project.opened import Opened
from odfbuild.sql.findings import Reason, dialect_of
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.data.views import DatasetView
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.sql.analysis.facts import QueryFacts

_REFUSED = (Reason.SYNTAX, Reason.UNKNOWN_INPUT, Reason.ENVIRONMENT, Reason.FOREIGN_CODE)


@dataclass(frozen=True)
class Question:
    """One SELECT; `source` is the name under which errors show it, `engine` whose dialect it is."""

    text: str
    source: str = "query"
    engine: str = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageRefusedError(
                what=f"there is no engine '{self.engine}'",
                why="a query is in the dialect of the engine that runs it",
                fix=did_you_mean(self.engine, ENGINES) or f"engines are {', '.join(ENGINES)}",
            )

    @cached_property
    def steps(self) -> tuple[QueryStep, ...]:
        """The question as the one step of a query."""
        return (QueryStep(None, self.text, engine=self.engine),)

    def views(self, project: Opened, asked: ViewOptions) -> Mapping[str, DatasetView]:
        """Return what the question reads, by the names that it uses.

        Raises ProjectErrors for what is wrong with the text, and as `view_of` does.
        """
        from odfbuild.sql.analysis.facts import examine

        known = list(map(str, project.workspace.names()))
        used = tuple(dict.fromkeys(self._named_datasets(project)))
        found = tuple(self._findings(examine(self.steps, (*used, *known), ()), known))
        if found:
            raise ProjectErrors(found)
        if asked.at is not None and len(used) > 1 and not is_time(asked.at):
            raise UsageRefusedError(
                what=f"--as-at {asked.at}: the query reads {len(used)} datasets",
                why="a block belongs to one dataset",
                fix="give the time of the block, which odfbuild log shows",
            )
        return {each: view_of(project, each, asked) for each in used}

    def _named_datasets(self, project: Opened) -> Iterator[str]:
        """Yield the names in the question that are those of datasets, however they are spelled."""
        names = project.workspace.names()
        try:
            tables = self.steps[0].statement.tables
        except SqlTextError:
            return
        for each in tables:
            try:
                alias = DatasetAlias.parse(each.text)
            except OdfBuildError:
                continue
            if alias in names:
                yield each.text

    def _findings(self, facts: QueryFacts, known: Sequence[str]) -> Iterator[Diagnostic]:
        """Yield what is wrong with the question, each at its place."""
        from odfbuild.sql.analysis.facts import diagnostics

        problems = diagnostics(facts, _REFUSED)
        for finding, problem in zip(facts.about(*_REFUSED), problems, strict=True):
            place = finding.place
            what = problem.what.removesuffix(f" (line {place.line}, column {place.column})")
            placed = replace(problem, what=what, span=self._span(place))
            match finding.reason:
                case Reason.UNKNOWN_INPUT if finding.hint != finding.name:
                    yield self._unknown(placed, finding.name, known)
                case Reason.ENVIRONMENT | Reason.FOREIGN_CODE:
                    yield replace(placed, why="a query can only read datasets")
                case _:
                    yield placed

    def _unknown(self, found: Diagnostic, name: str, known: Sequence[str]) -> Diagnostic:
        quotes = dialect_of(self.engine).quotes
        return replace(
            found,
            what=f"no dataset named '{name}' in the workspace",
            why=f"a query reads datasets by name, in {quotes} if the name has dots",
            fix=did_you_mean(name, known) or "odfbuild status lists the datasets",
        )

    def _span(self, place: TextPlace) -> SourceSpan:
        line = (self.text.splitlines() or [""])[place.line - 1 :][:1]
        excerpt = line[0] if line else ""
        length = max(1, min(place.length, len(excerpt) - place.column + 1))
        return SourceSpan(
            file=self.source,
            line=place.line,
            column=place.column,
            length=length,
            excerpt=excerpt,
        )

    def placed(self, error: PlacedQueryError) -> InvalidQueryError:
        """Return what an engine says with the line that it is about."""
        if error.at is None or error.at.start is None:
            return error
        place = TextPlace.of(self.text, error.at.start, error.at.length)
        placed = InvalidQueryError(error.message, error.why, error.fix)
        placed.span = self._span(place)
        return placed


@contextmanager
def answered(
    project: Opened, question: Question, views: Mapping[str, DatasetView], limit: int | None
) -> Iterator[Frame]:
    """Yield the answer to a question over views by name; it is there as long as the context is.

    Raises as `Querier` does; and KeyboardInterrupt when the engine was interrupted first, as
    nothing else ends a question.
    """
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.executors.engine.querier import QueryRequest
    from odfbuild.executors.engine.registry import engine_of
    from odfbuild.executors.process.interrupt import StoppedError

    with project.workspace.staging() as staging:
        request = QueryRequest(
            text=question.text,
            views=views,
            staging=staging,
            limit=limit,
            engine=question.engine,
        )
        engine = engine_of(project)
        try:
            frame = engine.query(request)
        except PlacedQueryError as error:
            raise question.placed(error) from None
        except StoppedError:
            raise KeyboardInterrupt from None
        finally:
            engine.close()
        yield frame
