"""What is said of changes: chains, inputs, readers, places, and how little is looked at."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    SetDataSchema,
    SetInfo,
    SetVocab,
)
from odfbuild.odf.schema.ddl import parse_ddl, to_ddl
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.assess import Assessed, assess
from odfbuild.planner.evolution.columns.resolve import Resolver
from odfbuild.planner.evolution.gate import verdict
from odfbuild.planner.plan.changes import Affected, ChangeClass, Usage
from odfbuild.planner.plan.policy import OnQueryChange, Policy, Traits
from tests.planner.evolution.assessing import (
    TODAY,
    Versions,
    acceptance,
    alias,
    codes,
    derivative,
    root,
    source,
    span_of,
)

TIME = "event_time TIMESTAMP"
STORED = (TIME, "id BIGINT", "fee DECIMAL(18,2)", "note STRING")
NARROW = (TIME, "id BIGINT", "note STRING")
NET = "select event_time, id, amount - fee as net from src"


def chained(
    before: Sequence[Declared], after: Sequence[Declared], **columns: Sequence[str]
) -> Versions:
    """Compare with chains; `src` has its columns unless others are given."""
    return Versions(before, after, {"src": STORED, **columns})


def test_a_new_dataset_is_additive_and_can_be_left_at_that() -> None:
    out = derivative("out", "select event_time, id from src")
    found = Versions([root("src")], [root("src"), out]).of("out", full=False)
    assert found.change is ChangeClass.ADDITIVE
    assert found.hits == ()
    assert found.schema is None


def test_a_new_dataset_shows_its_columns_and_the_class_of_its_query() -> None:
    out = derivative("out", "select event_time, id from src")
    versions = Versions([], [root("src"), out])
    schema = versions.of("src").schema
    assert schema is not None
    assert schema.before is None
    assert schema.after is not None
    assert to_ddl(schema.after)[0] == "event_time TIMESTAMP NOT NULL"
    full = versions.of("out")
    assert full.schema is not None
    assert full.schema.after is not None
    assert [each.name for each in full.schema.after.fields] == ["event_time", "id"]
    assert full.query is not None
    assert full.query.name == "linear"


def test_a_change_of_metadata_leaves_columns_and_readers_alone() -> None:
    out = derivative("out", "select * from src")
    before, after = [root("src"), out], [root("src", source(), SetInfo(description="x")), out]
    found = chained(before, after, out=STORED).assess().assessments
    assert list(found) == [alias("src")]
    assert found[alias("src")].change is ChangeClass.METADATA
    assert found[alias("src")].schema is None
    assert found[alias("src")].affected == ()


def test_columns_are_compared_as_definitions_make_them_and_shown_as_they_are_stored() -> None:
    before = [root("src", source(TIME, "id BIGINT NOT NULL", "fee FLOAT"))]
    after = [root("src", source(TIME, "id BIGINT NOT NULL", "fee FLOAT", "x INT"))]
    stored = (TIME, "id BIGINT", "fee DOUBLE")  # as an engine may have stored it
    found = Versions(before, after, {"src": stored}).of("src")
    assert codes(found.hits) == ["ODF208"]
    assert found.schema is not None
    assert found.schema.after is not None
    assert to_ddl(found.schema.after)[1:] == ("id BIGINT", "fee DOUBLE", "x INT")


def test_a_column_given_up_long_ago_is_not_given_up_again() -> None:
    before = [root("src", source(*NARROW))]
    after = [root("src", source(*NARROW, "x INT"))]
    found = chained(before, after).of("src")
    assert codes(found.hits) == ["ODF208"]
    assert found.schema is not None
    assert found.schema.after is not None
    assert "fee" in [each.name for each in found.schema.after.fields]


def test_columns_that_no_row_has_yet_count_as_there() -> None:
    grown = source(*STORED, "x INT")
    before = [root("src", grown), derivative("out", "select event_time, id from src")]
    after = [root("src", grown), derivative("out", "select event_time, id, x from src")]
    found = chained(before, after, out=(TIME, "id BIGINT")).of("out")
    assert codes(found.hits) == ["ODF208", "ODF302"]


def test_a_transform_that_did_not_run_yet_counts_as_well() -> None:
    grown = derivative("mid", "select event_time, id, fee from src")
    before = [root("src"), grown, derivative("out", "select event_time, id from mid", "mid")]
    after = [root("src"), grown, derivative("out", "select event_time, id, fee from mid", "mid")]
    columns = (TIME, "id BIGINT")
    versions = chained(before, after, mid=columns, out=columns)
    state = versions.current[alias("mid")]
    versions.current[alias("mid")] = replace(state, transform_is_new=True)
    assert codes(versions.hits("out")) == ["ODF208", "ODF302"]


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (STORED, NARROW, []),
        (STORED, (*STORED, "x INT"), []),
        ((TIME, "id BIGINT"), ("id BIGINT", TIME), []),
        ((TIME, "id BIGINT NOT NULL"), (TIME,), ["id (BIGINT NOT NULL) is no longer produced"]),
        ((TIME, "id INT"), (TIME, "id BIGINT"), ["id: INT -> BIGINT"]),
        ((TIME, "id INT"), (TIME, "id STRING"), ["id: INT -> STRING"]),
        ((TIME, "id INT"), (TIME, "id INT NOT NULL"), ["id may no longer be null"]),
        ((TIME, "id INT NOT NULL"), (TIME, "id INT"), ["id may be null"]),
        ((TIME,), (TIME, "x INT NOT NULL"), ["x (INT NOT NULL) is new"]),
        ((TIME, "fee INT"), (TIME, "fees INT"), []),
        (("event_time DATE",), (TIME,), ["event_time: DATE -> TIMESTAMP"]),
        (
            (TIME, "s STRUCT<x INT, y INT>"),
            (TIME, "s STRUCT<x INT>"),
            ["s.y (INT) is no longer produced"],
        ),
        ((TIME, "s STRUCT<x INT>"), (TIME, "s STRUCT<x INT, y INT>"), []),
    ],
)
def test_what_a_chain_cannot_do_is_refused_whatever_the_gate_says(
    before: Sequence[str], after: Sequence[str], refused: list[str]
) -> None:
    old, new = [root("src", source(*before))], [root("src", source(*after))]
    refusals = Versions(old, new, {"src": before}).assess(gate="off").refusals
    found = [each for problems in refusals.values() for each in problems]
    assert [each.what for each in found] == [
        f"{each}, which its chain cannot do" for each in refused
    ]
    assert {str(alias) for alias in refusals} == ({"src"} if refused else set())
    assert all(each.code == "schema-evolution" and each.span for each in found)
    assert Versions(old, new).assess().refusals == {}


@pytest.mark.parametrize(
    ("merge", "why"),
    [
        (MergeStrategySnapshot(("id",)), "a snapshot is compared with all columns of its history"),
        (MergeStrategyUpsertStream(("id",)), "compared with all columns of the history"),
        (MergeStrategyChangelogStream(("id",)), "a retraction repeats all columns"),
    ],
)
def test_what_is_compared_or_taken_back_keeps_every_column(merge: MergeStrategy, why: str) -> None:
    before, after = [root("src", source(merge=merge))], [root("src", source(*NARROW, merge=merge))]
    ((found,),) = chained(before, after).assess().refusals.values()
    assert why in found.why


def test_a_chain_without_data_refuses_nothing() -> None:
    before, after = [root("src", source(TIME, "id INT"))], [root("src", source(TIME, "id STRING"))]
    assert Versions(before, after, {}).assess().refusals == {}


def test_a_source_that_gave_no_rows_yet_may_be_corrected() -> None:
    columns = (TIME, "id BIGINT", "amount DECIMAL(18,2)", "fee DECIMAL(18,2)")
    corrected = (TIME, "id STRING NOT NULL", "amount DECIMAL(18,2)")  # `out` passes `id` on
    out = derivative("out", NET)
    before, after = [root("src", source(*columns)), out], [root("src", source(*corrected)), out]
    found = Versions(before, after, {})
    assert found.hits("src") == ()
    assert found.of("src").change is ChangeClass.METADATA
    assert [(hit.code, hit.column) for hit in found.hits("out")] == [("ODF305", "fee")]
    assert {hit.code for hit in chained(before, after, src=columns).hits("src")} == {
        "ODF201",
        "ODF203",
        "ODF205",
    }


def test_keys_and_the_merge_may_be_corrected_before_the_first_row() -> None:
    def src(merge: MergeStrategy) -> list[Declared]:
        return [root("src", source(TIME, "id BIGINT", merge=merge))]

    first = src(MergeStrategySnapshot(primary_key=("event_time",)))
    for merge, code in (
        (MergeStrategySnapshot(primary_key=("id",)), "ODF104"),
        (MergeStrategyUpsertStream(primary_key=("event_time",)), "ODF103"),
    ):
        second = src(merge)
        assert Versions(first, second, {}).hits("src") == ()
        found = chained(first, second, src=(TIME, "id BIGINT")).hits("src")
        assert [hit.code for hit in found] == [code]


def test_a_column_that_a_reader_uses_breaks_it_at_the_place_where_it_does() -> None:
    columns = (TIME, "id BIGINT", "amount DECIMAL(18,2)", "fee DECIMAL(18,2)")
    out = derivative("out", NET)
    before = [root("src", source(*columns)), out]
    after = [root("src", source(*columns[:3])), out]
    found = Versions(before, after, {"src": columns, "out": (TIME, "id BIGINT", "net DOUBLE")})
    (hit,) = found.hits("out")
    assert (hit.code, hit.column, hit.message) == (
        "ODF305",
        "fee",
        "fee is no longer produced by src",
    )
    assert hit.ways[0] == "keep fee in src"
    assert hit.span is not None
    assert (hit.span.column, hit.span.length) == (NET.index("fee") + 1, 3)
    assert found.of("src").affected == (Affected(alias("out"), ("net",), (Usage.VALUE,)),)


@pytest.mark.parametrize(
    "query",
    [
        "select event_time, id from src where fee > 1",
        "select s.event_time, s.id from src as s join src as t on s.fee = t.fee",
        "select event_time, max(id) as id from src group by event_time, fee",
        "select event_time, id from src order by fee",
    ],
)
def test_filters_joins_and_groups_use_a_column_and_affect_all(query: str) -> None:
    out = derivative("out", query)
    found = Versions([root("src"), out], [root("src", source(*NARROW)), out])
    assert codes(found.hits("out")) == ["ODF305"]
    (affected,) = found.of("src").affected
    assert affected == Affected(alias("out"), ("event_time", "id"), (Usage.SHAPE,))


def test_a_reader_that_does_without_the_column_is_left_alone() -> None:
    out = derivative("out", "select event_time, id from src where note is not null")
    found = Versions([root("src"), out], [root("src", source(*NARROW)), out]).assess()
    assert list(found.assessments) == [alias("src")]
    assert found.assessments[alias("src")].affected == ()


def test_a_part_of_a_struct_breaks_those_who_name_it() -> None:
    whole = (TIME, "s STRUCT<x INT, y INT>")
    less = (TIME, "s STRUCT<x INT>")
    for query, expected in {
        "select event_time, s.y as y from src": ["ODF305"],
        "select event_time, s.x as x from src": [],
        "select event_time, s from src": ["ODF307"],
    }.items():
        out = derivative("out", query)
        versions = Versions([root("src", source(*whole)), out], [root("src", source(*less)), out])
        assert codes(versions.hits("out")) == expected, query


def test_a_renamed_column_of_an_input_is_told_with_its_new_name() -> None:
    out = derivative("out", "select event_time, fee from src")
    renamed = (TIME, "id BIGINT", "fees DECIMAL(18,2)", "note STRING")
    (hit,) = Versions([root("src"), out], [root("src", source(*renamed)), out]).hits("out")
    assert (hit.code, hit.message) == ("ODF305", "fee of src is renamed to fees")


def test_the_columns_of_a_star_go_through_several_readers() -> None:
    mid = derivative("mid", "select * from src")
    out = derivative("out", "select event_time, fee from mid", "mid")
    found = Versions([root("src"), mid, out], [root("src", source(*NARROW)), mid, out])
    assert codes(found.hits("mid")) == ["ODF307"]
    assert codes(found.hits("out")) == ["ODF305"]
    assert [str(each.dataset) for each in found.of("src").affected] == ["mid", "out"]


def test_a_column_that_a_star_leaves_out_is_named_by_that() -> None:
    out = derivative("out", "select * except (fee) from src")
    found = Versions([root("src"), out], [root("src", source(*NARROW)), out])
    assert codes(found.hits("out")) == ["ODF305"]


def test_new_columns_reach_only_those_who_take_in_whatever_there_is() -> None:
    every = derivative("every", "select * from src")
    some = derivative("some", "select event_time, id from src")
    wide = root("src", source(*STORED, "x INT"))
    found = Versions([root("src"), every, some], [wide, every, some])
    assert codes(found.hits("every")) == ["ODF306"]
    assert found.hits("some") == ()
    assert found.of("src").affected == (Affected(alias("every"), ("x",), (Usage.VALUE,)),)


def test_a_type_that_goes_through_and_on_is_told_for_each_reader() -> None:
    mid = derivative("mid", "select event_time, fee from src")
    out = derivative("out", "select event_time, fee from mid", "mid")
    retyped = root("src", source(TIME, "id BIGINT", "fee STRING", "note STRING"))
    found = Versions([root("src"), mid, out], [retyped, mid, out])
    assert codes(found.hits("src")) == ["ODF203"]
    assert codes(found.hits("mid")) == codes(found.hits("out")) == ["ODF308"]


def test_a_change_of_the_reader_is_its_own_and_not_that_of_its_input() -> None:
    before = [root("src"), derivative("out", "select event_time, id, fee from src")]
    after = [root("src", source(*NARROW)), derivative("out", "select event_time, id from src")]
    assert codes(Versions(before, after).hits("out")) == ["ODF201"]


def test_other_values_affect_those_who_are_made_of_them() -> None:
    made = "select event_time, id, fee * {} as fee, note from src"
    out = derivative("out", "select event_time, fee + 1 as more, note from mid", "mid")
    before, after = derivative("mid", made.format(2)), derivative("mid", made.format(3))
    found = Versions([root("src"), before, out], [root("src"), after, out])
    assert codes(found.hits("mid")) == ["ODF301"]
    assert found.of("mid").affected == (Affected(alias("out"), ("more",), (Usage.VALUE,)),)
    assert found.hits("out") == ()


def test_other_rows_affect_everything() -> None:
    made = "select event_time, id, note from src where id > {}"
    out = derivative("out", "select event_time, note from mid", "mid")
    before, after = derivative("mid", made.format(2)), derivative("mid", made.format(3))
    (affected,) = Versions([root("src"), before, out], [root("src"), after, out]).of("mid").affected
    assert affected.columns == ("event_time", "note")
    assert Usage.SHAPE in affected.usage


def test_a_reader_that_is_not_understood_is_affected_in_an_unknown_way() -> None:
    mid = derivative("mid", "select event_time id fee from src")
    out = derivative("out", "select event_time from mid", "mid")
    found = Versions([root("src"), mid, out], [root("src", source(*NARROW)), mid, out]).of("src")
    assert [(str(each.dataset), each.unknown) for each in found.affected] == [
        ("mid", True),
        ("out", True),
    ]


def test_what_is_unknown_breaks_once_and_not_again_downstream() -> None:
    unknown = root("src", replace(source(), read=replace(source().read, ddl_schema=None)))
    out = derivative("out", "select event_time, id from src")
    found = Versions([root("src"), out], [unknown, out]).assess()
    assert codes(found.assessments[alias("src")].hits) == ["ODF212"]
    assert list(found.assessments) == [alias("src")]


def test_nobody_relied_on_columns_that_were_never_known() -> None:
    before = root("src", replace(source(), read=replace(source().read, ddl_schema=None)))
    known, chain = [root("src")], Versions([before], [root("src")], {})
    assert codes(Versions([before], known).hits("src")) == ["ODF212"]
    assert codes(chain.hits("src")) == []


def test_the_engine_s_answer_goes_before_what_the_text_tells() -> None:
    before = [root("src"), derivative("out", "select event_time, id from src")]
    after = [root("src"), derivative("out", "select event_time, some_function(id) as id from src")]
    versions = chained(before, after, out=(TIME, "id BIGINT"))
    assert {"ODF213", "ODF301"} <= set(codes(versions.hits("out")))
    locked = {alias("out"): parse_ddl([f"{TIME} NOT NULL", "id BIGINT"])}
    assert {"ODF203", "ODF213"}.isdisjoint(codes(versions.hits("out", locked=locked)))
    wider = {alias("out"): parse_ddl([f"{TIME} NOT NULL", "id STRING"])}
    assert "ODF203" in codes(versions.hits("out", locked=wider))


def test_a_schema_that_is_declared_as_such_is_taken_at_its_word() -> None:
    def declared(*columns: str) -> Declared:
        return root("src", source(), SetDataSchema(schema=parse_ddl(columns)))

    versions = Versions([declared(*STORED)], [declared(*NARROW)])
    assert codes(versions.hits("src")) == ["ODF201"]


def test_places_point_into_the_definition() -> None:
    read = ("id BIGINT", TIME, "fee STRING")
    before = [root("src", source("id BIGINT", TIME, "fee INT"))]
    after = [root("src", source(*read))]
    assert span_of(Versions(before, after).hits("src"), "ODF203").line == 6
    query = "select event_time, cast(id as string) as id from src"
    versions = Versions(
        [root("src"), derivative("out", "select event_time, id from src")],
        [root("src"), derivative("out", query)],
    )
    assert span_of(versions.hits("out"), "ODF203").column == query.rindex("id from") + 1


def test_a_query_that_names_the_operation_sees_the_system_columns() -> None:
    raw = "select op, event_time, id{} from src"
    versions = Versions(
        [root("src"), derivative("out", raw.format(""))],
        [root("src"), derivative("out", raw.format(", fee"))],
    )
    assert codes(versions.hits("out")) == ["ODF208", "ODF302"]


def test_an_accepted_finding_passes_and_the_others_do_not() -> None:
    out = derivative("out", "select event_time, fee from src")
    versions = Versions([root("src"), out], [root("src", source(*NARROW)), out])
    accepted = acceptance("ODF201", "src", "fee")
    found = versions.assess(accepted)
    assert verdict(found.assessments, "default").refused == 1
    both = versions.assess(accepted, acceptance("ODF305", "out", "fee"))
    assert verdict(both.assessments, "default").passed


# How little is looked at


def _many(count: int, columns: Sequence[str] = STORED) -> list[Declared]:
    """Return pairs of a root and its reader, and what reads the first pair."""
    datasets = [
        each
        for number in range(count)
        for each in (
            root(f"r{number}", source(*columns, path=f"{number}/*.csv")),
            derivative(f"d{number}", f"select event_time, id, fee from r{number}", f"r{number}"),
        )
    ]
    return [*datasets, derivative("last", "select event_time, fee from d0", "d0")]


class _Watched(Resolver):
    made: "list[_Watched]" = []  # noqa: RUF012

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        _Watched.made.append(self)


def _assessed(versions: Versions, patch: pytest.MonkeyPatch) -> tuple[Assessed, set[str]]:
    """Assess, and tell whose queries were looked at."""
    from odfbuild.planner.evolution import assess as module

    _Watched.made.clear()
    patch.setattr(module, "Resolver", _Watched)
    found = assess(versions.after, versions.current, versions.changes(), policy=Policy(today=TODAY))
    return found, {str(each) for each in _Watched.made[0].parsed}


def test_only_what_changed_and_what_reads_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = _many(40)
    chains = {
        str(each.alias): STORED
        if str(each.alias).startswith("r")
        else (TIME, "id BIGINT", STORED[2])
        for each in before
    }
    after = [root("r0", source(*NARROW, path="0/*.csv")), *before[1:]]
    found, parsed = _assessed(Versions(before, after, chains), monkeypatch)
    assert parsed == {"d0", "last"}
    assert [str(each) for each in found.assessments] == ["r0", "d0"]


def test_nothing_is_looked_at_when_only_metadata_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _many(5)
    info = root("r0", source(*STORED, path="0/*.csv"), SetInfo(description="x"))
    chains = {str(each.alias): STORED for each in before}
    found, parsed = _assessed(Versions(before, [info, *before[1:]], chains), monkeypatch)
    assert parsed == set()
    assert [str(each) for each in found.assessments] == ["r0"]


def test_a_long_line_of_datasets_is_no_deep_recursion() -> None:
    line = [root("src")]
    for number in range(1500):
        above = str(line[-1].alias)
        line.append(derivative(f"d{number}", f"select event_time, id from `{above}`", above))
    versions = Versions(line, [root("src", source(TIME, "note STRING")), *line[1:]])
    found = versions.assess().assessments
    assert codes(found[alias("d0")].hits) == ["ODF305"]
    assert len(found[alias("src")].affected) == 1500


def test_other_names_of_system_columns_are_told_once() -> None:
    columns = ("day TIMESTAMP", "id BIGINT")
    read = source(*columns)
    before = [root("src", read, SetVocab(event_time_column="day"))]
    after = [root("src", read, SetVocab(event_time_column="date"))]
    assert codes(Versions(before, after).hits("src")) == ["ODF102"]


def test_inputs_are_called_by_the_names_of_their_datasets() -> None:
    a, b = root("a"), root("b", source(path="b"))
    query = "select event_time, id from x"
    versions = Versions(
        [a, b, derivative("out", query, "a x")], [a, b, derivative("out", query, "b x")]
    )
    messages = {each.code: each.message for each in versions.hits("out")}
    assert messages["ODF117"] == "it also reads b"
    assert messages["ODF118"] == "it no longer reads a"


def test_what_restating_does_is_not_offered_nor_denied_where_it_is_set() -> None:
    restating = Traits(on_query_change=OnQueryChange.RESTATE)
    a, b = root("a"), root("b", source(path="b"))
    both = "select event_time, id from a union all select event_time, id from b"
    before = [a, b, derivative("out", both, "a", "b")]
    after = derivative("out", "select event_time, id + 1 as id from a", "a")
    stays = {each.code: each for each in Versions(before, [a, b, after]).hits("out")}
    goes = {
        each.code: each
        for each in Versions(before, [a, b, replace(after, traits=restating)]).hits("out")
    }
    assert "Rows made from it stay" in stays["ODF118"].why
    assert "Rows made from it are retracted" in goes["ODF118"].why
    (changed,) = stays.keys() & {"ODF301", "ODF311"}
    assert "set on_query_change for out" in stays[changed].ways
    assert "set on_query_change for out" not in goes[changed].ways
    assert stays[changed].ways[1:] == goes[changed].ways


_CHANGED = {"removed": "", "retyped": "STRING", "widened": "DECIMAL(20,2)", "renamed": "other"}


@pytest.mark.parametrize("change", sorted(_CHANGED))
@pytest.mark.parametrize(
    "query",
    [
        "select event_time, id, {fee} as x from src",
        "select event_time, id, {fee} from src",
        "select * from src",
        "select * except ({fee}) from src",
        "select event_time, id from src where {fee} > 1",
        "select event_time, max(id) as id from src group by event_time, {fee}",
        "select event_time, id + coalesce(cast({fee} as bigint), 0) as id from src",
        "select s.event_time, s.{fee} as x from src as s join src as t on s.{fee} = t.{fee}",
    ],
)
@pytest.mark.parametrize("name", ["a.fee", "fee.a", "fee[].a"])
def test_a_column_with_a_dot_in_its_name_is_judged_as_any_other(
    name: str, query: str, change: str
) -> None:
    def hits(fee: str) -> list[tuple[object, ...]]:
        quoted = f"`{fee}`"
        columns = (TIME, "id BIGINT", f"{quoted} DECIMAL(18,2)")
        now = {"removed": "", "renamed": f"`{fee}s` DECIMAL(18,2)"}.get(
            change, f"{quoted} {_CHANGED[change]}"
        )
        out = derivative("out", query.format(fee=quoted))
        last = derivative("last", "select * from out")
        before = [root("src", source(*columns)), out, last]
        after = [root("src", source(*filter(None, (*columns[:2], now)))), out, last]
        found = chained(before, after, src=columns)
        return [
            (
                dataset,
                each.code,
                (each.column or "").replace(fee, "FEE"),
                each.change,
                each.severity,
            )
            for dataset in ("src", "out", "last")
            for each in found.hits(dataset)
        ]

    assert hits(name) == hits("fee")
