"""Work out the data columns of datasets: from what is known, else by asking an engine.

A dataset is resolved after its inputs and only once; what cannot be known before data is there is
said in words, and what an engine refuses becomes a finding at its place in the project's files.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.executors.analysis import AnalysedInput, QueryPlace
from odfbuild.executors.asking import (
    Asker,
    Refusal,
    Source,
    data_schema,
    declares_columns,
    full_schema,
)
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force, schema_of
from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetKind,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, PathSteps
from odfbuild.planner.sql.query import steps_of
from odfbuild.project.column_lines import column_lines
from odfbuild.project.lock_state import Definitions

if TYPE_CHECKING:
    from odfbuild.planner.evolution.derive import Made

__all__ = ["Columns", "ColumnsOf", "place_in_query"]

_UNREADABLE = "the definition uses parts of a newer version of the format"
_UNDECLARED = "the source declares no columns, so its first rows decide"
_SOURCELESS = "the dataset has no source and declares no columns"
_BROKEN = "the definition has errors"
_UNASKED = "the text does not tell, and no engine was asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The data columns of a dataset; None if they are not known, then `unknown` says why.

    `found` is what an engine says against the definition.
    """

    schema: DataSchema | None = None
    unknown: str | None = None
    found: tuple[Diagnostic, ...] = ()

    @property
    def lines(self) -> tuple[str, ...] | None:
        """The columns as lines of text."""
        return None if self.schema is None else column_lines(self.schema)


class ColumnsOf:
    """The data columns of each declared dataset, worked out when asked for.

    `known` answers without an engine, given a dataset and the hash of its inputs; `existing` gives
    the chain of a dataset.  Datasets in `broken` are not looked at.  With `static`, no engine is
    asked about what the texts alone make certain; without an asker, about nothing.  Those that
    are `settled` have the columns of their chains.
    """

    def __init__(
        self,
        definitions: Definitions,
        asker: Asker | None,
        *,
        known: Callable[[DatasetAlias, str], DataSchema | None] | None = None,
        existing: Callable[[DatasetAlias], ChainState | None] = lambda _: None,
        broken: Collection[DatasetAlias] = (),
        static: bool = False,
        settled: Callable[[DatasetAlias], bool] = lambda _: False,
    ) -> None:
        self._definitions = definitions
        self._asker = asker
        self._known = known
        self._existing = existing
        self._broken = frozenset(broken)
        self._static = static
        self._settled = settled
        self._made: dict[DatasetAlias, Made | None] = {}
        self._found: dict[DatasetAlias, Columns] = {}

    def __call__(self, alias: DatasetAlias) -> Columns:
        """Return the columns of a dataset.  Raises EngineFailedError."""
        waiting = [alias]
        while waiting:
            each = waiting[-1]
            below = [source for source in self._below(each) if source not in self._found]
            if each in self._found or not below:
                self._found.setdefault(waiting.pop(), self._resolved(each))
            else:
                waiting += below
        return self._found[alias]

    def answered(self, alias: DatasetAlias) -> Columns:
        """Return what the engine says of a definition, also where the text is certain.

        Raises EngineFailedError.
        """
        known = self(alias)
        each = self._definitions.declared[alias]
        return known if alias in self._broken or known.found else self._asked(each)

    def told(self, alias: DatasetAlias) -> DataSchema | None:
        """Return the columns as the texts tell them, None unless all of that is certain."""
        made = self.made(alias)
        if made is None or made.columns is None:
            return None
        derived = self._definitions.declared[alias].snapshot.kind is DatasetKind.DERIVATIVE
        if (made.lost_time and derived) or (made.query and made.query.unknown_columns):
            return None
        fields = [DataField(c.name, c.type) for c in made.columns if c.type is not None]
        return DataSchema(tuple(fields)) if len(fields) == len(made.columns) else None

    def made(self, alias: DatasetAlias) -> "Made | None":
        """Return what the texts tell of a definition; None if an input's columns are not known."""
        if alias not in self._made:
            self._made[alias] = self._make(alias)
        return self._made[alias]

    def read(self, alias: DatasetAlias) -> "Made | None":
        """Return what the texts tell of a definition, whatever the columns of its inputs are.

        Its inputs have been looked at.
        """
        return self.made(alias) or self._make(alias, whole=False)

    def _make(self, alias: DatasetAlias, *, whole: bool = True) -> "Made | None":
        from odfbuild.planner.evolution.derive import derive, makes_of_events
        from odfbuild.planner.sql.alike import columns_alike

        each = self._definitions.declared[alias].snapshot
        seen: dict[str, DataSchema | None] = {}
        for name, source in self._definitions.inputs(alias):
            found = None if source is None else self._input(name, source)
            seen[name] = None if found is None else data_schema(found.schema, found.vocab)
        if any(any(opaque_parts(event)) for event in each.metadata):
            return None
        if whole and None in seen.values():
            return None
        read = columns_alike if self._static else None  # places are needed only of what is wrong
        return derive(makes_of_events(each.kind, each.metadata), seen, read)

    def inputs_hash(self, alias: DatasetAlias) -> str:
        """Return the hash of the columns of a dataset's inputs."""
        return self._definitions.inputs_hash(alias, lambda source: self(source).lines)

    def _below(self, alias: DatasetAlias) -> Iterable[DatasetAlias]:
        declared = self._definitions.declared
        if self._settled(alias):
            return ()
        sources = (source for _, source in self._definitions.inputs(alias))
        return [s for s in sources if s is not None and s in declared]

    def _resolved(self, alias: DatasetAlias) -> Columns:
        if alias in self._found:
            return self._found[alias]
        if alias in self._broken:
            return Columns(unknown=_BROKEN)
        if self._settled(alias):
            return self._of_chain(alias)
        known = self._known
        schema = None if known is None else known(alias, self.inputs_hash(alias))
        if schema is not None:
            return Columns(schema=schema)
        schema = self.told(alias) if self._static else None
        if schema is not None:
            return Columns(schema=schema)
        return self._asked(self._definitions.declared[alias])

    def _asked(self, each: Declared) -> Columns:
        for at, event in enumerate(each.snapshot.metadata):
            if isinstance(event, SetDataSchema) and not any(opaque_parts(event)):
                vocab = self._definitions.vocabulary(each.alias)
                return Columns(schema=data_schema(schema_of(event), vocab))
            if isinstance(event, SetTransform):
                return self._of_transform(each, at, event)
            if isinstance(event, SetPollingSource | AddPushSource):
                return self._of_source(each, at, event)
        return Columns(unknown=_SOURCELESS)

    def _of_transform(self, each: Declared, at: int, event: SetTransform) -> Columns:
        if any(opaque_parts(event)) or not isinstance(event.transform, TransformSql):
            return Columns(unknown=_UNREADABLE)
        inputs: list[AnalysedInput] = []
        for name, source in self._definitions.inputs(each.alias):
            found = None if source is None else self._input(name, source)
            if found is None:
                return Columns(unknown=f"the columns of the input {source or name} are not known")
            inputs.append(found)
        if self._asker is None:
            return Columns(unknown=_UNASKED)
        vocab = self._definitions.vocabulary(each.alias)
        answer = self._asker.transform(event.transform, inputs, vocab)
        path = ("metadata", at, "transform")
        return _columns(answer, lambda no: place_in_query(each, path, no.at))

    def _input(self, name: str, source: DatasetAlias) -> AnalysedInput | None:
        if source in self._definitions.declared:
            vocab = self._definitions.vocabulary(source)
            schema = self._found[source].schema
            return (
                None if schema is None else AnalysedInput(name, full_schema(schema, vocab), vocab)
            )
        state = self._existing(source)
        in_force = None if state is None else schema_in_force(state)
        if state is None or in_force is None:
            return None
        return AnalysedInput(name, in_force, state.vocab)

    def _of_source(self, each: Declared, at: int, source: Source) -> Columns:
        if any(opaque_parts(source)):
            return Columns(unknown=_UNREADABLE)
        if not declares_columns(source):
            return self._of_chain(each.alias)
        if self._asker is None:
            return Columns(unknown=_UNASKED)
        answer = self._asker.source(source, self._definitions.vocabulary(each.alias))
        return _columns(answer, lambda no: _place_in_source(each, at, source, no))

    def _of_chain(self, alias: DatasetAlias) -> Columns:
        """Return what the first rows decided, if there were any."""
        state = self._existing(alias)
        schema = None if state is None else schema_in_force(state)
        if state is None or schema is None:
            return Columns(unknown=_UNDECLARED)
        return Columns(schema=data_schema(schema, state.vocab))


