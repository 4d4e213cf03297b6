"""What is known of queries without an engine never differs from what Spark's analyser says."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.sql.text import types as spark_types
from odfbuild.sql.text.steps import QueryStep
from odfbuild.sql.text.types import as_stored
from tests.sql.sql_cases import CASES, INPUTS, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NAMES: dict[str, DataType] = {
    "boolean": spark_types.BOOLEAN,
    "byte": spark_types.BYTE,
    "short": spark_types.SHORT,
    "integer": spark_types.INT,
    "long": spark_types.BIGINT,
    "float": spark_types.FLOAT,
    "double": spark_types.DOUBLE,
    "string": spark_types.STRING,
    "binary": spark_types.BINARY,
    "date": spark_types.DATE,
    "timestamp": spark_types.TIMESTAMP,
    "timestamp_ntz": spark_types.LOCAL_TIME,
}
_WORDS = {kind: name for name, kind in _NAMES.items()}


def as_spark(of: DataType) -> Any:
    """Return a type in Spark's JSON form, which has null apart from the type."""
    match of:
        case DataTypeDecimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case DataTypeList(item_type=item):
            null = isinstance(item, DataTypeOption)
            return {"type": "array", "elementType": as_spark(plain(item)), "containsNull": null}
        case DataTypeMap(key_type=key, value_type=value):
            null = isinstance(value, DataTypeOption)
            parts = {"keyType": as_spark(key), "valueType": as_spark(plain(value))}
            return {"type": "map", **parts, "valueContainsNull": null}
        case DataTypeStruct(fields=fields):
            return {"type": "struct", "fields": [field_as_spark(field) for field in fields]}
    return _WORDS[of]


def field_as_spark(field: DataField) -> dict[str, Any]:
    null = isinstance(field.type, DataTypeOption)
    return {"name": field.name, "type": as_spark(plain(field.type)), "nullable": null} | {
        "metadata": {}
    }


def plain(of: DataType) -> DataType:
    return of.inner if isinstance(of, DataTypeOption) else of


def of_spark(kind: Any) -> DataType | None:
    """Return Spark's type as one of ours; None if no dataset can have it."""
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            precision, scale = kind[len("decimal(") : -1].split(",")
            return DataTypeDecimal(int(precision), int(scale))
        return _NAMES.get(kind)
    if kind["type"] == "array":
        item = optional(of_spark(kind["elementType"]), null=kind["containsNull"])
        return None if item is None else DataTypeList(item)
    if kind["type"] == "map":
        key = of_spark(kind["keyType"])
        value = optional(of_spark(kind["valueType"]), null=kind["valueContainsNull"])
        return None if key is None or value is None else DataTypeMap(key, value)
    if kind["type"] != "struct":
        return None
    parts = [(f["name"], optional(of_spark(f["type"]), null=f["nullable"])) for f in kind["fields"]]
    fields = [DataField(name, part) for name, part in parts if part is not None]
    return DataTypeStruct(tuple(fields)) if len(fields) == len(parts) else None


def optional(of: DataType | None, *, null: bool) -> DataType | None:
    return of if of is None or not null else DataTypeOption(of)


def holds(claim: DataType, truth: DataType) -> bool:
    """Tell whether a claim is true: the same type, never null only where it never is."""
    match claim, truth:
        case DataTypeOption(inner=inner), _:
            return holds(inner, plain(truth))
        case _, DataTypeOption():
            return False
        case DataTypeList(item_type=a), DataTypeList(item_type=b):
            return holds(a, b)
        case DataTypeMap(), DataTypeMap():
            return holds(claim.key_type, truth.key_type) and holds(
                claim.value_type, truth.value_type
            )
        case DataTypeStruct(fields=mine), DataTypeStruct(fields=theirs):
            return [f.name for f in mine] == [f.name for f in theirs] and all(
                holds(f.type, g.type) for f, g in zip(mine, theirs, strict=True)
            )
    return claim == truth


class Analyser:
    """A session with empty tables, asked for the schemas of queries."""

    def __init__(self, session: "SparkSession") -> None:
        self.session = session
        self.names: set[str] = set()

    def put(self, name: str, schema: DataSchema) -> None:
        from pyspark.sql.types import StructType

        fields = [field_as_spark(field) for field in schema.fields]
        kind = StructType.fromJson({"type": "struct", "fields": fields})
        self.session.createDataFrame([], kind).createOrReplaceTempView(name)
        self.names.add(name)

    def fields(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.session.sql(query).schema.jsonValue()["fields"]
        return found


@pytest.fixture(scope="module")
def analyser(engine: SparkEngine) -> Iterator[Analyser]:
    analyser = Analyser(engine._sessions.session(StepSize.SMALL))
    for name, schema in INPUTS.items():
        analyser.put(name, schema)
    yield analyser
    for name in analyser.names:
        analyser.session.catalog.dropTempView(name)


def check(found: QueryColumns, truth: list[dict[str, Any]], query: str) -> None:
    """Compare claims with the truth; what is not claimed is not compared."""
    assert found.unknown_columns == (), query
    if found.outputs is None:
        return
    assert len(found.outputs) == len(truth), query
    for mine, theirs in zip(found.outputs, truth, strict=True):
        assert mine.name in {"", theirs["name"]}, query
        if mine.type is not None:
            real = as_stored(optional(of_spark(theirs["type"]), null=theirs["nullable"]))
            assert real is not None, f"{query}: {theirs}"
            assert holds(mine.type, real), f"{query}: {mine.type} for {theirs}"


UNKNOWN_TO_SPARK = ("udf(",)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if not any(u in c.query for u in UNKNOWN_TO_SPARK)],
    ids=lambda c: c.id,
)
def test_what_is_known_of_a_query_is_what_spark_says(case: Case, analyser: Analyser) -> None:
    found = columns_of([QueryStep(None, case.query)], INPUTS)
    check(found, analyser.fields(case.query), case.query)


