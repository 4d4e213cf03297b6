"""Columns of queries for DataFusion: the gate says of them what it says of those for Spark."""

import pytest

from odfbuild.planner.evolution.columns.use import ColumnUse
from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.evolution.rules.schemas import RULES
from odfbuild.planner.plan.changes import Hit
from tests.planner.evolution.assessing import Versions, alias, codes, derivative, root, source
from tests.planner.evolution.datafusion_versions import answer, for_datafusion
from tests.planner.evolution.rule_cases import CASES, Case, Project

OTHERWISE = {
    "ODF213": "a function that Spark alone does not refuse",
    "ODF303": "a query that changes its engine",
    "ODF305": "an operation that only Spark allows of texts",
}
_OF_COLUMNS = {each.code for each in RULES if isinstance(each, Rule)}
_OF_QUERIES = {"ODF301", "ODF302", "ODF311", "ODF314"}


def of_columns(hits: "tuple[Hit, ...]") -> set[tuple[str, str | None]]:
    return {(each.code, each.column) for each in hits if each.code in _OF_COLUMNS}


def of_queries(hits: "tuple[Hit, ...]") -> set[str]:
    return {each.code for each in hits} & _OF_QUERIES


@pytest.mark.parametrize(
    "case",
    [case for code, case in CASES.items() if code not in OTHERWISE],
    ids=[code for code in CASES if code not in OTHERWISE],
)
def test_changes_are_of_the_same_classes(case: Case) -> None:
    for after in (case.after, case.near):
        spark = Versions(case.before, after).hits(case.dataset)
        before, changed = for_datafusion(case.before), for_datafusion(after)
        ours = Versions(before, changed).hits(case.dataset, engine=answer)
        assert of_columns(ours) == of_columns(spark)
        assert of_queries(ours) == of_queries(spark)


def project(query: str, *more: str) -> Project:
    queries = [derivative("out", query), *(derivative("more", each, "out") for each in more)]
    return for_datafusion((root("src"), *queries))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("id, fee", "id", {("ODF201", "fee")}),
        ("id, fee", "id, fee as cost", {("ODF202", "fee")}),
        ("id, fee", "id, cast(fee as varchar) as fee", {("ODF203", "fee")}),
        ("id, cast(id as int) as n", "id, id as n", {("ODF204", "n")}),
        ("id, fee", "fee, id", {("ODF207", None)}),
        ("id", "id, upper(note) as loud", {("ODF208", "loud")}),
        ("id, sum(fee) over (order by id) as s", "id, avg(fee) over (order by id) as s", {"ODF"}),
        ("id, fee + 1 as f", "id, fee + 2 as f", set()),
    ],
)
def test_a_change_of_a_query_is_judged_by_what_the_engine_answers(
    before: str, after: str, expected: set[object]
) -> None:
    versions = Versions(
        project(f"select event_time, {before} from src"),
        project(f"select event_time, {after} from src"),
    )
    found = of_columns(versions.hits("out", engine=answer))
    if expected == {"ODF"}:
        assert {code for code, _ in found} in ({"ODF203"}, {"ODF204"})
    else:
        assert found == expected


def test_an_event_time_that_is_lost_is_said() -> None:
    versions = Versions(project("select event_time, id from src"), project("select id from src"))
    found = codes(versions.hits("out", engine=answer))
    assert "ODF211" in found
    assert "ODF213" not in found


def test_a_preprocess_step_has_the_columns_that_it_gives() -> None:
    def preprocessed(query: str) -> Project:
        return for_datafusion((root("src", source(preprocess=query)),))

    plain = "select event_time, id from input"
    for query, expected in (
        ("select event_time, id, fee from input", {("ODF208", "fee")}),
        ("select event_time, cast(id as varchar) as id from input", {("ODF203", "id")}),
        ("select event_time from input", {("ODF201", "id")}),
        ("select id from input", {("ODF211", "event_time")}),
    ):
        versions = Versions(preprocessed(plain), preprocessed(query))
        assert of_columns(versions.hits("src", engine=answer)) == expected, query


def test_a_column_that_a_reader_does_not_use_changes_nothing_for_it() -> None:
    reader = "select event_time, id * 2 as twice from out"
    versions = Versions(
        project("select event_time, id, fee from src", reader),
        project("select event_time, id from src", reader),
    )
    found = versions.assess(engine=answer)
    assert alias("more") not in found.assessments
    assert of_columns(found.assessments[alias("out")].hits) == {("ODF201", "fee")}


def test_columns_are_made_of_those_that_the_text_names() -> None:
    declared = project(
        "with p as (select id, fee from src where note <> '') select s.event_time, p.fee as cost "
        "from src as s join p on p.id = s.id",
        'select event_time, count(*) as n, max("cost") as top from out group by event_time',
    )
    use = ColumnUse(declared, {}, {}, answer)
    made = {each.name: each.sources for each in use.made(alias("out")) or ()}
    src, out = alias("src"), alias("out")
    assert made == {"event_time": ((src, "event_time"),), "cost": ((src, "fee"),)}
    assert use.shaping(out) == ((src, "id"), (src, "note"))
    assert [(str(e.dataset), e.columns) for e in use.affected(src, frozenset({"fee"}))] == [
        ("out", ("cost",)),
        ("more", ("top",)),
    ]


def test_names_of_expressions_are_those_of_the_engine() -> None:
    use = ColumnUse(project("select event_time, id + 1 from src"), {}, {}, answer)
    (_, second) = use.made(alias("out")) or ()
    assert second.name == "src.id + Int64(1)"
    assert second.sources == ((alias("src"), "id"),)


def test_a_star_over_a_join_by_using_has_the_order_of_the_engine() -> None:
    grouped = "select id, max(fee) as top from src group by id"
    query = f"select * except (note) from src join ({grouped}) g using (id)"
    use = ColumnUse(project(query), {}, {}, answer)
    made = {each.name: [name for _, name in each.sources] for each in use.made(alias("out")) or ()}
    assert made == {"event_time": ["event_time"], "id": ["id"], "fee": ["fee"], "top": ["fee"]}
    schema = use.schema(alias("out"))
    assert schema is not None
    assert [each.name for each in schema.fields] == ["event_time", "fee", "id", "top"]


def test_a_star_that_replaces_columns_is_made_of_what_replaces_them() -> None:
    use = ColumnUse(project("select * replace (fee * id as fee) from src"), {}, {}, answer)
    made = {each.name: {name for _, name in each.sources} for each in use.made(alias("out")) or ()}
    assert made == {
        "event_time": {"event_time"},
        "id": {"id"},
        "fee": {"fee", "id"},
        "note": {"note"},
    }


def test_what_the_text_does_not_tell_is_made_of_what_is_not_known() -> None:
    query = "select event_time, id, fee, unnest(make_array(note)) as note from src"
    use = ColumnUse(project(query), {}, {}, answer)
    assert use.made(alias("out")) is None
    assert use.shaping(alias("out")) is None
    schema = use.schema(alias("out"))
    assert schema is not None
    assert [each.name for each in schema.fields] == ["event_time", "id", "fee", "note"]
