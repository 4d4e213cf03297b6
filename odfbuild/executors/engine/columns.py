"""Data columns of datasets: from what is known, else from an engine, asked once.

A dataset is resolved after its inputs and only once; what cannot be known before data is there is
said in words, and what an engine refuses becomes a finding at its place in the project's files.

What is asked depends on the question alone (engine version, query, input columns), so an answer
holds forever, a refusal as well; only a failure of the engine itself is never kept.

It is one module, as asking and resolving are one recursion: what a dataset's columns are decides
what is asked about those that read it, and a question is the same whoever asks.
"""

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from odfbuild.errors import (
    Diagnostic,
    EngineFailedError,
    OdfBuildError,
    SourceSpan,
    StateError,
)
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import (
    AnalysedInput,
    Analyser,
    Analysis,
    EngineFaultError,
    PlacedQueryError,
    QueryAnalyser,
    QueryPlace,
    UnofferedQuestionError,
)
from odfbuild.executors.engine.protocol import IngestRequest, engine_version
from odfbuild.host.json_text import parse_json
from odfbuild.host.reading_session import made_of
from odfbuild.odf.chain.schema import schema_in_force, schema_of
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.read_options import declares_columns
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.columns import system_fields
from odfbuild.odf.schema.ddl import column_lines, read_columns
from odfbuild.odf.schema.types import inner, is_optional
from odfbuild.planner.declared import Declared, PathSteps
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.project.lock.state import Definitions
from odfbuild.sql.text.steps import QueryStep, is_foreign, is_of_spark, steps_of
from odfbuild.state.memory.engine_answers import Answers
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.answers import QueryInput
    from odfbuild.planner.evolution.columns.derive import DerivedColumns, Makes


