"""What columns definitions make, and how they are carried over to what is stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetKind,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    SetInfo,
    SetPollingSource,
    SetTransform,
    TimeUnit,
    TransformInput,
)
from odfbuild.odf.opaque import Opaque
from odfbuild.odf.schema.columns import EVENT_TIME
from odfbuild.odf.schema.ddl import parse_ddl, to_ddl
from odfbuild.odf.schema.types import optional
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.derive import DerivedColumns, derive, makes_of_events
from odfbuild.planner.evolution.columns.resolve import Resolver
from odfbuild.planner.evolution.columns.use import ALL, affected, readers_of
from odfbuild.planner.evolution.rules.renames import find_renames
from odfbuild.planner.plan.changes import Affected, Usage
from tests.planner.builders import sql
from tests.planner.evolution.assessing import (
    Versions,
    alias,
    codes,
    derivative,
    root,
    source,
    span_of,
)

TIME = "event_time TIMESTAMP"
BASE = (TIME, "id BIGINT", "fee INT")


def made(*events: Any, kind: DatasetKind = DatasetKind.ROOT) -> DerivedColumns:
    return derive(makes_of_events(kind, events), {"src": parse_ddl(BASE)})


def reading(read: ReadStep, **options: Any) -> SetPollingSource:
    return replace(source(**options), read=read)


def ddl(found: DerivedColumns) -> tuple[str, ...]:
    assert found.columns is not None
    return to_ddl(DataSchema(tuple(DataField(e.name, cast("Any", e.type)) for e in found.columns)))


def test_a_read_schema_is_put_as_it_is_stored() -> None:
    assert ddl(made(source("id BIGINT", TIME, "op INT", "fee INT"))) == (
        "event_time TIMESTAMP NOT NULL",
        "id BIGINT",
        "fee INT",
    )


def test_a_root_without_event_time_gets_that_of_the_fetch() -> None:
    found = made(source("id BIGINT"))
    assert found.lost_time
    assert ddl(found) == ("event_time TIMESTAMP NOT NULL", "id BIGINT")


def test_times_are_kept_in_one_unit_at_any_depth() -> None:
    micro, second = DataTypeTimestamp(TimeUnit.MICROSECOND), DataTypeTime(TimeUnit.SECOND)
    fields = (
        DataField("a", DataTypeList(micro)),
        DataField("b", DataTypeMap(DataTypeString(), optional(micro))),
        DataField("c", DataTypeStruct((DataField("d", second),))),
    )
    found = made(reading(ReadStepJson(schema=DataSchema(fields))))
    assert found.columns is not None
    assert [each.type for each in found.columns[1:]] == [
        DataTypeList(EVENT_TIME),
        DataTypeMap(DataTypeString(), optional(EVENT_TIME)),
        DataTypeStruct((DataField("d", DataTypeTime(TimeUnit.MICROSECOND)),)),
    ]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((SetInfo(),), "the definition has no source and no transform"),
        ((reading(ReadStepCsv()),), "the read step declares no schema"),
        ((reading(ReadStepCsv(ddl_schema=("id WHAT",))),), "the read schema cannot be read"),
        ((reading(cast("Any", Opaque("ReadStep", 99))),), "the read step declares no schema"),
        (
            (replace(source(), preprocess=cast("Any", Opaque("Transform", 9))),),
            "the preprocess step is of an unknown kind",
        ),
        ((source(preprocess="select a b c from input"),), "step 1 cannot be read"),
        ((source(preprocess="select id is null from input"),), "a column has no alias"),
        (
            (SetTransform((), cast("Any", Opaque("Transform", 9))),),
            "the transform is of an unknown kind",
        ),
    ],
)
def test_what_cannot_be_told_says_why(events: Sequence[Any], why: str) -> None:
    found = made(*events)
    assert found.columns is None
    assert found.unknown is not None
    assert why in found.unknown


def test_a_preprocess_query_sees_the_read_columns_by_their_names() -> None:
    found = made(source(*BASE, "op INT", preprocess="select event_time, op, id from input"))
    assert ddl(found) == ("event_time TIMESTAMP NOT NULL", "id BIGINT")


def test_results_of_queries_may_be_null_but_for_the_event_time() -> None:
    query = SetTransform(
        (TransformInput(alias("src"), "src"),), sql("select event_time, 1 as one from src")
    )
    assert ddl(made(query, kind=DatasetKind.DERIVATIVE)) == (
        "event_time TIMESTAMP NOT NULL",
        "one INT",
    )


def test_a_dataset_that_is_not_there_has_no_columns_and_no_reason() -> None:
    resolver = Resolver({}, {})
    assert resolver.before(alias("a")).schema is None
    assert resolver.before(alias("a")).unknown is None
    assert resolver.columns_before(alias("a")) is None


def test_datasets_that_read_each_other_are_not_followed_forever() -> None:
    a, b = derivative("a", "select * from b", "b"), derivative("b", "select * from a", "a")
    resolver = Resolver({}, {})
    for each in (a, b):
        resolver.put(each.alias, makes_of_events(each.snapshot.kind, each.snapshot.metadata))
    assert resolver.after(alias("a")).schema is None
    assert resolver.after(alias("a")).unknown is not None


def test_a_locked_answer_stands_for_a_chain_without_data() -> None:
    answer = parse_ddl(f"{TIME} NOT NULL, x INT")
    versions = Versions([root("src")], [root("src")])
    assert Resolver(versions.current, {alias("src"): answer}).before(alias("src")).schema == answer
    changed = Resolver(versions.current, {alias("src"): answer}, changed=[alias("src")])
    assert changed.before(alias("src")).schema != answer


def nested(of: str) -> Declared:
    return root("src", source(TIME, f"n {of}"))


@pytest.mark.parametrize(
    ("before", "after", "stored", "expected"),
    [
        ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<INT NOT NULL>", "ARRAY<BIGINT NOT NULL>"),
        (
            "STRUCT<a INT, b FLOAT>",
            "STRUCT<a INT, b FLOAT, c INT>",
            "STRUCT<b DOUBLE, a INT NOT NULL>",
            "STRUCT<b DOUBLE, a INT NOT NULL, c INT>",
        ),
        (
            "STRUCT<a INT, b INT>",
            "STRUCT<b INT, a INT>",
            "STRUCT<a INT, b INT>",
            "STRUCT<b INT, a INT>",
        ),
        ("INT", "INT NOT NULL", "INT", "INT NOT NULL"),
        ("INT", "STRUCT<a INT>", "DOUBLE", "STRUCT<a INT>"),
    ],
)
def test_a_difference_of_definitions_is_carried_over_to_what_is_stored(
    before: str, after: str, stored: str, expected: str
) -> None:
    versions = Versions([nested(before)], [nested(after)], {"src": (TIME, f"n {stored}")})
    schema = versions.of("src").schema
    assert schema is not None
    assert schema.after is not None
    assert to_ddl(schema.after)[1] == f"n {expected}"


def test_a_difference_inside_of_a_map_is_carried_over_too() -> None:
    def of(value: Any) -> Declared:
        read = ReadStepJson(
            schema=DataSchema((DataField("m", DataTypeMap(DataTypeString(), value)),))
        )
        return root("src", reading(read))

    versions = Versions([of(DataTypeInt32())], [of(DataTypeInt64())])
    assert [each.path for each in cast("Any", versions.of("src").schema).columns] == ["m.value"]
    assert codes(versions.hits("src")) == ["ODF204"]


def test_an_expression_that_stays_keeps_its_type_while_its_inputs_do() -> None:
    query = "select event_time, some_function(id) as x{} from src"
    before, after = derivative("out", query.format("")), derivative("out", query.format(", fee"))
    chains = {"src": BASE, "out": (TIME, "x BIGINT")}
    versions = Versions(
        [root("src", source(*BASE)), before], [root("src", source(*BASE)), after], chains
    )
    assert "ODF213" not in codes(versions.hits("out"))
    retyped = [root("src", source(TIME, "id STRING", "fee INT")), after]
    unsure = Versions([root("src", source(*BASE)), before], retyped, chains)
    assert "ODF213" in codes(unsure.hits("out"))


# Definitions seen through hits


def test_an_event_that_a_chain_ends_is_told() -> None:
    push = AddPushSource(
        source_name="one", read=ReadStepCsv(ddl_schema=BASE), merge=MergeStrategyAppend()
    )
    versions = Versions([root("src", push)], [root("src", SetInfo(description="x"))])
    assert codes(versions.hits("src")) == ["ODF106", "ODF113"]


def test_another_format_and_a_preprocess_step_are_told() -> None:
    json = reading(ReadStepJson(ddl_schema=BASE))
    (hit,) = Versions([root("src", source(*BASE))], [root("src", json)]).hits("src")
    assert (hit.code, hit.message) == ("ODF108", "it is read as Json, no longer as Csv")
    with_query = root("src", source(*BASE, preprocess="select * from input"))
    for before, after, says in (
        (root("src", source(*BASE)), with_query, "is between"),
        (with_query, root("src", source(*BASE)), "is no longer between"),
    ):
        (hit,) = Versions([before], [after]).hits("src")
        assert hit.code == "ODF110"
        assert says in hit.message


def test_a_push_source_is_judged_like_a_polled_one() -> None:
    def push(query: str) -> Declared:
        read = ReadStepCsv(ddl_schema=BASE)
        event = AddPushSource(
            source_name="one", read=read, preprocess=sql(query), merge=MergeStrategyAppend()
        )
        return root("src", event)

    query = "select event_time, id * {} as id from input"
    versions = Versions([push(query.format(1))], [push(query.format(2))])
    assert codes(versions.hits("src")) == ["ODF110"]


def test_the_first_transform_of_a_chain_is_one_more_source() -> None:
    versions = Versions(
        [derivative("out", "select * from src")], [derivative("out", "select * from src")]
    )
    state = replace(versions.current[alias("out")], transform=None)
    versions.current[alias("out")] = state
    assert "ODF121" in codes(versions.hits("out"))


def test_places_of_schemas_in_the_long_form() -> None:
    def of(kind: Any) -> Declared:
        fields = (DataField("event_time", EVENT_TIME), DataField("id", kind))
        return root("src", reading(ReadStepCsv(schema=DataSchema(fields))))

    versions = Versions([of(DataTypeInt32())], [of(DataTypeString())])
    assert span_of(versions.hits("src"), "ODF203").line == 7
    gone = root(
        "src", reading(ReadStepCsv(schema=DataSchema((DataField("event_time", EVENT_TIME),))))
    )
    assert span_of(Versions([of(DataTypeInt32())], [gone]).hits("src"), "ODF201").line == 5


def test_parts_that_may_be_null_go_through_a_query() -> None:
    out = derivative("out", "select event_time, s from src")
    strict, loose = (TIME, "s STRUCT<x INT NOT NULL>"), (TIME, "s STRUCT<x INT>")
    for before, after, code in ((strict, loose, "ODF206"), (loose, strict, "ODF205")):
        found = Versions([root("src", source(*before)), out], [root("src", source(*after)), out])
        (hit,) = found.hits("out")
        assert (hit.code, hit.column) == (code, "s.x")
        assert "as in src" in hit.message


def test_inputs_that_are_not_known_do_not_hide_those_that_are() -> None:
    unknown = root("other", replace(source(path="o"), read=ReadStepCsv()))
    out = derivative(
        "out",
        "select s.event_time, s.fee from src as s join other as o on s.id = o.id",
        "src",
        "other",
    )
    narrow = root("src", source(TIME, "id BIGINT"))
    versions = Versions([root("src", source(*BASE)), unknown, out], [narrow, unknown, out])
    assert codes(versions.hits("out")) == ["ODF305"]


# Impact


def test_only_the_input_that_changed_counts() -> None:
    a, b = root("a", source(*BASE)), root("b", source(*BASE, path="b"))
    out = derivative(
        "out", "select a.event_time, a.id, b.fee from a join b on a.id = b.id", "a", "b"
    )
    narrow = root("b", source(TIME, "id BIGINT", path="b"))
    found = Versions([a, b, out], [a, narrow, out]).of("b").affected
    assert found == (Affected(alias("out"), ("fee",), (Usage.VALUE,)),)


def test_readers_that_are_not_there_yet_are_not_affected() -> None:
    before = [root("src", source(*BASE))]
    after = [
        root("src", source(TIME, "id BIGINT")),
        derivative("new", "select event_time, id from src"),
    ]
    assert Versions(before, after).of("src").affected == ()


def test_a_change_of_all_rows_affects_a_reader_of_anything() -> None:
    src, out = root("src", source(*BASE)), derivative("out", "select event_time from src")
    versions = Versions([src, out], [src, out])
    resolver = Resolver(versions.current, {})
    readers = readers_of([src, out], resolver.by_id)
    order = {src.alias: 0, out.alias: 1}

    def of(name: Any) -> Sequence[DerivedColumns]:
        found = resolver.columns_before(name)
        return () if found is None else (found,)

    every = affected(src.alias, ALL, readers, order, of)
    assert every == (Affected(out.alias, ("event_time",), (Usage.VALUE, Usage.SHAPE)),)
    assert affected(src.alias, frozenset({"fee"}), readers, order, of) == ()


def test_queries_that_are_not_known_are_no_renames_and_take_anything() -> None:
    opaque = cast("Any", Opaque("Transform", 9))
    src, out = root("src", source(*BASE)), derivative("out", "select event_time, id from src")
    versions = Versions([src, out], [src, derivative("new", "select event_time, id from src")])
    state = versions.current[alias("out")]
    assert state.transform is not None
    hidden = replace(state, transform=replace(state.transform, transform=opaque))
    versions.current[alias("out")] = hidden
    assert find_renames(versions.after, versions.current) == ()
    wider = Versions([src, out], [root("src", source(*BASE, "x INT")), out])
    wider.current[alias("out")] = hidden
    assert codes(wider.hits("out")) == ["ODF212"]


def test_a_change_without_effect_is_metadata() -> None:
    long = reading(ReadStepCsv(schema=parse_ddl(BASE), header=True))
    found = Versions([root("src", source(*BASE))], [root("src", long)]).of("src")
    assert found.hits == ()
    assert found.change.value == "metadata"
