"""Subjects of tests in a project's definitions and chains, and problems with them.

It needs no engine and no rows, so that `check` can report problems in the files of tests.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic
from odfbuild.executors.engine.columns import ColumnsOf, full_schema
from odfbuild.executors.engine.quick_columns import QuickColumns
from odfbuild.executors.testing.columns import check_problems, no_dataset
from odfbuild.executors.testing.files import Tests
from odfbuild.executors.testing.model import (
    Fixture,
    FixtureRows,
    Relationship,
    RowCheck,
    SqlRule,
    Word,
)
from odfbuild.executors.testing.values import Typed, written_out
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSchema, DatasetVocabulary, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.queries import check_queries
from odfbuild.project.checks.queries import examined
from odfbuild.project.lock import Lock, read_lock
from odfbuild.project.lock.state import Definitions
from odfbuild.project.opened import Opened
from odfbuild.texts.suggest import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from odfbuild.executors.testing.test_workspace import TestedDataset


class Schemas:
    """The columns of datasets: as the project declares them, and as they are in the workspace."""

    def __init__(self, project: Opened, declared: Sequence[Declared]) -> None:
        self.states = project.workspace.states()
        names = {state.dataset: alias for alias, state in self.states.items()}
        self.definitions = Definitions(declared, names)
        self._engine = QuickColumns(project)
        self._lock = read_lock(project.root) or Lock()
        self._columns: ColumnsOf | None = None
        self._broken: dict[DatasetAlias, bool] = {}

    @property
    def names(self) -> list[str]:
        """The names of all datasets."""
        return [str(each) for each in dict.fromkeys((*self.definitions.declared, *self.states))]

    def has(self, alias: DatasetAlias) -> bool:
        """Return whether a dataset is declared, or in the workspace."""
        return alias in self.definitions.declared or alias in self.states

    def inputs(self, alias: DatasetAlias) -> tuple[tuple[str, DatasetAlias | None], ...]:
        """Return the inputs of a declared dataset, by their names in its query."""
        return self.definitions.inputs(alias)

    def vocabulary(self, alias: DatasetAlias) -> DatasetVocabulary:
        """Return the names of the columns of the event log."""
        if alias in self.definitions.declared:
            return self.definitions.vocabulary(alias)
        return self.states[alias].vocab

    def declared(self, alias: DatasetAlias) -> DataSchema | None:
        """Return all columns of a definition, None if its text is not enough to know them.

        For a dataset that is not declared, those in the workspace.
        """
        if alias not in self.definitions.declared:
            return self.schema_in_force(alias)
        if self._is_broken(alias):
            return None
        found = self._resolver()(alias).schema
        return None if found is None else full_schema(found, self.vocabulary(alias))

    def schema_in_force(self, alias: DatasetAlias) -> DataSchema | None:
        """Return all columns of a dataset in the workspace, else those that are declared."""
        state = self.states.get(alias)
        found = None if state is None else schema_in_force(state)
        if found is not None or alias not in self.definitions.declared:
            return found
        return self.declared(alias)

    def _resolver(self) -> ColumnsOf:
        if self._columns is None:
            existing: Mapping[DatasetAlias, ChainState] = self.states
            self._columns = ColumnsOf(
                self.definitions,
                self._engine.asker,
                known=lambda each, inputs: self._lock.schema_of(
                    self.definitions.declared[each].alias,
                    self.definitions.definition(each),
                    inputs,
                ),
                existing=existing.get,
                static=True,
            )
        return self._columns

    def _is_broken(self, alias: DatasetAlias) -> bool:
        """Return whether a query, or one that it depends on, has errors, which `check` reports."""
        waiting, seen = [alias], {alias}
        while waiting:
            each = self.definitions.declared[waiting.pop()]
            if self._has_errors(each):
                return True
            below = (source for _, source in self.definitions.inputs(each.alias))
            new = {s for s in below if s is not None and s in self.definitions.declared} - seen
            waiting += new
            seen |= new
        return False

    def _has_errors(self, each: Declared) -> bool:
        if each.alias not in self._broken:
            changes = [EventChange(event, at) for at, event in enumerate(each.snapshot.metadata)]
            facts = examined([each], {})
            self._broken[each.alias] = any(check_queries(each, changes, (), facts))
        return self._broken[each.alias]

    def subject(self, fixture: Fixture, found: list[Diagnostic]) -> "TestedDataset | None":
        """Return the dataset of a fixture; None, and findings, if columns are unknown."""
        from odfbuild.executors.testing.test_workspace import TestedDataset, TestedInput

        event = _transform(self.definitions.declared[fixture.dataset])
        given = {word.text: schema for word, schema in fixture.schemas}
        inputs: list[TestedInput] = []
        for name, source in self.inputs(fixture.dataset):
            alias = source or DatasetAlias.parse(name)
            own = given.get(name, given.get(str(alias)))
            vocab = self.vocabulary(alias) if self.has(alias) else DatasetVocabulary()
            schema = self.declared(alias) if own is None else full_schema(own, vocab)
            if schema is None:
                found.append(_unknown_columns(fixture, name))
            else:
                inputs.append(TestedInput(name=name, alias=alias, schema=schema, vocab=vocab))
        if event is None or len(inputs) < len(self.inputs(fixture.dataset)):
            return None
        return TestedDataset(
            alias=fixture.dataset,
            transform=event,
            vocab=self.vocabulary(fixture.dataset),
            inputs=tuple(inputs),
        )


def test_problems(root: "Path", schemas: Schemas, tests: Tests) -> Iterator[Diagnostic]:
    """Yield the problems of tests: names that do not exist, values of other types."""
    for fixture in tests.fixtures:
        yield from _fixture_problems(root, schemas, fixture)
    for check in tests.checks:
        yield from _check_problems(schemas, check)


def _check_problems(schemas: Schemas, check: RowCheck) -> Iterator[Diagnostic]:
    named = [(check.dataset, check.dataset_span)]
    if isinstance(check.rule, Relationship):
        named.append((check.rule.to, check.rule.to_span))
    for alias, span in named:
        if not schemas.has(alias):
            yield no_dataset(str(alias), span, schemas.names)
    if isinstance(check.rule, SqlRule):
        from odfbuild.executors.testing.sql import query_problems

        yield from query_problems(check, check.rule, schemas.names)
    yield from check_problems(
        check, lambda alias: schemas.schema_in_force(alias) if schemas.has(alias) else None
    )


def _fixture_problems(root: "Path", schemas: Schemas, fixture: Fixture) -> Iterator[Diagnostic]:
    declared = schemas.definitions.declared.get(fixture.dataset)
    if declared is None:
        known = [str(each) for each in schemas.definitions.declared]
        yield no_dataset(str(fixture.dataset), fixture.dataset_span, known)
        return
    if _transform(declared) is None:
        yield Diagnostic(
            code="test-file",
            what=f"{fixture.dataset} has no query to test",
            why="a fixture gives rows to the inputs of a derivative dataset",
            fix="name a derivative, or write checks on the rows of this one below tests/data",
            span=fixture.dataset_span,
        )
        return
    yield from _input_problems(root, schemas, fixture)
    output = schemas.declared(fixture.dataset)
    if output is None:
        return
    op = schemas.vocabulary(fixture.dataset).operation_type_column
    known_fields = tuple(each for each in output.fields if each.name != op)
    for batch in fixture.batches:
        for rows, name in ((batch.expect, ""), (batch.adds, op)):
            if rows is not None:
                whose = f"the result of {fixture.dataset}"
                schema = DataSchema(known_fields)
                into = Typed(schema=schema, whose=whose, op=name, partial=True)
                yield from _row_problems(root, rows, into)


def _input_problems(root: "Path", schemas: Schemas, fixture: Fixture) -> Iterator[Diagnostic]:
    inputs = schemas.inputs(fixture.dataset)
    by_name = {n: alias for name, alias in inputs for n in (name, str(alias or name))}
    words = [word for word, _ in fixture.schemas]
    words += [each.name for batch in fixture.batches for each in batch.inputs]
    for word in words:
        if word.text not in by_name:
            yield _no_input(fixture, word, [name for name, _ in inputs])
    own = {word.text for word, _ in fixture.schemas}
    for batch in fixture.batches:
        for each in batch.inputs:
            alias = by_name.get(each.name.text)
            if alias is None or each.rows is None or own & _names(alias, inputs):
                continue
            schema = schemas.declared(alias) if schemas.has(alias) else None
            if schema is not None:
                vocab = schemas.vocabulary(alias)
                hidden = (vocab.offset_column, vocab.system_time_column)
                op = vocab.operation_type_column
                fields = tuple(f for f in schema.fields if f.name not in (*hidden, op))
                into = Typed(schema=DataSchema(fields), whose=str(alias), op=op)
                yield from _row_problems(root, each.rows, into)


def _names(alias: DatasetAlias, inputs: Sequence[tuple[str, DatasetAlias | None]]) -> set[str]:
    return {str(alias), *(name for name, source in inputs if source == alias)}


def _row_problems(root: "Path", rows: FixtureRows, into: Typed) -> Iterator[Diagnostic]:
    if rows.file is None:
        written_out(rows, into)
        yield from into.found
    elif not (root / rows.file).is_file():
        yield Diagnostic(
            code="no-file",
            what=f"there is no file {rows.file}",
            why="its rows are part of the fixture",
            fix="check its name, which is relative to the fixture",
            span=rows.span,
        )


def _no_input(fixture: Fixture, word: Word, known: list[str]) -> Diagnostic:
    return Diagnostic(
        code="unknown-input",
        what=f"{fixture.dataset} has no input '{word.text}'",
        why="a batch gives rows to the inputs that the definition names",
        fix=did_you_mean(word.text, known) or "correct the name",
        span=word.span,
    )


def _unknown_columns(fixture: Fixture, name: str) -> Diagnostic:
    return Diagnostic(
        code="test-file",
        what=f"the columns of the input '{name}' are not known",
        why="neither its definition nor odfbuild.lock has them, and it has no rows yet",
        fix=f"odfbuild lock finds them; or declare them here: schemas: {{{name}: [column TYPE]}}",
        span=fixture.dataset_span,
    )


def _transform(each: Declared) -> SetTransform | None:
    events = (event for event in each.snapshot.metadata if isinstance(event, SetTransform))
    return next(events, None)