Source: TypeAlias = SetPollingSource | AddPushSource
RULES: Final = 4
"""Raised with each change of what is refused: answers under other rules are not those of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRefusal:
    """What an engine says against a definition; `at` is the place in its query, if it is told."""

    code: str
    what: str
    why: str
    fix: str
    at: QueryPlace | None = None


Answer: TypeAlias = DataSchema | DefinitionRefusal


class Asker:
    """Puts questions to an engine, which starts with the first one that was never answered.

    `start` makes the engine, `version` is what it will be.  With `engines`, nothing is asked but
    about queries for these.  `elsewhere` are engines elsewhere that are asked, too, each with a
    text of what it is; `unchecked` says of which there was no answer, and why.
    """

    def __init__(
        self,
        start: Callable[[], QueryAnalyser],
        version: str,
        answers: Answers,
        engines: Collection[str] | None = None,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._start = start
        self._version = version
        self._answers = answers
        self._engines = engines
        self._elsewhere = elsewhere
        self._silent: set[str] = set()
        self._engine: QueryAnalyser | None = None
        self.unchecked: dict[str, OdfBuildError] = {}

    def asks(self, engine: str | None = None) -> bool:
        """Tell whether queries for an engine are asked about; without one, sources."""
        return self._engines is None or (engine is not None and engine.lower() in self._engines)

    @property
    def scope(self) -> tuple[object, ...]:
        """What its answers depend on, apart from the questions."""
        asked = None if self._engines is None else frozenset(self._engines)
        return (self._version, asked, tuple(sorted(self._elsewhere.items())))

    def asks_elsewhere(self, engine: str) -> bool:
        """Tell whether an engine elsewhere is asked about its queries."""
        return engine in self._elsewhere

    def transform(
        self, transform: TransformSql, inputs: Sequence[AnalysedInput], vocab: DatasetVocabulary
    ) -> Answer:
        """Return the data columns that a transform gives.  Raises EngineFailedError."""
        steps = steps_of(transform)
        form = _form(steps, inputs)
        question = Analysis(steps=steps, inputs=tuple(inputs), vocab=vocab)
        return self._answer("transform", form, vocab, lambda: self._asked().analyse(question))

    def transform_elsewhere(
        self, transform: TransformSql, inputs: Sequence[AnalysedInput], vocab: DatasetVocabulary
    ) -> Answer | None:
        """Return what an engine elsewhere says of a transform, None if it says nothing.

        One that gave no answer is not asked again.  Its refusals are not kept: behind an address
        may be another version tomorrow.
        """
        name, steps = transform.engine, steps_of(transform)
        if name in self._silent:
            return None
        form = [*_form(steps, inputs), self._elsewhere[name], transform.version]
        question = Analysis(
            steps=steps, inputs=tuple(inputs), vocab=vocab, version=transform.version
        )

        def ask() -> Any:
            try:
                return self._asked().analyse(question)
            except StateError as error:  # the library is not installed
                raise EngineFailedError(error.what, error.why, error.fix) from None

        try:
            return self._answer("elsewhere", form, vocab, ask, keeps_refusals=False)
        except UnofferedQuestionError:
            self._silent.add(name)
        except EngineFailedError as error:
            self._silent.add(name)
            self.unchecked[name] = error
        return None

    def columns(self, makes: "Makes", inputs: "Sequence[QueryInput]") -> DataSchema | None:
        """Return the columns of the query of a definition; see `EngineColumns`.

        None where its engine is none of `engines`, refuses the query or does not answer.
        """
        source, transform = makes.source, makes.transform
        query = source.preprocess if source is not None else transform and transform.transform
        if not isinstance(query, TransformSql) or any(opaque_parts(query)):
            return None
        if self._engines is None or not self.asks(query.engine):
            return None
        try:
            if source is not None:
                answer = self.preprocess(query, inputs[0].schema, makes.vocab)
            else:
                seen = [
                    AnalysedInput(each.name, full_schema(each.schema, each.vocab), each.vocab)
                    for each in inputs
                ]
                answer = self.transform(query, seen, makes.vocab)
        except EngineFailedError:
            return None  # said by what judges the query
        return answer if isinstance(answer, DataSchema) else None

    def preprocess(
        self, query: TransformSql, schema: DataSchema, vocab: DatasetVocabulary
    ) -> Answer:
        """Return the columns that a preprocess step gives of those that a read step declares.

        Raises EngineFailedError.
        """
        steps = steps_of(query)
        seen = AnalysedInput(PREPROCESS_INPUT, schema, vocab)
        question = Analysis(steps=steps, inputs=(seen,), vocab=vocab, preprocesses=True)
        form = _form(steps, (seen,))
        return self._answer(
            "preprocess", form, vocab, lambda: self._asked().analyse(question), _given_columns
        )

    def source(self, source: Source, vocab: DatasetVocabulary) -> Answer:
        """Return the data columns that a source gives whose read step declares some.

        Raises EngineFailedError.
        """

        def ask() -> Any:
            from odfbuild.odf.schema.arrow import declared_schema

            declared = declared_schema(source.read)
            assert declared is not None  # noqa: S101 - declares_columns
            with tempfile.TemporaryDirectory(prefix="odfbuild-") as staging:
                request = IngestRequest(
                    source=Frame.of(declared.empty_table()),
                    preprocess=source.preprocess,
                    merge=source.merge,
                    vocab=vocab,
                    history=(),
                    in_force=None,
                    staging=Path(staging),
                    infer=False,
                )
                return cast("Analyser", self._asked()).ingest(request).schema  # see `asks`

        query = None if source.preprocess is None else steps_of(source.preprocess)
        steps = (
            None
            if query is None
            else [[each.alias, each.text, *_of_engine(each)] for each in query]
        )
        form = [to_mapping(source.read), steps, to_mapping(source.merge)]
        return self._answer("source", form, vocab, ask)

    def close(self) -> None:
        """Stop the engine, if it was started."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._answers.close()

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self) -> QueryAnalyser:
        if self._engine is None:
            self._engine = self._start()
        return self._engine

    def _answer(
        self,
        kind: str,
        form: Any,
        vocab: DatasetVocabulary,
        ask: Callable[[], Any],
        read: "Callable[[Callable[[], Any], DatasetVocabulary], Answer] | None" = None,
        *,
        keeps_refusals: bool = True,
    ) -> Answer:
        question = _question([RULES, self._version, kind, form, to_mapping(vocab)])
        known = self._answers.get(question)
        if known is not None:
            with suppress(ValueError, TypeError, KeyError):
                return _read(known)
        try:
            answer = (read or _stored_columns)(ask, vocab)
        except EngineFaultError as error:
            return _refusal(error)  # not kept: another engine may answer
        if keeps_refusals or isinstance(answer, DataSchema):
            self._answers.put(question, _written(answer))
        return answer


