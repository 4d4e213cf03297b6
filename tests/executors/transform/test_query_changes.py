"""A query that changes: what was written is corrected, or stays, as its definition says."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import Level
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategySnapshot,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Transform
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import OnQueryChange, Traits
from odfbuild.planner.plan.reasons import HistoryRestated
from tests.planner.builders import declare, sql
from tests.support.data.replaying import ReplayingEngine, left
from tests.support.effort import examples
from tests.support.engines import Rows
from tests.support.workshop import Workshop, ledger

COLUMNS = ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT")
KINDS = pa.schema([("t", pa.date32()), ("k", pa.string()), ("v", pa.int64())])
COPY = "select t, k, v from src"
DOUBLE = "select t, k, v * 2 as v from src"
POSITIVE = "select t, k, v from src where v > 0"
SUM = "select max(t) as t, k, sum(v) as v from src group by k"
COUNT = "select max(t) as t, k, count(*) as v from src group by k"
BY_VALUE = "select max(t) as t, v, max(k) as k from src group by v"
BOTH = "select t, k, v from src union all select t, k, v from more"


def by_key(count: bool) -> Callable[[Mapping[str, Rows]], Rows]:
    def query(inputs: Mapping[str, Rows]) -> Rows:
        groups: dict[str, Rows] = {}
        for row in inputs["src"]:
            groups.setdefault(row["k"], []).append(row)
        return [
            {
                "t": max(row["t"] for row in rows),
                "k": key,
                "v": len(rows) if count else sum(row["v"] for row in rows),
            }
            for key, rows in groups.items()
        ]

    return query


QUERIES: Mapping[str, Callable[[Mapping[str, Rows]], Rows]] = {
    COPY: lambda inputs: inputs["src"],
    DOUBLE: lambda inputs: [{**row, "v": row["v"] * 2} for row in inputs["src"]],
    POSITIVE: lambda inputs: [row for row in inputs["src"] if row["v"] > 0],
    SUM: by_key(count=False),
    COUNT: by_key(count=True),
    BOTH: lambda inputs: [*inputs["src"], *inputs["more"]],
}
KEYS = {SUM: "k", COUNT: "k"}


def snapshot(name: str = "src") -> Declared:
    """Declare a root whose files are whole states: rows change, and go."""
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
        merge=MergeStrategySnapshot(primary_key=("k",)),
    )
    return declare(name, DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


def made(query: str, *inputs: str, restate: bool = False) -> Declared:
    """Declare the derivative `out`."""
    refs = tuple(TransformInput(DatasetAlias.parse(each), each) for each in inputs or ("src",))
    events = (SetTransform(inputs=refs, transform=sql(query)), SetVocab(event_time_column="t"))
    how = OnQueryChange.RESTATE if restate else OnQueryChange.FORWARD
    return replace(
        declare("out", DatasetKind.DERIVATIVE, events), traits=Traits(on_query_change=how)
    )


def workshop(folder: Path, **more: Any) -> Workshop:
    engine = ReplayingEngine(
        queries=QUERIES, keys=KEYS, makes=dict.fromkeys(QUERIES, KINDS), **more
    )
    return Workshop(folder, engine)


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a workshop with rows of three keys."""
    shop = workshop(tmp_path)
    shop.file("1.csv", "2024-01-01,a,1", "2024-01-01,b,-2", "2024-01-01,c,3")
    return shop


def state(shop: Workshop, name: str = "out") -> Counter[tuple[str, int]]:
    """Return the keys and values that a dataset stands for."""
    dataset = shop.dataset(name)
    known = dataset.state()
    assert known is not None
    rows = left([path for _, path in dataset.slices()], known.vocab, ["t", "k", "v"])
    return Counter((row["k"], row["v"]) for row in rows)


def version(shop: Workshop) -> str:
    known = shop.dataset("out").state()
    assert known is not None
    assert known.transform is not None
    return known.transform.transform.version or ""


def reasons(shop: Workshop, declared: Sequence[Declared]) -> list[object]:
    steps = shop.plan(declared).steps
    return [why for step in steps if isinstance(step.work, Transform) for why in step.reasons]


# restate

states = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.integers(-2, 2), max_size=3), min_size=1, max_size=3
)


