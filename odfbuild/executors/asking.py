"""Ask an engine which columns a definition gives, and keep the answer: a question is asked once.

What is asked depends on the question alone (engine version, query, input columns), so an answer
holds for ever, a refusal as well; only a failure of the engine itself is never kept.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.analysis import (
    AnalysedInput,
    Analyser,
    Analysis,
    PlacedQueryError,
    QueryPlace,
)
from odfbuild.executors.engine import IngestRequest
from odfbuild.executors.frames import Frame
from odfbuild.json_text import parse_json
from odfbuild.odf.datatypes import inner
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    DatasetVocabulary,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
    SetPollingSource,
    TransformSql,
)
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.manifest import to_mapping
from odfbuild.odf.schema import system_fields
from odfbuild.planner.sql.query import steps_of
from odfbuild.project.column_lines import column_lines, read_columns
from odfbuild.state.answers import Answers

__all__ = ["Asker", "Refusal", "Source", "data_schema", "declares_columns", "full_schema"]

Source: TypeAlias = SetPollingSource | AddPushSource
_READABLE = ReadStepCsv | ReadStepJson | ReadStepNdJson | ReadStepParquet


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What an engine says against a definition; `at` is the place in its query, if it is told."""

    code: str
    what: str
    why: str
    fix: str
    at: QueryPlace | None = None


Answer: TypeAlias = DataSchema | Refusal


class Asker:
    """Puts questions to an engine, which starts with the first one that was never answered.

    `start` makes the engine, `version` is what it will be.
    """

    def __init__(self, start: Callable[[], Analyser], version: str, answers: Answers) -> None:
        self._start = start
        self._version = version
        self._answers = answers
        self._engine: Analyser | None = None

    def transform(
        self, transform: TransformSql, inputs: Sequence[AnalysedInput], vocab: DatasetVocabulary
    ) -> Answer:
        """Return the data columns that a transform gives.  Raises EngineFailedError."""
        steps = steps_of(transform)
        form = [
            [[each.alias, each.text, *each.temporal] for each in steps],
            [[i.alias, column_lines(i.schema), to_mapping(i.vocab)] for i in inputs],
        ]
        question = Analysis(steps=steps, inputs=tuple(inputs), vocab=vocab)
        return self._answer("transform", form, vocab, lambda: self._asked().analyse(question))

    def source(self, source: Source, vocab: DatasetVocabulary) -> Answer:
        """Return the data columns that a source gives whose read step declares some.

        Raises EngineFailedError.
        """

        def ask() -> Any:
            from odfbuild.executors.readers.options import declared_schema

            assert isinstance(source.read, _READABLE)  # noqa: S101 - declares_columns
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
                return self._asked().ingest(request).schema

        query = None if source.preprocess is None else steps_of(source.preprocess)
        steps = None if query is None else [[each.alias, each.text] for each in query]
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

    def _asked(self) -> Analyser:
        if self._engine is None:
            self._engine = self._start()
        return self._engine

    def _answer(
        self, kind: str, form: Any, vocab: DatasetVocabulary, ask: Callable[[], Any]
    ) -> Answer:
        question = _question([1, self._version, kind, form, to_mapping(vocab)])
        known = self._answers.get(question)
        if known is not None:
            with suppress(ValueError, TypeError, KeyError):
                return _read(known)
        answer = _stored(ask, vocab)
        self._answers.put(question, _written(answer))
        return answer


def declares_columns(source: Source) -> bool:
    """Tell whether the columns of a source can be told before its first rows."""
    read = source.read
    return isinstance(read, _READABLE) and bool(read.schema is not None or read.ddl_schema)


def data_schema(schema: DataSchema, vocab: DatasetVocabulary) -> DataSchema:
    """Return the event time and the data columns of a dataset's schema."""
    hidden = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return DataSchema(tuple(each for each in schema.fields if each.name not in hidden))


def full_schema(data: DataSchema, vocab: DatasetVocabulary) -> DataSchema:
    """Return a dataset's schema with its system columns, given the data columns."""
    time = next((f for f in data.fields if f.name == vocab.event_time_column), None)
    system = system_fields(vocab) if time is None else system_fields(vocab, inner(time.type))
    return DataSchema((*system, *(f for f in data.fields if f is not time)))


def _stored(ask: Callable[[], Any], vocab: DatasetVocabulary) -> Answer:
    """Ask, and return the columns as they would be stored."""
    from odfbuild.executors.slice_schema import slice_schema

    try:
        return data_schema(slice_schema(ask(), vocab, None), vocab)
    except EngineFailedError:
        raise
    except OdfBuildError as error:
        return _refusal(error)


def _refusal(error: OdfBuildError) -> Refusal:
    first = error.diagnostics()[0]
    what, at = first.what, None
    if isinstance(error, PlacedQueryError):
        what, at = error.message, error.at
    return Refusal(code=first.code, what=what, why=first.why, fix=first.fix, at=at)


def _question(form: Any) -> str:
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(sha3_256(text.encode("utf-8", "surrogatepass")))


def _written(answer: Answer) -> str:
    if isinstance(answer, DataSchema):
        return json.dumps({"columns": column_lines(answer)})
    at = answer.at and [answer.at.step, answer.at.start, answer.at.length]
    said = {"code": answer.code, "what": answer.what, "why": answer.why, "fix": answer.fix}
    return json.dumps({**said, "at": at})


def _read(text: str) -> Answer:
    """Return a kept answer; ValueError, TypeError or KeyError if it is not one."""
    value = parse_json(text)
    if "columns" in value:
        return read_columns(value["columns"])
    at = None if value["at"] is None else QueryPlace(*value["at"])
    return Refusal(
        code=value["code"], what=value["what"], why=value["why"], fix=value["fix"], at=at
    )