def _form(steps: Sequence[QueryStep], inputs: Sequence[AnalysedInput]) -> list[Any]:
    """Return what the answer to a question depends on, but for the engine that is always asked."""
    return [
        [[each.alias, each.text, *each.temporal, *_of_engine(each)] for each in steps],
        [[i.alias, column_lines(i.schema), to_mapping(i.vocab)] for i in inputs],
    ]


def _of_engine(step: QueryStep) -> tuple[str, ...]:
    """Return the engine of a step and its version, where it is not the one that is always asked."""
    return (step.engine, engine_version(step.engine) or "") if not is_of_spark((step,)) else ()


def data_schema(schema: DataSchema, vocab: DatasetVocabulary) -> DataSchema:
    """Return the event time and the data columns of a dataset's schema."""
    hidden = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return DataSchema(tuple(each for each in schema.fields if each.name not in hidden))


def full_schema(data: DataSchema, vocab: DatasetVocabulary) -> DataSchema:
    """Return a dataset's schema with its system columns, given the data columns."""
    time = next((f for f in data.fields if f.name == vocab.event_time_column), None)
    system = system_fields(vocab) if time is None else system_fields(vocab, inner(time.type))
    return DataSchema((*system, *(f for f in data.fields if f is not time)))


def _stored_columns(ask: Callable[[], Any], vocab: DatasetVocabulary) -> Answer:
    """Ask, and return the columns as they would be stored."""
    from odfbuild.executors.data.slice_schema import slice_schema

    try:
        return data_schema(slice_schema(ask(), vocab, None), vocab)
    except EngineFailedError:
        raise
    except OdfBuildError as error:
        return _refusal(error)


def _given_columns(ask: Callable[[], Any], _: DatasetVocabulary) -> Answer:
    """Ask, and return the columns as they come."""
    from odfbuild.odf.schema.arrow import from_arrow

    try:
        return from_arrow(ask())
    except EngineFailedError:
        raise
    except OdfBuildError as error:
        return _refusal(error)


def _refusal(error: OdfBuildError) -> DefinitionRefusal:
    first = error.diagnostics()[0]
    what, at = first.what, None
    if isinstance(error, PlacedQueryError):
        what, at = error.message, error.at
    return DefinitionRefusal(code=first.code, what=what, why=first.why, fix=first.fix, at=at)


def _question(form: Any) -> str:
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(sha3_256(text.encode("utf-8", "surrogatepass")))


def _written(answer: Answer) -> str:
    if isinstance(answer, DataSchema):
        return json.dumps({"columns": column_lines(answer)})
    at = answer.at and [answer.at.step, answer.at.start, answer.at.length]
    said = {"code": answer.code, "what": answer.what, "why": answer.why, "fix": answer.fix}
    return json.dumps({**said, "at": at})


@lru_cache(1 << 13)  # an editor checks all queries of a project at each change
def _read(text: str) -> Answer:
    """Return a kept answer; ValueError, TypeError or KeyError if it is not one."""
    value = parse_json(text)
    if "columns" in value:
        return read_columns(value["columns"])
    at = None if value["at"] is None else QueryPlace(*value["at"])
    return DefinitionRefusal(
        code=value["code"], what=value["what"], why=value["why"], fix=value["fix"], at=at
    )