@settings(max_examples=examples(8, 200), deadline=None)
@given(states, states, st.sampled_from(sorted(QUERIES.keys() - {BOTH})), st.data())
def test_after_a_restatement_the_dataset_is_what_the_new_query_gives_of_everything(
    before: list[dict[str, int]], after: list[dict[str, int]], old: str, data: st.DataObject
) -> None:
    new = data.draw(st.sampled_from(sorted(QUERIES.keys() - {BOTH, old})))
    with TemporaryDirectory() as folder:
        shop = workshop(Path(folder))
        for number, each in enumerate(before + after):
            query = old if number < len(before) else new
            day = date(2024, 1, 1 + number)
            shop.file(f"{number}.csv", *(f"{day},{k},{v}" for k, v in each.items()))
            report = shop.apply([snapshot(), made(query, restate=True)])
            assert not report.failures
            rows = [{"t": day, "k": k, "v": v} for (k, v), n in state(shop, "src").items()
                    for _ in range(n)]  # fmt: skip
            expected = Counter((row["k"], row["v"]) for row in QUERIES[query]({"src": rows}))
            assert state(shop) == expected
            again = shop.apply([snapshot(), made(query, restate=True)])
            assert not again.failures
            assert state(shop) == expected


def test_a_restatement_runs_though_the_inputs_brought_nothing(shop: Workshop) -> None:
    shop.apply([ledger(), made(COPY)])
    wanted = [ledger(), made(POSITIVE, restate=True)]
    assert reasons(shop, wanted)[0] == HistoryRestated(3)
    assert not shop.apply(wanted).failures
    assert shop.rows("out")[3:] == [(3, 1, "b", -2)]
    assert version(shop).endswith(".restate")
    assert reasons(shop, wanted[1:]) == []


def test_what_needs_no_correction_is_said_to_be_restated(shop: Workshop) -> None:
    shop.file("1.csv", "2024-01-01,a,1")
    shop.apply([ledger(), made(COPY)])
    wanted = [ledger(), made(POSITIVE, restate=True)]
    assert not shop.apply(wanted).failures
    assert shop.kinds("out")[-2:] == ["SetTransform", "SetTransform"]
    assert not version(shop).endswith(".restate")
    assert shop.plan(wanted[1:]).steps == ()


def test_an_interval_that_takes_back_what_was_never_held_is_left_to_the_restatement(
    tmp_path: Path,
) -> None:
    shop = workshop(tmp_path)
    shop.file("1.csv", "2024-01-01,a,-1")
    shop.apply([snapshot(), made(POSITIVE)])
    wanted = [snapshot(), made(COPY, restate=True)]
    shop.file("2.csv")  # takes the row back that was left out
    for _ in range(2):
        assert not shop.apply(wanted).failures
        assert state(shop) == Counter()
    shop.file("3.csv", "2024-01-03,b,-1")
    assert not shop.apply(wanted).failures
    assert state(shop) == Counter({("b", -1): 1})


def test_a_restatement_that_failed_is_still_to_be_done(tmp_path: Path) -> None:
    shop = workshop(tmp_path, failing=frozenset({DOUBLE}))
    shop.file("1.csv", "2024-01-01,a,5")
    shop.apply([ledger(), made(COPY)])
    ((_, failed),) = shop.apply([ledger(), made(DOUBLE, restate=True)]).failures
    assert failed.error.what == "it broke"
    assert reasons(shop, [made(DOUBLE)]) == [HistoryRestated(1)]
    # also by the query that comes next, whatever its definition says
    assert not shop.apply([ledger(), made(COUNT)]).failures
    assert state(shop) == Counter({("a", 1): 1})
    assert version(shop).endswith(".restate")


