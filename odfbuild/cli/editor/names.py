"""Names of datasets and columns in the files of a project, with their positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from odfbuild.errors import SourceSpan
from odfbuild.executors.engine.analysis import QueryPlace
from odfbuild.executors.engine.columns import Asker, ColumnsOf, place_in_query, query_path
from odfbuild.odf.events import DataSchema, SetInfo, SetTransform, TransformSql
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import column_lines
from odfbuild.planner.declared import Declared
from odfbuild.project.lock.state import Definitions
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import steps_of
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A name in a file: of a dataset, or of a column of one of `datasets` if `column` is given.

    With `defines` the dataset is declared there.
    """

    datasets: tuple[DatasetAlias, ...]
    span: SourceSpan
    column: str | None = None
    defines: bool = False

    def holds(self, file: str, line: int, column: int) -> bool:
        """Return whether a position is in the name, or right behind it; numbers from 1."""
        span = self.span
        return (span.file, span.line) == (file, line) and (
            span.column <= column <= span.column + span.length
        )


def is_query_file(file: str) -> bool:
    """Return whether a file, by its name, is included in definitions as a query."""
    return file.removesuffix(".j2").endswith(".sql")


class ReadDefinitions:
    """The definitions of a project, for questions about names in them.

    `asker` tells the columns of queries for engines that start at once.
    """

    def __init__(
        self,
        declared: Sequence[Declared],
        states: Mapping[DatasetAlias, ChainState],
        asker: Asker | None = None,
    ) -> None:
        self.declared = declared
        self.states = states
        self._asker = asker
        names = {state.dataset: alias for alias, state in states.items()}
        self._definitions = Definitions(declared, names)

    @cached_property
    def _columns(self) -> ColumnsOf:
        return ColumnsOf(self._definitions, self._asker, existing=self.states.get, static=True)

    def names(self) -> list[DatasetAlias]:
        """Return the datasets that an input may be."""
        return sorted({*(each.alias for each in self.declared), *self.states}, key=str)

    def possible_inputs(self, each: Declared | None) -> list[DatasetAlias]:
        """Return the datasets that a definition may read without a cycle."""
        found = self.names()
        if each is None:
            return found
        readers: dict[DatasetAlias, set[DatasetAlias]] = {}
        for other in self.declared:
            for source in self.inputs(other).values():
                readers.setdefault(source, set()).add(other.alias)
        behind, todo = set[DatasetAlias](), [each.alias]
        while todo:
            alias = todo.pop()
            if alias not in behind:
                behind.add(alias)
                todo += readers.get(alias, ())
        return [alias for alias in found if alias not in behind]

    def of(self, alias: DatasetAlias) -> Declared | None:
        return self._definitions.declared.get(alias)

    def schema(self, alias: DatasetAlias) -> DataSchema | None:
        """Return the data columns of a declared dataset, None if the texts do not show them."""
        return self._columns(alias).schema if self.of(alias) is not None else None

    def inputs(self, each: Declared) -> dict[str, DatasetAlias]:
        """Return the datasets that a definition reads, by their names in its query."""
        found = self._definitions.inputs(each.alias)
        return {name: source for name, source in found if source is not None}

    def definition_at(self, file: str, line: int) -> Declared | None:
        """Return the definition in a file that a line, from 1, belongs to."""
        before = None
        for each in self.declared:
            if each.file != file:
                continue
            at = each.span().line
            if before is None or (before.span().line < at <= line) or before.span().line > line:
                before = each
        return before

    def reader_of(self, file: str) -> Declared | None:
        """Return the first definition with a query that is in a file of its own."""
        for each in self.declared:
            path = query_path(each)
            event = each.written.metadata[int(path[1])] if path else None
            if isinstance(event, SetTransform) and isinstance(event.transform, TransformSql):
                for number in range(len(steps_of(event.transform))):
                    if place_in_query(each, path, QueryPlace(number, 0)).file == file:
                        return each
        return None

    def at(self, file: str, line: int, column: int) -> Occurrence | None:
        """Return the name at a position, numbers from 1; None if there is none."""
        for each in self.declared:
            if each.file == file or is_query_file(file):
                for found in self.occurrences(each, columns=True):
                    if found.holds(file, line, column):
                        return found
        return None

    def occurrences_of(self, alias: DatasetAlias) -> Iterator[Occurrence]:
        """Yield the occurrences of a dataset's name, in the order of the definitions."""
        for each in self.declared:
            if each.alias == alias or alias in self.inputs(each).values():
                for found in self.occurrences(each, columns=False):
                    if found.datasets == (alias,):
                        yield found

    def occurrences(self, each: Declared, *, columns: bool) -> Iterator[Occurrence]:
        """Yield the names in one definition."""
        yield Occurrence(datasets=(each.alias,), span=each.span(), defines=True)
        inputs = self.inputs(each)
        for at, event in enumerate(each.written.metadata):
            if not isinstance(event, SetTransform):
                continue
            for number, given in enumerate(event.inputs):
                path = ("metadata", at, "inputs", number, "datasetRef")
                if isinstance(given.dataset_ref, DatasetAlias):
                    yield Occurrence(datasets=(given.dataset_ref,), span=each.span(path))
            yield from self._in_query(each, event, inputs, columns=columns)

    def _in_query(
        self,
        each: Declared,
        event: SetTransform,
        inputs: Mapping[str, DatasetAlias],
        *,
        columns: bool,
    ) -> Iterator[Occurrence]:
        path = query_path(each)
        for number, step in enumerate(steps_of(event.transform)):
            try:
                statement = step.statement
            except SqlTextError:
                continue
            for name in statement.tables:
                if name.text in inputs:
                    at = QueryPlace(number, name.place.start, name.place.length)
                    span = place_in_query(each, path, at)
                    yield Occurrence(datasets=(inputs[name.text],), span=span)
            for name in statement.columns if columns else ():
                at = QueryPlace(number, name.place.start, name.place.length)
                of = inputs.get(name.qualifier or "")
                sources = tuple(dict.fromkeys(inputs.values())) if of is None else (of,)
                span = place_in_query(each, path, at)
                yield Occurrence(datasets=sources, span=span, column=name.text)

    def describe(self, found: Occurrence) -> str | None:
        """Return a description of a name as Markdown; None if nothing is known."""
        if found.column is None:
            return self._dataset_text(found.datasets[0])
        lines = [
            f"`{line}` of {alias}"
            for alias in found.datasets
            for name, line in self._lines(alias)
            if name == found.column
        ]
        return "\n\n".join(lines) or None

    def _dataset_text(self, alias: DatasetAlias) -> str | None:
        each = self.of(alias)
        if each is None:
            return f"**{alias}**, in the workspace" if alias in self.states else None
        info = next((e for e in each.snapshot.metadata if isinstance(e, SetInfo)), None)
        parts = [f"**{alias}** ({each.snapshot.kind.value}, {each.file})"]
        if info is not None and info.description:
            parts.append(_plain(info.description))
        lines = [line for _, line in self._lines(alias)]
        if lines:
            parts.append("```sql\n" + "\n".join(lines).replace("```", "'''") + "\n```")
        return "\n\n".join(parts)

    def _lines(self, alias: DatasetAlias) -> list[tuple[str, str]]:
        schema = self.schema(alias)
        if schema is None:
            return []
        names = (each.name for each in schema.fields)
        return list(zip(names, column_lines(schema), strict=True))


def _plain(text: str) -> str:
    """Return a text of a project escaped, without links, pictures or HTML in Markdown."""
    return "".join(
        f"\\{each}" if each in "\\`*_{}[]<>()#+!|" else each for each in excerpt(text, 2_000)
    )