_UNREADABLE = "the definition uses parts of a newer version of the format"
_UNDECLARED = "the source declares no columns, so its first rows decide"
_SOURCELESS = "the dataset has no source and declares no columns"
_BROKEN = "the definition has errors"
_ELSEWHERE = "a remote engine reports them when the query runs"
_UNASKED = "the text does not determine them, and no engine was used"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedColumns:
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
    asked about what the texts alone make certain; without an asker, about nothing.  Those of which
    `has_columns` is true have the columns of their chains.
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
        has_columns: Callable[[DatasetAlias], bool] = lambda _: False,
    ) -> None:
        self._definitions = definitions
        self._asker = asker
        self._known = known
        self._existing = existing
        self._broken = frozenset(broken)
        self._static = static
        self._has_columns = has_columns
        self._made: dict[DatasetAlias, DerivedColumns | None] = {}
        self._found: dict[DatasetAlias, AnalysedColumns] = {}

    def __call__(self, alias: DatasetAlias) -> AnalysedColumns:
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

    def answered(self, alias: DatasetAlias) -> AnalysedColumns:
        """Return what the engine says of a definition, also where the text is certain.

        Raises EngineFailedError.
        """
        known = self(alias)
        each = self._definitions.declared[alias]
        return known if alias in self._broken or known.found else self._asked(each)

    def certain_schema(self, alias: DatasetAlias) -> DataSchema | None:
        """Return the columns as the texts tell them, None unless all of that is certain."""
        made = self.made(alias)
        if made is None or made.columns is None:
            return None
        derived = self._definitions.declared[alias].snapshot.kind is DatasetKind.DERIVATIVE
        if (made.lost_time and derived) or (made.query and made.query.unknown_columns):
            return None
        fields = [DataField(c.name, c.type) for c in made.columns if c.type is not None]
        return DataSchema(tuple(fields)) if len(fields) == len(made.columns) else None

    def made(self, alias: DatasetAlias) -> "DerivedColumns | None":
        """Return what the texts tell of a definition; None if an input's columns are not known."""
        if alias not in self._made:
            self._made[alias] = self._make(alias)
        return self._made[alias]

    def read(self, alias: DatasetAlias) -> "DerivedColumns | None":
        """Return what the texts tell of a definition, whatever the columns of its inputs are.

        Its inputs have been looked at.
        """
        return self.made(alias) or self._make(alias, whole=False)

    def placed(self, alias: DatasetAlias) -> "DerivedColumns | None":
        """Return what `read` does, with all places in the very text of the definition."""
        return self._make(alias, whole=False, placed=True)

    def _make(
        self, alias: DatasetAlias, *, whole: bool = True, placed: bool = False
    ) -> "DerivedColumns | None":
        from odfbuild.planner.evolution.columns.answers import derive_with
        from odfbuild.planner.evolution.columns.derive import makes_of_events
        from odfbuild.sql.analysis.facts import columns_alike

        each = self._definitions.declared[alias].snapshot
        seen: dict[str, DataSchema | None] = {}
        vocabularies: dict[str, DatasetVocabulary | None] = {}
        for name, source in self._definitions.inputs(alias):
            found = None if source is None else self._input(name, source)
            seen[name] = None if found is None else data_schema(found.schema, found.vocab)
            vocabularies[name] = None if found is None else found.vocab
        if any(any(opaque_parts(event)) for event in each.metadata):
            return None
        if whole and None in seen.values():
            return None
        read = columns_alike if self._static and not placed else None
        asker = self._asker if self._static else None
        return made_of(
            ("columns", alias, read is None, asker and asker.scope),
            (each,),
            (seen, vocabularies),
            lambda: derive_with(
                None if asker is None else asker.columns,
                makes_of_events(each.kind, each.metadata),
                seen,
                vocabularies,
                read,
            ),
        )

    def vocabularies(self, alias: DatasetAlias) -> tuple[DatasetVocabulary | None, ...]:
        """Return the names of the system columns of each input; None of one that is not known."""
        sources = [source for _, source in self._definitions.inputs(alias)]
        return tuple(None if each is None else self._vocabulary(each) for each in sources)

    def _vocabulary(self, source: DatasetAlias) -> DatasetVocabulary | None:
        if source in self._definitions.declared:
            return self._definitions.vocabulary(source)
        state = self._existing(source)
        return None if state is None else state.vocab

    def inputs_hash(self, alias: DatasetAlias) -> str:
        """Return the hash of the columns of a dataset's inputs."""
        return self._definitions.inputs_hash(alias, lambda source: self(source).lines)

    def _below(self, alias: DatasetAlias) -> Iterable[DatasetAlias]:
        declared = self._definitions.declared
        if self._has_columns(alias):
            return ()
        sources = (source for _, source in self._definitions.inputs(alias))
        return [s for s in sources if s is not None and s in declared]

    def _resolved(self, alias: DatasetAlias) -> AnalysedColumns:
        if alias in self._found:
            return self._found[alias]
        if alias in self._broken:
            return AnalysedColumns(unknown=_BROKEN)
        if self._has_columns(alias):
            return self._of_chain(alias)
        known = self._known
        schema = None if known is None else known(alias, self.inputs_hash(alias))
        if schema is not None:
            return made_of(
                ("known columns", alias),
                (self._definitions.declared[alias],),
                schema,
                lambda: AnalysedColumns(schema=schema),
            )
        return made_of(
            ("analysed columns", alias, self._static, self._asker and self._asker.scope),
            self.grounds(alias),
            self._definitions.inputs(alias),
            lambda: self._certain_or_asked(alias),
            lambda found: found.schema is not None,
        )

    def grounds(self, alias: DatasetAlias) -> tuple[object, ...]:
        """Return what the columns of a dataset are worked out of, after its inputs were resolved.

        While these are the same objects, and the inputs have the same names, so are the columns.
        """
        sources = [source for _, source in self._definitions.inputs(alias)]
        below = [
            found
            for each in sources
            if each is not None
            for found in (self._found.get(each), self._existing(each))
        ]
        return (self._definitions.declared[alias], *below, self._existing(alias))

    def _certain_or_asked(self, alias: DatasetAlias) -> AnalysedColumns:
        schema = self.certain_schema(alias) if self._static else None
        if schema is not None:
            return AnalysedColumns(schema=schema)
        return self._asked(self._definitions.declared[alias])

    def _asked(self, each: Declared) -> AnalysedColumns:
        for at, event in enumerate(each.snapshot.metadata):
            if isinstance(event, SetDataSchema) and not any(opaque_parts(event)):
                vocab = self._definitions.vocabulary(each.alias)
                return AnalysedColumns(schema=data_schema(schema_of(event), vocab))
            if isinstance(event, SetTransform):
                return self._of_transform(each, at, event)
            if isinstance(event, SetPollingSource | AddPushSource):
                return self._of_source(each, at, event)
        return AnalysedColumns(unknown=_SOURCELESS)

    def _of_transform(self, each: Declared, at: int, event: SetTransform) -> AnalysedColumns:
        if any(opaque_parts(event)) or not isinstance(event.transform, TransformSql):
            return AnalysedColumns(unknown=_UNREADABLE)
        foreign = is_foreign(steps_of(event.transform))
        asker = self._asker
        if foreign and (asker is None or not asker.asks_elsewhere(event.transform.engine)):
            return AnalysedColumns(unknown=_ELSEWHERE)
        inputs: list[AnalysedInput] = []
        sources: list[DatasetAlias | None] = []
        for name, source in self._definitions.inputs(each.alias):
            sources.append(source)
            found = None if source is None else self._input(name, source)
            if found is None:
                return AnalysedColumns(
                    unknown=f"the columns of the input {source or name} are not known"
                )
            inputs.append(found)
        if asker is None or not (foreign or asker.asks(event.transform.engine)):
            return AnalysedColumns(unknown=_UNASKED)
        vocab = self._definitions.vocabulary(each.alias)
        ask = asker.transform_elsewhere if foreign else asker.transform
        answer = ask(event.transform, inputs, vocab)
        if answer is None:
            return AnalysedColumns(unknown=_ELSEWHERE)
        kept = [self._with_kept(name, each) for name, each in zip(sources, inputs, strict=True)]
        if kept != inputs and isinstance(answer, DataSchema):
            refused = ask(event.transform, kept, vocab)
            answer = refused if isinstance(refused, DefinitionRefusal) else answer
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

    def _with_kept(self, source: DatasetAlias | None, given: AnalysedInput) -> AnalysedInput:
        """Return an input as a step reads it: a chain keeps the columns that are not made more."""
        state = None if source is None else self._existing(source)
        stored = None if state is None else schema_in_force(state)
        names = {each.name for each in given.schema.fields}
        more = [each for each in (stored.fields if stored else ()) if each.name not in names]
        kept = tuple(each for each in more if is_optional(each.type))
        if not kept:
            return given
        return replace(given, schema=DataSchema((*given.schema.fields, *kept)))

    def _of_source(self, each: Declared, at: int, source: Source) -> AnalysedColumns:
        if any(opaque_parts(source)):
            return AnalysedColumns(unknown=_UNREADABLE)
        if not declares_columns(source.read):
            return self._of_chain(each.alias)
        if source.preprocess is not None and is_foreign(steps_of(source.preprocess)):
            return AnalysedColumns(unknown=_ELSEWHERE)
        if self._asker is None or not self._asker.asks():
            return self._of_preprocess(each, at, source)
        answer = self._asker.source(source, self._definitions.vocabulary(each.alias))
        return _columns(answer, lambda no: _place_in_source(each, at, source, no))

    def _of_preprocess(self, each: Declared, at: int, source: Source) -> AnalysedColumns:
        """Return what an engine that starts at once says against a preprocess query."""
        query, made = source.preprocess, self.read(each.alias)
        seen = None if made is None else made.inputs.get(PREPROCESS_INPUT)
        asker = self._asker
        if asker is None or query is None or seen is None or not asker.asks(query.engine):
            return AnalysedColumns(unknown=_UNASKED)
        answer = asker.preprocess(query, seen, self._definitions.vocabulary(each.alias))
        if isinstance(answer, DataSchema):
            return AnalysedColumns(unknown=_UNASKED)  # what the merge makes of them is not asked
        return _columns(answer, lambda no: _place_in_source(each, at, source, no))

    def _of_chain(self, alias: DatasetAlias) -> AnalysedColumns:
        """Return what the first rows decided, if there were any."""
        state = self._existing(alias)
        schema = None if state is None else schema_in_force(state)
        if state is None or schema is None:
            return AnalysedColumns(unknown=_UNDECLARED)
        return AnalysedColumns(schema=data_schema(schema, state.vocab))