def test_a_dataset_that_has_read_nothing_has_nothing_to_restate(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    shop.apply([ledger(), made(COPY)])
    steps = shop.plan([ledger(), made(SUM, restate=True)]).steps
    (append,) = (step.work for step in steps if isinstance(step.work, Append))
    (event,) = append.events
    assert isinstance(event, SetTransform)
    assert not (event.transform.version or "").endswith(".restate")


def test_an_input_that_comes_is_read_from_its_start_and_one_that_goes_is_taken_back(
    shop: Workshop,
) -> None:
    (shop.folder / "other").mkdir()
    (shop.folder / "other" / "1.csv").write_text("t,k,v\n2024-01-01,z,9\n")
    more = declare("more", DatasetKind.ROOT, tuple(
        replace(each, fetch=FetchStepFilesGlob(path="other/*.csv"))
        if isinstance(each, SetPollingSource) else each
        for each in ledger("more").snapshot.metadata
    ))  # fmt: skip
    shop.apply([ledger(), made(COPY)])
    one, two = state(shop), [ledger(), more]
    assert not shop.apply([*two, made(BOTH, "src", "more", restate=True)]).failures
    assert state(shop) == one + Counter({("z", 9): 1})
    shop.file("2.csv", "2024-01-02,d,4")
    assert not shop.apply([*two, made(COPY, restate=True)]).failures
    assert state(shop) == one + Counter({("d", 4): 1})
    assert not shop.apply([*two, made(BOTH, "src", "more")]).failures
    assert state(shop) == one + Counter({("d", 4): 1})  # read before, and never again


def test_a_column_that_comes_is_filled_in_by_corrections(shop: Workshop) -> None:
    wide = "select t, k, v, upper(k) as w from src"
    engine = shop.engine
    assert isinstance(engine, ReplayingEngine)
    engine.queries = {
        **QUERIES,
        wide: lambda inputs: [{**row, "w": row["k"].upper()} for row in inputs["src"]],
    }
    engine.makes = {**engine.makes, wide: KINDS.append(pa.field("w", pa.string()))}
    shop.file("1.csv", "2024-01-01,a,1")
    shop.apply([ledger(), made(COPY)])
    assert not shop.apply([ledger(), made(wide, restate=True)]).failures
    dataset = shop.dataset("out")
    known = dataset.state()
    assert known is not None
    rows = left([path for _, path in dataset.slices()], known.vocab, ["k", "v", "w"])
    assert rows == [{"k": "a", "v": 1, "w": "A"}]
    assert shop.kinds("out")[-2:] == ["SetDataSchema", "ExecuteTransform"]


# forward


def test_a_key_that_is_touched_follows_the_new_query_and_the_others_stay(shop: Workshop) -> None:
    shop.apply([snapshot(), made(SUM)])
    assert not shop.apply([snapshot(), made(COUNT)]).failures
    assert state(shop) == Counter({("a", 1): 1, ("b", -2): 1, ("c", 3): 1})
    shop.file("2.csv", "2024-01-01,a,1", "2024-01-02,b,5", "2024-01-01,c,3")
    assert not shop.apply([snapshot(), made(COUNT)]).failures
    assert state(shop) == Counter({("a", 1): 1, ("b", 1): 1, ("c", 3): 1})
    assert not version(shop).endswith(".restate")


def test_a_row_by_row_query_goes_on_from_rows_of_another_one(shop: Workshop) -> None:
    shop.apply([snapshot(), made(COPY)])
    assert not shop.apply([snapshot(), made(POSITIVE)]).failures
    shop.file("2.csv", "2024-01-02,a,2", "2024-01-01,b,-2", "2024-01-01,c,3", "2024-01-02,d,4")
    assert not shop.apply([snapshot(), made(POSITIVE)]).failures
    assert state(shop) == Counter({("a", 2): 1, ("b", -2): 1, ("c", 3): 1, ("d", 4): 1})


def test_a_row_by_row_query_takes_back_nothing_that_another_one_made_otherwise(
    shop: Workshop,
) -> None:
    shop.apply([snapshot(), made(COPY)])
    assert not shop.apply([snapshot(), made(DOUBLE)]).failures
    shop.file("2.csv", "2024-01-01,a,1", "2024-01-01,b,-2", "2024-01-01,c,3", "2024-01-02,d,4")
    assert not shop.apply([snapshot(), made(DOUBLE)]).failures
    held = Counter({("a", 1): 1, ("b", -2): 1, ("c", 3): 1, ("d", 8): 1})
    assert state(shop) == held
    shop.file("3.csv", "2024-01-03,a,5", "2024-01-01,b,-2", "2024-01-01,c,3", "2024-01-02,d,4")
    ((_, failed),) = shop.apply([snapshot(), made(DOUBLE)]).failures
    (said,) = failed.error.diagnostics()
    assert said.code == "needs-restate"
    assert "odfbuild rebuild out" in (said.fix or "")
    assert state(shop) == held


def test_so_it_is_where_the_event_log_calls_its_operations_otherwise(shop: Workshop) -> None:
    def named(each: Declared) -> Declared:
        vocab = SetVocab(event_time_column="t", operation_type_column="operation")
        events = each.snapshot.metadata
        others = [event for event in events if not isinstance(event, SetVocab)]
        return replace(
            declare(str(each.alias), each.snapshot.kind, (*others, vocab)), traits=each.traits
        )

    double = "select t, k, v * 2 as v from (select t, k, v, k as op from src)"  # a column like any
    assert isinstance(shop.engine, ReplayingEngine)
    shop.engine.queries = {**QUERIES, double: QUERIES[DOUBLE]}
    for query in (COPY, double):
        assert not shop.apply([named(snapshot()), named(made(query))]).failures
    shop.file("2.csv", "2024-01-03,a,5", "2024-01-01,b,-2", "2024-01-01,c,3")
    ((_, failed),) = shop.apply([named(snapshot()), named(made(double))]).failures
    assert [each.code for each in failed.error.diagnostics()] == ["needs-restate"], failed.error
    assert state(shop) == Counter({("a", 1): 1, ("b", -2): 1, ("c", 3): 1})


def reading(name: str, source: str, query: str) -> Declared:
    """Declare a derivative of any dataset, which its query calls src."""
    refs = (TransformInput(DatasetAlias.parse(source), "src"),)
    events = (SetTransform(inputs=refs, transform=sql(query)), SetVocab(event_time_column="t"))
    return declare(name, DatasetKind.DERIVATIVE, events)


@pytest.mark.parametrize(
    ("source", "between", "is_listed"),
    [
        (ledger(), (), False),
        (snapshot(), (), True),
        (ledger(), (reading("mid", "src", COPY),), False),
        (snapshot(), (reading("mid", "src", COPY),), True),
        (ledger(), (reading("mid", "src", SUM),), True),
        (snapshot(), (reading("low", "src", COPY), reading("mid", "low", POSITIVE)), True),
    ],
)
def test_that_a_row_by_row_query_may_have_to_stop_is_told_where_rows_may_be_taken_back(
    source: Declared, between: tuple[Declared, ...], is_listed: bool, shop: Workshop
) -> None:
    name = "mid" if between else "src"
    shop.apply([source, *between, reading("out", name, COPY)])
    changed = [source, *between, reading("out", name, DOUBLE)]
    notes = shop.plan(changed).notes
    assert [note.code for note in notes] == ["needs-restate"] * is_listed
    for note in notes:
        assert note.level is Level.WARNING
        assert "once src takes an older row back" in note.what
    assert not shop.apply(changed).failures


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (SUM, BY_VALUE, "it works by v, and the rows so far were made by k"),
        (COPY, SUM, "it works key by key, by k, and the rows so far were not made so"),
        (SUM, COPY, "it computes rows one by one"),
        (SUM, "select max(t) as t, sum(v) as v from src group by k", "does not hold the key"),
        (SUM, "select * from (select t, k, v, row_number() over (order by t, k, v) as n from src)",
         "each step looks at everything"),
        (SUM, "select max(t) as t, k from src group by k, v", "does not hold the key"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_go_on_is_refused_and_told_how(
    old: str, new: str, why: str, shop: Workshop
) -> None:
    shop.apply([ledger(), made(old)])
    ((note,),) = shop.plan([ledger(), made(new)]).refused.values()
    assert note.code == "needs-restate"
    assert why in note.what
    assert "on_query_change: restate" in (note.fix or "")
    assert shop.plan([ledger(), made(new, restate=True)]).notes == ()


# columns that come upstream

DISTINCT = "select distinct * from src"
WIDER = ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT", "w STRING", "x STRING")
WIDE = ledger("src", *WIDER[:-1])


def columns_seen(shop: Workshop) -> list[str]:
    engine = shop.engine
    assert isinstance(engine, ReplayingEngine)
    return [each.name for each in engine.works[-1].inputs[0].schema.fields][3:]


def test_a_star_stands_for_the_columns_that_were_there_when_the_query_first_ran(
    tmp_path: Path,
) -> None:
    shop = workshop(tmp_path)
    engine = shop.engine
    assert isinstance(engine, ReplayingEngine)
    engine.keys = {DISTINCT: None}
    shop.file("1.csv", "2024-01-01,a,1")
    shop.apply([ledger(), made(DISTINCT)])
    shop.file("2.csv", "2024-01-02,b,2,x", header="t,k,v,w")
    for number in (3, 4):  # at once, and in every later step
        assert not shop.apply([WIDE, made(DISTINCT)]).failures
        assert columns_seen(shop) == ["t", "k", "v"]
        shop.file(f"{number}.csv", f"2024-01-02,c{number},2,x", header="t,k,v,w")
    planned = shop.plan([ledger("src", *WIDER), made(DISTINCT)]).datasets[DatasetAlias.parse("out")]
    assert planned.assessment is not None
    assert (planned.assessment.schema, planned.assessment.change) == (None, ChangeClass.NONE)
    (told,) = planned.assessment.hits
    assert told.code == "ODF306"
    assert told.message == "x (STRING) comes from src and is left out until the query changes"
    again = made("select distinct * from src where v > 0", restate=True)
    assert not shop.apply([WIDE, again]).failures
    assert columns_seen(shop) == ["t", "k", "v", "w"]
    assert "w" in pq.read_schema(shop.dataset("out").slices()[-1][1]).names
