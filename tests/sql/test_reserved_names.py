"""Names of columns and tables that steps add are refused in transforms, wherever they are."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetVocabulary,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    SqlQueryStep,
    TemporalTable,
    TransformSql,
)
from odfbuild.odf.schema.columns import EVENT_TIME
from odfbuild.sql.analysis.facts import examine, examine_alike
from odfbuild.sql.query import Query, QueryInput

VOCAB = DatasetVocabulary()
COLUMNS = (
    DataField("event_time", EVENT_TIME),
    DataField("k", DataTypeString()),
    DataField("v", DataTypeInt64()),
)
QUERIES = {
    "linear": "select event_time, k as NAME from a",
    "join": "select a.event_time, a.k, b.v as NAME from a join b on a.k = b.k",
    "keyed": "select event_time, k, row_number() over (partition by k order by v, event_time) as "
    "NAME from a",
    "state": "select max(event_time) as event_time, k, sum(v) as NAME from a group by k",
    "whole": "select a.event_time, a.v, b.k as NAME from a cross join b",
    "versions": "select a.event_time, r.v as NAME from a join b for system_time as of "
    "a.event_time as r on a.k = r.k",
    "of a table": "with NAME as (select * from a) select event_time, k from NAME",
    "of a relation": "select NAME.event_time, NAME.k from a as NAME",
    "of a field": "select event_time, s.* from (select event_time, named_struct('NAME', v) as s "
    "from a)",
    "in quotes": "select event_time, k as `NAME` from a",
}
names = st.from_regex(r"__[oO][dD][fF]_[a-zA-Z0-9_]{0,8}", fullmatch=True)
free = st.from_regex(r"(odf|_odf|__od|n_odf)_[a-z]{0,8}", fullmatch=True)


def transform(text: str, engine: str = "spark") -> TransformSql:
    tables = (TemporalTable("b", ("k",)),) if "system_time" in text else None
    return TransformSql(engine=engine, query=text, temporal_tables=tables)


def query(
    of: TransformSql,
    columns: tuple[DataField, ...] = COLUMNS,
    vocab: DatasetVocabulary = VOCAB,
    alias: str = "a",
) -> Query:
    inputs = (
        QueryInput(alias, DataSchema(columns), vocab),
        QueryInput("b", DataSchema(COLUMNS), VOCAB),
    )
    return Query.of(of, inputs, VOCAB)


def codes(of: Query) -> set[str]:
    return {each.code for each in of.problems}


@pytest.mark.parametrize("text", QUERIES.values(), ids=list(QUERIES))
@given(name=names, other=free)
def test_a_query_does_not_say_one(text: str, name: str, other: str) -> None:
    said = transform(text.replace("NAME", name))
    assert codes(query(said)) == {"reserved-name"}
    assert name in query(said).problems[0].what
    assert codes(query(transform(text.replace("NAME", other)))) == set()


@pytest.mark.parametrize("text", QUERIES.values(), ids=list(QUERIES))
@given(name=names, other=free)
def test_an_input_has_no_such_column(text: str, name: str, other: str) -> None:
    of = transform(text.replace("NAME", "n"))
    kinds = (DataTypeInt64(), DataTypeOption(DataTypeStruct((DataField(name, DataTypeInt64()),))))
    wrong = (DataField(name, kinds[0]), DataField("s", kinds[1]))
    for each in wrong:
        assert codes(query(of, (*COLUMNS, each))) == {"reserved-name"}
    assert codes(query(of, (*COLUMNS, DataField(other, kinds[0])))) == set()
    assert codes(query(of, vocab=replace(VOCAB, offset_column=name))) == {"reserved-name"}


@given(name=names)
def test_an_input_of_datafusion_has_no_such_column(name: str) -> None:
    for text in (
        "select event_time, k from a",
        "select event_time, count(*) as n from a group by 1",
    ):
        of = transform(text, "datafusion")
        wrong = DataField(name, DataTypeInt64())
        assert codes(query(of)) == set()
        assert codes(query(of, (*COLUMNS, wrong))) == {"reserved-name"}
        assert codes(query(transform(text.replace("event_time,", f'k as "{name}",'), "datafusion")))


@given(name=names)
def test_no_input_and_no_step_is_called_so(name: str) -> None:
    text = f"select event_time, k from `{name}`"
    assert codes(query(transform(text), alias=name)) == {"reserved-name"}
    steps = (SqlQueryStep(alias=name, query="select * from a"), SqlQueryStep(query=text))
    assert codes(query(TransformSql(engine="spark", queries=steps))) == {"reserved-name"}


def test_a_comment_may_say_one_and_the_place_of_a_name_is_said() -> None:
    text = "select -- __odf_pos\n event_time, 'odf' as __ODF_pos from a"
    (found,) = query(transform(text)).problems
    assert re.search(r"line 2, column 23", found.what)
    assert codes(query(transform(text.replace("__ODF_", "")))) == set()


def test_a_query_that_is_alike_passes_nothing_on() -> None:
    texts = [QUERIES["of a field"].replace("NAME", name) for name in ("n", "__odf_n")]
    steps = [query(transform(text)).steps for text in texts]
    assert examine_alike(steps[0], ["a"]) == examine(steps[0], ["a"])
    facts = examine_alike(steps[1], ["a"])
    assert facts == examine(steps[1], ["a"])
    assert "reserved-name" in {each.reason.value for each in facts.findings}