def _columns(
    answer: DataSchema | DefinitionRefusal, place: Callable[[DefinitionRefusal], SourceSpan]
) -> AnalysedColumns:
    if isinstance(answer, DataSchema):
        return AnalysedColumns(schema=answer)
    found = Diagnostic(
        code=answer.code, what=answer.what, why=answer.why, fix=answer.fix, span=place(answer)
    )
    return AnalysedColumns(unknown=_BROKEN, found=(found,))


def _place_in_source(each: Declared, at: int, source: Source, no: DefinitionRefusal) -> SourceSpan:
    if no.at is not None and source.preprocess is not None:
        return place_in_query(each, ("metadata", at, "preprocess"), no.at)
    key = "read" if source.preprocess is None else "preprocess"
    return each.key_span(("metadata", at, key))


def query_path(each: Declared) -> tuple[str | int, ...]:
    """Return where the query of a dataset is in its definition; nothing if it has none."""
    for at, event in enumerate(each.snapshot.metadata):
        if isinstance(event, SetTransform):
            return ("metadata", at, "transform")
        if isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            return ("metadata", at, "preprocess")
    return ()


def place_in_query(
    each: Declared, path: tuple[str | int, ...], at: QueryPlace | None
) -> SourceSpan:
    """Return where a part of a query is written, or the query, or what it belongs to.

    `path` is that of the transform or preprocess step that the query is of.
    """
    written = _declared_columns(each, path)
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


def _declared_columns(each: Declared, path: tuple[str | int, ...]) -> object:
    event = each.written.metadata[int(path[1])]
    return getattr(event, str(path[2]), None)
