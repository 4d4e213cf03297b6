"""Places of what DataFusion refuses in a query: the name that is wrong, wherever it is."""

import random

import pytest

from odfbuild.executors.engine.analysis import AnalysedInput, Analysis, PlacedQueryError
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.text.steps import DATAFUSION, QueryStep
from tests.support.effort import examples

VOCAB = DatasetVocabulary(event_time_column="t")
COLUMNS = parse_ddl("t TIMESTAMP, shop STRING, `two words` BIGINT, Large BIGINT, v BIGINT")
WRONG = ("shopp", '"tow words"', "large", "vv", "r.shopp", 'r."tow words"', "r.large", '"a""b"')
TEXTS = (
    "select t, {} as shop from r",
    "select r.t, 'shopp' as shop, {} from r",
    'select t, v as "vv", v as shopp, v as large, {} as x from r',
    "select t, v from r where {} > 1 -- {{}} shopp\n",
    "select max(t) as t, count(*) as n from r group by {}",
    "with c as (select t, {} as x from r) select * from c",
    "select t, v from r union all select t, {} from r",
    "select t, v from r\n  join (select max({}) as m from r) as o on v = m",
    "select t, v from r order by {} limit 3",
    "select t, 'é' as e, sum(v) over (partition by {} order by t) as s from r",
)


def refused(*texts: str) -> PlacedQueryError:
    steps = tuple(
        QueryStep(None if each is texts[-1] else f"s{number}", each, engine=DATAFUSION)
        for number, each in enumerate(texts)
    )
    inputs = (AnalysedInput(alias="r", schema=COLUMNS, vocab=VOCAB),)
    with pytest.raises(PlacedQueryError) as found:
        DataFusionEngine().analyse(Analysis(steps=steps, inputs=inputs, vocab=VOCAB))
    return found.value


def test_a_column_that_there_is_none_of_is_where_it_is_read() -> None:
    pairs = [(text, wrong) for text in TEXTS for wrong in WRONG]
    for text, wrong in random.Random(4).sample(pairs, examples(24, len(pairs))):
        query = text.format(wrong)
        error = refused(query)
        at = error.at
        assert at is not None and at.start is not None, query
        assert at.start == text.format("\0" * len(wrong)).index("\0"), (query, at)
        assert query[at.start : at.start + at.length] == wrong
        assert wrong.rpartition(".")[2].strip('"') in error.what.replace('""', '"') or '""' in wrong


def test_the_step_that_is_wrong_is_named_with_the_columns_that_it_has() -> None:
    error = refused("select t, v as w from r", "select t, ww from s0")
    assert error.at is not None
    assert (error.at.step, error.at.start, error.at.length) == (1, 10, 2)
    assert (error.what, error.fix) == ("there is no column 'ww'", "did you mean 'w'?")
    assert "s0.t, s0.w" in error.why


def test_a_name_without_a_table_stays_without_one_where_only_one_table_has_the_column() -> None:
    pairs = "from (select t, v as w from r) as a join (select t, shop from r) as b on a.t = b.t"
    assert refused(f"select a.t, shopp {pairs}").fix == "did you mean 'shop'?"
    assert refused(f"select a.t, b.shopp {pairs}").fix == "did you mean 'b.shop'?"
    assert refused(f"select a.t, tt {pairs}").fix in (
        "did you mean 'a.t'?", "did you mean 'b.t'?"
    )  # fmt: skip


def test_a_column_that_two_inputs_have_is_where_it_is_read() -> None:
    error = refused("select a.t, v from r as a join r as b on a.t = b.t")
    assert error.at is not None
    assert (error.at.start, error.at.length) == (12, 1)
