"""Versions of engines: whose steps are refused, and what an upgrade records."""

from dataclasses import replace

import pytest

from odfbuild.errors import Level
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    MergeStrategyAppend,
    ReadStepNdJson,
    SetTransform,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.opaque import Opaque
from odfbuild.planner.diff.query_change import is_other_version, upgraded
from odfbuild.planner.make_plan import make_plan
from odfbuild.planner.plan import Plan
from odfbuild.sql.analysis.engine_revisions import affected
from odfbuild.sql.text.steps import QueryStep
from tests.planner.builders import Chain, dataset_id, derivative, root, schema, slice_of, sql

INSTALLED = "4.3.0+odfbuild.2"
SQL = sql("select * from `a`")


def versioned(version: str | None) -> TransformSql:
    return replace(SQL, version=version)


def output(version: str | None, query: str = "") -> Chain:
    transform = replace(sql(query), version=version) if query else versioned(version)
    event = SetTransform((TransformInput(dataset_id("a"), "a"),), transform)
    return Chain("b", DatasetKind.DERIVATIVE, [event])


PUSH = AddPushSource(
    source_name="p", read=ReadStepNdJson(ddl_schema=("a BIGINT",)), merge=MergeStrategyAppend()
)


def plan(version: str | None, *, query: str | None = None, rows: int = 3) -> Plan:
    source = Chain("a", DatasetKind.ROOT, [PUSH]).add(schema("a BIGINT"))
    source = source.rows(rows) if rows else source
    made = derivative("b", "a") if query is None else derivative("b", "a", query=query)
    declared = [root("a", PUSH), made]
    states = zip(declared, (source.state, output(version).state), strict=True)
    return make_plan(
        declared,
        current={each.alias: state for each, state in states},
        sources={},
        engines={"spark": INSTALLED},
        project_hash="",
    )


@pytest.mark.parametrize(
    ("version", "another"),
    [
        (None, False),
        (INSTALLED, False),
        (f"{INSTALLED}.restate", False),
        ("4.2.0+odfbuild.2", True),
        ("4.3.0+odfbuild.1.restate", True),
    ],
)
def test_only_a_version_that_is_recorded_can_be_another_one(
    version: str | None, another: bool
) -> None:
    assert is_other_version(versioned(version), INSTALLED) is another


def test_a_step_of_another_version_is_announced_with_the_way_out() -> None:
    made = plan("4.2.0+odfbuild.2")
    assert [step.id for step in made.steps] == ["transform:b"]
    (note,) = made.notes
    assert (note.code, note.level) == ("engine-version", Level.WARNING)
    assert "4.2.0+odfbuild.2" in note.what
    assert "odfbuild engine upgrade b" in note.what


JOINED = (
    "select l.k, 1 as c from `a` l join `a` for system_time as of l.event_time as r on r.k = l.k"
)
HIDES = "select k, count(*) as c from (select * except (k), upper(k) as k from `a`) group by k"


@pytest.mark.parametrize(
    ("query", "version", "ran", "code"),
    [
        (JOINED, "4.3.0+odfbuild.1", True, "rows-of-corrected-versions"),
        (JOINED, INSTALLED, True, None),
        (HIDES, "4.3.0+odfbuild.1", True, "rows-of-other-keys"),
        (HIDES, "4.3.0+odfbuild.1", False, None),
        (HIDES, INSTALLED, True, None),
        ("select k, count(*) as c from `a` group by k", "4.3.0+odfbuild.1", True, None),
    ],
)
def test_a_dataset_that_an_earlier_revision_may_have_spoilt_is_named(
    query: str, version: str, ran: bool, code: str | None
) -> None:
    source = Chain("a", DatasetKind.ROOT, [PUSH]).add(schema("k STRING")).rows(3)
    made = output(version, query)
    if ran:
        made.add(schema("k STRING", "c BIGINT")).add(
            ExecuteTransform(
                query_inputs=(
                    ExecuteTransformInput(
                        dataset_id=dataset_id("a"), new_block_hash=source.state.head, new_offset=2
                    ),
                ),
                new_data=slice_of(0, 2),
            )
        )
    declared = [root("a", PUSH), derivative("b", "a", query=query)]
    found = make_plan(
        declared,
        current={declared[0].alias: source.state, declared[1].alias: made.state},
        sources={},
        engines={"spark": INSTALLED},
        project_hash="",
    )
    told = [note for note in found.notes if note.code.startswith("rows-of-")]
    assert [note.code for note in told] == ([code] if code else [])
    assert all("odfbuild rebuild b" in note.fix for note in told)


@pytest.mark.parametrize("version", [None, INSTALLED])
def test_what_the_installed_version_made_goes_on_without_a_word(version: str | None) -> None:
    assert plan(version).notes == ()


def test_a_dataset_without_a_step_is_not_spoken_of() -> None:
    made = plan("4.2.0+odfbuild.2", rows=0)
    assert (made.steps, made.notes) == ((), ())


def test_a_changed_query_is_for_the_installed_version() -> None:
    assert plan("4.2.0+odfbuild.2", query="select event_time from a").notes == ()


def state(version: str | None, *, new: bool = False) -> ChainState:
    return replace(output(version).state, transform_is_new=new)


