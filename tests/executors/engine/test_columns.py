"""Asking an engine about definitions: once for each question, refusals at their places."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from odfbuild.errors import EngineFailedError, SourceSpan
from odfbuild.executors.engine.analysis import Analysis, EngineFaultError
from odfbuild.executors.engine.columns import (
    AnalysedColumns,
    Asker,
    ColumnsOf,
    data_schema,
    full_schema,
)
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    MergeStrategyAppend,
    ReadStepCsv,
    SetDataSchema,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.planner.declared import Declared
from odfbuild.project.lock.state import Definitions
from odfbuild.state.memory.engine_answers import Answers
from tests.planner.builders import Chain, derivative, polling, root, schema
from tests.support.engines import FakeEngine

TIME = pa.field("event_time", pa.timestamp("us", tz="UTC"))
COPY = "select * from `a`"


def resolved(
    declared: Sequence[Declared],
    engine: FakeEngine,
    answers: Answers,
    *,
    existing: Mapping[DatasetAlias, ChainState] | None = None,
    version: str = "1",
    static: bool = False,
    broken: Sequence[str] = (),
) -> dict[str, AnalysedColumns]:
    with Asker(lambda: engine, version, answers) as asker:
        columns = ColumnsOf(
            Definitions(declared),
            asker,
            existing=(existing or {}).get,
            static=static,
            broken=[DatasetAlias.parse(each) for each in broken],
        )
        return {str(each.alias): columns(each.alias) for each in declared}


@pytest.fixture
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("cache") / "answers.sqlite")


def test_columns_go_from_sources_through_queries(answers: Answers) -> None:
    engine = FakeEngine(columns={"q": [TIME, pa.field("n", pa.int32())]})
    project = [root("a"), derivative("b", "a"), derivative("c", "b", query="q")]
    found = resolved(project, engine, answers)
    assert found["a"].lines == ("event_time TIMESTAMP NOT NULL", "a BIGINT")
    assert found["b"].lines == found["a"].lines
    assert found["c"].lines == ("event_time TIMESTAMP NOT NULL", "n INT")
    assert engine.asked == ["ingest", COPY, "q"]


def test_what_was_answered_is_never_asked_again(answers: Answers) -> None:
    project = [root("a"), derivative("b", "a"), derivative("c", "b", query="bad")]
    first = resolved(project, FakeEngine(refused=frozenset({"bad"})), answers)
    engine = FakeEngine()
    assert resolved(project, engine, answers) == first
    assert (engine.asked, engine.started) == ([], [])


@pytest.mark.parametrize("change", ["query", "columns", "vocabulary", "version"])
def test_another_question_is_asked(answers: Answers, change: str) -> None:
    project = [root("a"), derivative("b", "a")]
    resolved(project, FakeEngine(), answers)
    version = "2" if change == "version" else "1"
    match change:
        case "query":
            project[1] = derivative("b", "a", query="select 1")
        case "columns":
            read = ReadStepCsv(ddl_schema=("a INT",))
            project[0] = root("a", replace(polling(), read=read))
        case "vocabulary":
            vocab = SetVocab(operation_type_column="kind")
            project[0] = root("a", polling(), vocab)
    engine = FakeEngine()
    resolved(project, engine, answers, version=version)
    assert engine.asked


def test_a_refusal_stands_at_its_place_in_the_query(answers: Answers) -> None:
    engine = FakeEngine(refused=frozenset({"select x"}))
    found = resolved([root("a"), derivative("b", "a", query="select x")], engine, answers)
    (problem,) = found["b"].found
    assert (problem.code, problem.what) == ("invalid-query", "it is wrong")
    path = ("content", "metadata", 0, "transform", "queries", 0, "query")
    assert problem.span == SourceSpan(file="d.yaml", line=len(path), column=1, length=8)
    assert found["b"].schema is None


def test_a_result_that_cannot_be_stored_is_refused(answers: Answers) -> None:
    engine = FakeEngine(columns={"q": [TIME, pa.field("n", pa.null())]})
    found = resolved([root("a"), derivative("b", "a", query="q")], engine, answers)
    assert [each.code for each in found["b"].found] == ["bad-input-schema"]


def test_a_failure_of_the_engine_is_no_answer(answers: Answers) -> None:
    class Failing(FakeEngine):
        def analyse(self, question: object) -> pa.Schema:
            raise EngineFailedError(what="it broke", why="a test", fix="none")

    project = [root("a"), derivative("b", "a")]
    with pytest.raises(EngineFailedError):
        resolved(project, Failing(), answers)
    engine = FakeEngine()
    assert resolved(project, engine, answers)["b"].schema is not None
    assert engine.asked == [COPY]


def test_a_fault_leaves_out_one_definition_and_is_not_kept(answers: Answers) -> None:
    class Faulty(FakeEngine):
        def analyse(self, question: Analysis) -> pa.Schema:
            if question.steps[0].text == "q":
                raise EngineFaultError(what="it broke", why="a test", fix="none")
            return super().analyse(question)

    project = [root("a"), derivative("b", "a", query="q"), derivative("c", "b"), root("d")]
    project.append(derivative("e", "d"))
    found = resolved(project, Faulty(), answers)
    (problem,) = found["b"].found
    assert (problem.code, problem.what) == ("engine-failed", "it broke")
    assert problem.span is not None
    assert found["c"].schema is None
    assert found["e"].schema is not None
    assert not resolved(project, FakeEngine(), answers)["b"].found


def test_the_engine_is_closed_once_it_was_started(answers: Answers) -> None:
    engine = FakeEngine()
    resolved([root("a")], engine, answers)
    assert engine.started == ["close"]


def test_what_reads_unknown_columns_is_unknown_and_says_of_whom(answers: Answers) -> None:
    project = [
        root("a", replace(polling(), read=ReadStepCsv(header=True))),
        derivative("b", "a"),
        derivative("c", "b"),
    ]
    engine = FakeEngine()
    found = resolved(project, engine, answers)
    assert found["a"].unknown == "the source declares no columns, so its first rows decide"
    assert found["b"].unknown == "the columns of the input a are not known"
    assert found["c"].unknown == "the columns of the input b are not known"
    assert engine.asked == []


def test_the_first_rows_of_a_chain_decide_where_a_source_declares_nothing(
    answers: Answers,
) -> None:
    inferred = root("a", replace(polling(), read=ReadStepCsv(header=True)))
    chain = Chain("a", inferred.snapshot.kind, [schema("n INT")])
    found = resolved([inferred], FakeEngine(), answers, existing={inferred.alias: chain.state})
    assert found["a"].lines == ("event_time TIMESTAMP NOT NULL", "n INT")


def test_an_input_that_is_only_in_the_workspace_has_the_columns_of_its_chain(
    answers: Answers,
) -> None:
    alias = DatasetAlias.parse("a")
    chain = Chain("a", root("a").snapshot.kind, [schema("n INT")])
    found = resolved([derivative("b", "a")], FakeEngine(), answers, existing={alias: chain.state})
    assert found["b"].lines == ("event_time TIMESTAMP NOT NULL", "n INT")
    assert resolved([derivative("b", "a")], FakeEngine(), answers)["b"].schema is None


def test_a_declared_schema_and_a_pushed_source_need_no_polling(answers: Answers) -> None:
    declared = SetDataSchema(
        schema=full_schema(parse_ddl("event_time DATE NOT NULL, k INT"), VOCAB)
    )
    pushed = AddPushSource(
        source_name="p", read=ReadStepCsv(ddl_schema=("z INT",)), merge=MergeStrategyAppend()
    )
    found = resolved([root("a", declared), root("b", pushed), root("c", SetVocab())],
                     FakeEngine(), answers)  # fmt: skip
    assert found["a"].lines == ("event_time DATE NOT NULL", "k INT")
    assert found["b"].lines == ("event_time TIMESTAMP NOT NULL", "z INT")
    assert found["c"].unknown == "the dataset has no source and declares no columns"


def test_broken_definitions_are_not_asked_about(answers: Answers) -> None:
    engine = FakeEngine()
    found = resolved([root("a"), derivative("b", "a")], engine, answers, broken=["a"])
    assert found["a"].unknown == "the definition has errors"
    assert engine.asked == []


def test_what_the_texts_make_certain_needs_no_engine(answers: Answers) -> None:
    engine = FakeEngine()
    found = resolved([root("a"), derivative("b", "a")], engine, answers, static=True)
    assert found["b"].lines == ("event_time TIMESTAMP NOT NULL", "a BIGINT")
    assert engine.asked == []


def test_a_long_row_of_datasets_is_resolved_without_recursion(answers: Answers) -> None:
    row = [root("d0"), *(derivative(f"d{n}", f"d{n - 1}") for n in range(1, 1500))]
    with Asker(FakeEngine, "1", Answers()) as asker:
        columns = ColumnsOf(Definitions(row), asker)
        assert columns(row[-1].alias).schema is not None


VOCAB = Definitions([root("a")]).vocabulary(DatasetAlias.parse("a"))


def test_system_columns_are_taken_off_and_put_back() -> None:
    data = parse_ddl("event_time DATE NOT NULL, k INT")
    assert data_schema(full_schema(data, VOCAB), VOCAB) == data
    assert [f.name for f in full_schema(data, VOCAB).fields] == [
        "offset", "op", "system_time", "event_time", "k",
    ]  # fmt: skip


def test_a_kept_answer_that_makes_no_sense_is_asked_again() -> None:
    class Nonsense(Answers):
        def get(self, question: str) -> str | None:
            return '{"columns": ["?"]}'

    engine = FakeEngine()
    assert resolved([root("a")], engine, Nonsense())["a"].schema is not None
    assert engine.asked == ["ingest"]