def _columns(answer: DataSchema | Refusal, place: Callable[[Refusal], SourceSpan]) -> Columns:
    if isinstance(answer, DataSchema):
        return Columns(schema=answer)
    found = Diagnostic(
        code=answer.code, what=answer.what, why=answer.why, fix=answer.fix, span=place(answer)
    )
    return Columns(unknown=_BROKEN, found=(found,))


def _place_in_source(each: Declared, at: int, source: Source, no: Refusal) -> SourceSpan:
    if no.at is not None and source.preprocess is not None:
        return place_in_query(each, ("metadata", at, "preprocess"), no.at)
    key = "read" if source.preprocess is None else "preprocess"
    return each.key_span(("metadata", at, key))


def place_in_query(
    each: Declared, path: tuple[str | int, ...], at: QueryPlace | None
) -> SourceSpan:
    """Return where a part of a query is written, or the query, or what it belongs to.

    `path` is that of the transform or preprocess step that the query is of.
    """
    written = _written(each, path)
    steps = steps_of(written) if isinstance(written, TransformSql) else ()
    if at is None or at.step >= len(steps):
        return each.key_span(_query_path(path, written, 0))
    inner = _query_path(path, written, at.step)
    if at.start is None:
        return each.span(inner)
    return each.span_inside(inner, steps[at.step].text, at.start, at.length)


def _query_path(path: Sequence[str | int], written: object, step: int) -> PathSteps:
    if not isinstance(written, TransformSql):
        return path
    single = written.query is not None
    return (*path, "query") if single else (*path, "queries", step, "query")


def _written(each: Declared, path: tuple[str | int, ...]) -> object:
    event = each.written.metadata[int(path[1])]
    return getattr(event, str(path[2]), None)