def test_an_upgrade_records_the_installed_version_and_nothing_else() -> None:
    found = upgraded(state("4.2.0+odfbuild.2"), INSTALLED)
    assert found == SetTransform((TransformInput(dataset_id("a"), "a"),), versioned(INSTALLED))


@pytest.mark.parametrize("version", [None, INSTALLED])
def test_what_is_in_force_is_not_recorded_again(version: str | None) -> None:
    assert upgraded(state(version), INSTALLED) is None


def test_a_query_that_has_yet_to_restate_does_so_after_an_upgrade() -> None:
    before = "4.2.0+odfbuild.2.restate"
    later, done = (upgraded(state(before, new=new), INSTALLED) for new in (True, False))
    assert later is not None
    assert later.transform.version == f"{INSTALLED}.restate"
    assert done is not None
    assert done.transform.version == INSTALLED


def test_what_has_no_query_or_one_of_a_newer_format_has_nothing_to_upgrade() -> None:
    known = state("4.2.0+odfbuild.2")
    assert upgraded(replace(known, transform=None), INSTALLED) is None
    assert known.transform is not None
    unknown = replace(known.transform, transform=Opaque("Transform", 9))  # type: ignore[arg-type]
    assert upgraded(replace(known, transform=unknown), INSTALLED) is None


@pytest.mark.parametrize(
    ("text", "engine", "version", "cause"),
    [
        ("select max(x) from a group by k", "datafusion", "55.0.0+odfbuild.1", "EXTREMES"),
        ("select max(x) from a group by k", "datafusion", "55.0.0+odfbuild.1.restate", "EXTREMES"),
        ("select max(x) from a group by k", "datafusion", "55.0.0+odfbuild.3", None),
        ("select json_length(x) from a", "datafusion", "55.0.0+odfbuild.5", "JSON"),
        ('select "JSON_get_int"(x, 1) from a', "datafusion", "55.0.0+odfbuild.5", "JSON"),
        ("select json_length(x) from a", "datafusion", "55.0.0+odfbuild.6", None),
        ("select json_length from a", "datafusion", "55.0.0+odfbuild.5", None),
        ("select json_length('x from a", "datafusion", "55.0.0+odfbuild.1", None),
        ("select 'json_length(x)' from a", "datafusion", "55.0.0+odfbuild.5", None),
        ("select max(x) over () from a", "datafusion", "55.0.0+odfbuild.1", None),
        ("select sum(x) from a group by k", "datafusion", "55.0.0+odfbuild.1", None),
        ("select max(x) from a group by k", "spark", "4.3.0+odfbuild.1", "COLUMNS"),
        ("select max(x) from a group by k", "elsewhere", "1", None),
    ],
)
def test_queries_for_datafusion_of_which_a_revision_had_wrong_rows_are_named(
    text: str, engine: str, version: str, cause: str | None
) -> None:
    found = affected([QueryStep(None, text, engine=engine)], {}, version)
    assert (None if found is None else found.name) == cause


# --- versions that definitions ask for ------------------------------------------------------------


def asked(version: str, recorded: str | None) -> Plan:
    """Return the plan for a definition that names a version, over a chain that records one."""
    source = Chain("a", DatasetKind.ROOT, [PUSH]).add(schema("a BIGINT")).rows(3)
    made = derivative("b", "a")
    event = next(each for each in made.snapshot.metadata if isinstance(each, SetTransform))
    event = replace(event, transform=replace(SQL, version=version))
    made = replace(made, snapshot=replace(made.snapshot, metadata=(event,)))
    declared = [root("a", PUSH), made]
    return make_plan(
        declared,
        current={declared[0].alias: source.state, declared[1].alias: output(recorded).state},
        sources={},
        engines={"spark": INSTALLED},
        project_hash="",
    )


@pytest.mark.parametrize(
    ("version", "recorded", "refused"),
    [
        ("4.2.0", INSTALLED, True),
        ("4.2.0", "4.1.0", True),
        ("4.2.0", None, True),
        ("4.2.0", "4.2.0", False),  # said of the chain: an upgrade is there for that
        ("4.2.0", "4.2.0.restate", False),
        (INSTALLED, INSTALLED, False),
        (INSTALLED, f"{INSTALLED}.continued", False),
    ],
)
def test_a_version_that_is_asked_for_and_not_there_is_refused_whatever_ran_before(
    version: str, recorded: str | None, refused: bool
) -> None:
    made = asked(version, recorded)
    found = [each for problems in made.refused.values() for each in problems]
    assert [each.code for each in found] == ["engine-version"] * refused
    assert all(f"for spark {version}, and {INSTALLED} is" in each.what for each in found)


@pytest.mark.parametrize(("version", "refused"), [("4.2.0", True), (INSTALLED, False)])
def test_so_is_one_of_a_preprocess(version: str, refused: bool) -> None:
    query = replace(sql("select * from input"), version=version)
    source = replace(PUSH, preprocess=query)
    for state in (None, Chain("a", DatasetKind.ROOT, [PUSH]).state):
        made = make_plan(
            [root("a", source)],
            current={} if state is None else {root("a").alias: state},
            sources={},
            engines={"spark": INSTALLED},
            project_hash="",
        )
        found = [each.code for problems in made.refused.values() for each in problems]
        assert found == ["engine-version"] * refused