REFUSED = [
    "select pricee from trades",
    "select Symbol from trades",
    "select trades.symbol from trades t",
    "select symbol from trades t, rates r",
    "select venue.names from trades",
    "select r.rate from trades t left semi join rates r using (symbol)",
    "select s from (select symbol from trades)",
]


@pytest.mark.parametrize("query", REFUSED)
def test_a_name_that_is_told_as_unknown_is_unknown_to_spark(query: str, analyser: Analyser) -> None:
    assert columns_of([QueryStep(None, query)], INPUTS).unknown_columns
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|AMBIGUOUS_REFERENCE|FIELD_NOT_FOUND"):
        analyser.fields(query)


# Random queries over random schemas

TYPES: tuple[DataType, ...] = (
    spark_types.BOOLEAN,
    spark_types.INT,
    spark_types.BIGINT,
    spark_types.FLOAT,
    spark_types.DOUBLE,
    spark_types.STRING,
    spark_types.DATE,
    spark_types.TIMESTAMP,
    DataTypeDecimal(10, 2),
    DataTypeDecimal(38, 10),
    DataTypeDecimal(5, 0),
    DataTypeList(DataTypeOption(spark_types.INT)),
    DataTypeStruct(
        (DataField("x", spark_types.INT), DataField("y", DataTypeOption(spark_types.STRING)))
    ),
)
NUMBERS = TYPES[1:5] + TYPES[8:11]


@st.composite
def schemas(draw: st.DrawFn) -> DataSchema:
    """Return the key `k` and up to five columns `c0`, `c1`, ..., some of them required."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    columns = [
        DataField(f"c{at}", kind if draw(st.booleans()) else DataTypeOption(kind))
        for at, kind in enumerate(kinds)
    ]
    return DataSchema((DataField("k", spark_types.STRING), *columns))


@st.composite
def values(draw: st.DrawFn, columns: list[tuple[str, DataType]], depth: int = 2) -> str:
    """Return an expression over columns, most often one that Spark accepts."""
    numbers = [name for name, kind in columns if plain(kind) in NUMBERS] or ["1"]
    anything = [name for name, _ in columns]
    number = st.one_of(st.sampled_from(numbers), st.sampled_from(["1", "2.5", "7L", "1e2"]))
    if depth == 0:
        return draw(st.one_of(number, st.sampled_from(anything)))
    inner = values(columns, depth - 1)
    form = draw(st.integers(0, 9))
    if form <= 2:
        op = draw(st.sampled_from(["+", "-", "*", "/", "%"]))
        return f"({draw(number)} {op} {draw(number)})"
    if form == 3:
        return f"coalesce({draw(inner)}, {draw(inner)})"
    if form == 4:
        return f"case when {draw(number)} > 1 then {draw(inner)} else {draw(inner)} end"
    if form == 5:
        to = draw(st.sampled_from(["string", "bigint", "decimal(12,3)", "double", "int"]))
        return f"cast({draw(number)} as {to})"
    if form == 6:
        function = draw(st.sampled_from(["abs", "round", "floor", "ceil", "sqrt", "negative"]))
        return f"{function}({draw(number)})"
    if form == 7:
        return f"struct({draw(inner)} as p, {draw(inner)} as q)"
    if form == 8:
        return f"array({draw(number)}, {draw(number)})"
    return draw(st.sampled_from(anything))


@st.composite
def projects(draw: st.DrawFn) -> tuple[dict[str, DataSchema], str]:
    """Return two schemas and a query that selects from their join."""
    inputs = {"left_table": draw(schemas()), "right_table": draw(schemas())}
    columns = [
        (f"{alias}.{field.name}", field.type)
        for alias, schema in zip("ab", inputs.values(), strict=True)
        for field in schema.fields
    ]
    kind = draw(st.sampled_from(["join", "left join", "right join", "full join", "cross join"]))
    on = "" if kind == "cross join" else " on a.k = b.k"
    items = draw(st.lists(values(columns), min_size=1, max_size=4))
    listed = [f"{item} as o{at}" for at, item in enumerate(items)]
    star = draw(st.sampled_from(["", "a.*, ", "b.* except (k), "]))
    where = draw(st.sampled_from(["", " where a.k is not null", " where a.k = 'x'"]))
    source = f"left_table a {kind} right_table b{on}{where}"
    query = f"select {star}{', '.join(listed)} from {source}"
    if draw(st.booleans()):
        query = f"select a.k as k, count(*) as n, max({items[0]}) as m from {source} group by a.k"
    return inputs, query


@settings(deadline=None)
@given(given=projects())
def test_random_queries_are_known_as_spark_says(
    given: tuple[dict[str, DataSchema], str], analyser: Analyser
) -> None:
    inputs, query = given
    for name, schema in inputs.items():
        analyser.put(name, schema)
    found = columns_of([QueryStep(None, query)], inputs)
    with suppress_refusals():
        check(found, analyser.fields(query), query)


def suppress_refusals() -> suppress:
    """Let pass queries that Spark does not accept, such as sums of a date."""
    from pyspark.errors import AnalysisException

    return suppress(AnalysisException)
