"""What is refused of a query for types is what Spark's analyser refuses, over drawn expressions."""

from itertools import combinations, islice
from random import Random

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.argument_types import ACCEPTED
from odfbuild.sql.columns import columns_of
from odfbuild.sql.text.steps import QueryStep
from tests.sql.spark_types import CONSTANTS, OPERATORS, VIEW, Analyser
from tests.support.effort import examples, stride

pytestmark = pytest.mark.spark

EXPRESSIONS = examples(120, 4_000)
_INNER = {"TINYINT", "SMALLINT", "TIMESTAMP_NTZ"}  # types that only a query makes
COLUMNS = [name for name, kind in VIEW.items() if kind not in _INNER]
SCHEMA = parse_ddl(", ".join(f"{name} {VIEW[name]}" for name in COLUMNS))
_MORE = (
    "coalesce({}, {}, {})",
    "greatest({}, {}, {})",
    "array({}, {}, {})",
    "case when {} then {} when {} then {} else {} end",
    "case {} when {} then {} end",
    "{} in ({}, {}, {})",
    "{} between {} and {}",
    "{} and {} and {}",
    "if({}, {}, {})",
    "try_cast({} as date)",
    "interval '1' day + {}",
    "{} * interval '1' day",
    "nullif({}, null)",
    "{}.p",
    "map({}, {})",
    "struct({}, {})",
    "sum({}) over (order by {})",
    "transform({}, x -> x + {})",
)
_FORMS = (
    *(OPERATORS[name] for name, _ in ACCEPTED if name in OPERATORS),
    *(f"{name}({', '.join(['{}'] * n)})" for name, n in ACCEPTED if name not in OPERATORS),
    *_MORE * 4,
)
_LEAVES = (*COLUMNS, *(each for of in CONSTANTS.values() for each in of), "null")


def drawn(random: Random, depth: int = 2) -> str:
    """Return an expression, most likely with something wrong in it."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(_LEAVES)
    form = random.choice(_FORMS)
    inner = [f"({drawn(random, depth - 1)})" for _ in range(form.count("{}"))]
    return form.format(*inner)


def refused(expr: str) -> bool:
    return refused_query(f"select {expr} as x from a")


def refused_query(query: str) -> bool:
    steps = [QueryStep(None, query)]
    return any(each.typed for each in columns_of(steps, {"a": SCHEMA}).wrong_constants)


def test_what_is_refused_for_its_types_spark_refuses(engine: SparkEngine) -> None:
    analyser, random = Analyser(engine), Random(f"types {EXPRESSIONS}")
    exprs = [drawn(random, 1 + number % 2) for number in range(EXPRESSIONS)]
    ours = {each for each in exprs if refused(each)}
    wrong = [each for each in sorted(ours) if not analyser.refusal(f"select {each} as x from a")]
    assert not wrong
    passed = [each for each in exprs if each not in ours]
    missed = [e for e, bad in zip(passed, analyser.mismatches(passed), strict=True) if bad]
    print(f"{len(ours)} of {len(exprs)} refused; of those that pass, Spark refuses {len(missed)}:")
    print("\n".join(missed))
    assert len(ours) > len(exprs) / 4
    assert len(missed) < len(exprs) / 20  # intervals, and items of lists


def test_columns_of_a_union_and_conditions_have_types_that_go_there(engine: SparkEngine) -> None:
    analyser = Analyser(engine)
    for left, right in islice(combinations(COLUMNS, 2), 0, None, stride(3)):
        query = f"select {left} as x from a union all select {right} from a"
        assert refused_query(query) <= bool(analyser.refusal(query)), query
    for name in COLUMNS:
        having = f"select max(i0) as x from a having max({name})"
        assert refused_query(having) <= bool(analyser.refusal(having)), having
        for query in (
            f"select i0 from a where {name}",
            f"select p.i0 from a p join a q on p.{name}",
            f"select count(*) filter (where {name}) as x from a",
        ):
            assert refused_query(query) <= bool(analyser.refusal(query)), query
            assert refused_query(query) == (name != "b0"), query
