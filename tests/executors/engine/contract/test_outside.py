"""Engines elsewhere as engines of steps: what they make, and what is not taken from them."""

import time
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.contract import client as contract_client
from odfbuild.executors.engine.contract import exchange
from odfbuild.executors.engine.contract.client import (
    EngineAnswerError,
    EngineTimeoutError,
    EngineUnreachableError,
)
from odfbuild.executors.engine.contract.outside import EngineElsewhere
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.odf.events import OffsetInterval, SqlQueryStep, TransformSql
from odfbuild.odf.hashing import UnhashableTypeError
from odfbuild.sql.query import Query
from tests.executors.engine.contract.conftest import Engines
from tests.executors.engine.datafusion.test_rule import (
    ALL,
    DataFusionQuery,
    batch_result,
    counted,
    output_of,
    standing,
)
from tests.rule.histories import history
from tests.rule.steps import VOCAB, played
from tests.support.effort import examples
from tests.support.servers.engine import serving
from tests.support.servers.second_engine import WRONG


class _Query(DataFusionQuery):
    """A query that the second engine takes, and whose dialect nothing reads."""

    @property
    def transform(self) -> TransformSql:
        return TransformSql(engine="duck", query=self.text)


# --- rows -----------------------------------------------------------------------------------------

QUERIES = (
    "select event_time, k, n * 2 as n from a where n > 0",
    "select max(event_time) as event_time, k, sum(n) as s, count(*) as c from a group by k",
    "select event_time, k, row_number() over (partition by k order by event_time, n) as r from a",
    "select distinct event_time, n from a",
    "select event_time, n from a where n = (select max(n) from a)",
)
JOINED = "select a.event_time, a.k, n, w from a left join b on a.k = b.k and a.n = b.w"


@pytest.mark.parametrize("text", [*QUERIES, JOINED])
def test_every_step_leaves_what_the_engine_gives_of_all_rows(
    text: str, engine: Engines, tmp_path: Path
) -> None:
    query = _Query(text, "whole", ("a", "b") if text == JOINED else ("a",))
    for seed in range(examples(2, 50)):
        draw, folder = Random(f"{text}{seed}"), tmp_path / str(seed)
        folder.mkdir()
        for step in played(engine(), folder, query, history(draw, query.inputs)):
            plain = duckdb.connect()
            plain.execute("set timezone = 'UTC'")
            for name, log in step.inputs.items():
                plain.register(name, standing(log, ordered=True))
            expected = plain.execute(text).to_arrow_table()
            found = output_of(step, expected.schema)
            expected = expected.select(found.column_names).cast(found.schema)
            assert counted(found) == counted(expected), f"seed {seed}, step {step.number}"


@pytest.mark.parametrize("at", [3, 9, 18], ids=lambda at: ALL[at].text[:40])
def test_our_own_engine_elsewhere_leaves_what_it_leaves_here(
    at: int, engine: Engines, tmp_path: Path
) -> None:
    query = _Query(ALL[at].text, "whole", ALL[at].inputs)
    with serving(tmp_path, "--write", str(tmp_path), "--jobs", "1") as served:
        there = engine(at=served.address, name="datafusion")
        folder = tmp_path / "work"
        folder.mkdir()
        for step in played(there, folder, query, history(Random(at), query.inputs)):
            expected = batch_result(query, step)
            found = output_of(step, expected.schema)
            expected = expected.select(found.column_names).cast(found.schema)
            assert counted(found) == counted(expected), f"step {step.number}"


def steps(engine: EngineElsewhere, folder: Path, text: str) -> list[int]:
    """Play a history and return how many rows each step wrote."""
    query = _Query(text, "whole", ("a",))
    folder.mkdir()
    logs = history(Random(text[-20:]), ("a",))
    found: list[int] = []
    for step in played(engine, folder, query, logs):
        found.append(len(step.output))
    return found


def test_a_log_of_an_engine_that_corrects_itself_counts_by_what_stands(
    engine: Engines, tmp_path: Path
) -> None:
    plain = "select event_time, k, n from a where n is not null"
    assert steps(engine(), tmp_path / "0", f"-- mode log\n{plain}") == steps(
        engine(), tmp_path / "1", f"-- mode none\n{plain}"
    )


def test_queries_of_several_steps_go_as_they_are(engine: Engines, tmp_path: Path) -> None:
    class Several(_Query):
        @property
        def transform(self) -> TransformSql:
            first = SqlQueryStep(alias="part", query="select * from a where n > 0")
            last = SqlQueryStep(query="select event_time, n from part")
            return TransformSql(engine="duck", queries=(first, last))

    query = Several("two steps", "whole", ("a",))
    for step in played(engine(), tmp_path, query, history(Random(7), ("a",))):
        expected = [
            row["n"] for row in standing(step.inputs["a"], ordered=True).to_pylist()
            if row["n"] is not None and row["n"] > 0
        ]  # fmt: skip
        found = output_of(step, pa.schema([("event_time", pa.timestamp("ms")), ("n", pa.int64())]))
        assert sorted(found.column("n").to_pylist()) == sorted(expected)


# --- preprocess -----------------------------------------------------------------------------------


def raw(text: str, folder: Path) -> RawQueryWork:
    rows = pa.table({"b": ["x", None], "a": [2, 1]})
    query = TransformSql(engine="duck", queries=(SqlQueryStep(query=text),))
    return RawQueryWork(source=Frame.of(rows), query=query, staging=folder)


def test_a_preprocess_gives_rows_in_the_order_of_the_engine(
    engine: Engines, tmp_path: Path
) -> None:
    work = raw("select a * 10 as n, b from input order by n desc", tmp_path)
    found = engine().raw_query(work).table
    assert found is not None
    assert found.to_pylist() == [{"n": 20, "b": "x"}, {"n": 10, "b": None}]
    assert list(tmp_path.iterdir()) == []


def test_a_count_that_is_not_that_of_the_file_is_refused(engine: Engines, tmp_path: Path) -> None:
    with pytest.raises(EngineAnswerError, match="says that it wrote 3 rows, and 2 are there"):
        engine().raw_query(raw("-- mode count\nselect a from input", tmp_path))


# --- engines that are wrong -----------------------------------------------------------------------


@pytest.mark.holds("engine-answers")
@pytest.mark.parametrize("mode", sorted(WRONG))
def test_what_breaks_the_contract_is_not_taken(
    mode: str, engine: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract_client, "_MOST_MESSAGES", 2_000)
    text = f"-- mode {mode}\nselect event_time, k from a"
    with pytest.raises(EngineAnswerError) as caught:
        steps(engine(), tmp_path / "steps", text)
    assert WRONG[mode] in caught.value.what
    assert "duck at 127.0.0.1:" in caught.value.what
    assert caught.value.what.isprintable()


@pytest.mark.holds("engine-answers")
@pytest.mark.parametrize("mode", ["never", "silent"])
def test_an_engine_that_is_never_done_is_given_up(
    mode: str, engine: Engines, tmp_path: Path
) -> None:
    start = time.monotonic()
    with pytest.raises(EngineTimeoutError, match=r"no answer within 1\.5 s"):
        steps(engine(1.5), tmp_path / "steps", f"-- mode {mode}\nselect event_time, k from a")
    assert time.monotonic() - start < 20


def test_an_engine_that_is_cancelled_is_waited_for_no_longer(
    engine: Engines, tmp_path: Path
) -> None:
    import threading

    there = engine()
    threading.Timer(1, there.cancel).start()
    with pytest.raises(EngineFailedError, match="interrupted"):
        steps(there, tmp_path / "steps", "-- mode silent\nselect event_time, k from a")


def test_an_engine_that_is_not_there_is_named(engine: Engines, tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachableError, match="cannot be reached"):
        steps(engine(at="127.0.0.1:1"), tmp_path / "steps", "select event_time, k from a")


def test_what_an_engine_says_of_itself_is_printed_plainly(engine: Engines, tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match="failed: out of luck") as caught:
        steps(engine(), tmp_path / "0", "-- mode failed\nselect event_time, k from a")
    assert caught.value.what.isprintable()
    with pytest.raises(InvalidQueryError, match="refuses the query"):
        steps(engine(), tmp_path / "1", "select nothing_of_the_kind from a")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select event_time, k, [{n: n}] as list from a", "no logical hash"),
        ("select event_time, map {k: n} as m from a where k is not null", "has the type map"),
        ("select null::timestamp as event_time, k from a", "rows without 'event_time'"),
        ("select '20000-01-01'::timestamp as event_time, k from a", "within the years 1 to 9999"),
    ],
)
def test_results_that_no_dataset_can_hold_are_refused(
    text: str, said: str, engine: Engines, tmp_path: Path
) -> None:
    refusals = (InvalidQueryError, EngineAnswerError, UnhashableTypeError)
    with pytest.raises(refusals, match=said):
        steps(engine(), tmp_path / "steps", text)


@pytest.mark.holds("engine-answers")
def test_rows_that_do_not_fit_into_memory_are_not_read(
    engine: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 1 << 20)
    large = "select event_time, repeat('x', 100000) as x from a cross join range(100)"
    with pytest.raises(EngineAnswerError, match="more than 1 MB"):
        steps(engine(), tmp_path / "0", large)
    many = "select event_time, r as x from a cross join range(2000000) as t(r)"
    with pytest.raises(EngineAnswerError, match="do not fit into memory"):
        steps(engine(), tmp_path / "1", many)


@pytest.mark.parametrize("form", ["plain", "dictionary", "list"])
def test_texts_that_are_no_text_are_refused(form: str, tmp_path: Path) -> None:
    ends, letters = pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
    found = pa.Array.from_buffers(pa.string(), 1, [None, ends, letters])
    if form == "dictionary":
        found = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), found)
    if form == "list":
        found = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), found)
    pq.write_table(pa.table({"x": found}), tmp_path / "log")
    with pytest.raises(EngineFailedError):
        exchange.read_rows(tmp_path / "log", wrong)


def wrong(what: str) -> EngineFailedError:
    return EngineFailedError(what=what, why="", fix="")


def test_what_a_log_takes_back_in_vain_is_refused(tmp_path: Path) -> None:
    time_of = pa.array([0], pa.timestamp("ms", "UTC"))
    log = pa.table(
        {"offset": [0], "op": pa.array([1], pa.int32()), "event_time": time_of, "n": [1]}
    )
    pq.write_table(log, tmp_path / "log")
    span = OffsetInterval(0, 0)
    with pytest.raises(InvalidChangelogError):
        exchange.read_log(tmp_path / "log", span, VOCAB, EngineFailedError)  # type: ignore[arg-type]


# --- what is known of a text ----------------------------------------------------------------------


def test_a_text_that_nothing_reads_is_whole_and_may_wait_for_the_watermark() -> None:
    query = Query.of(TransformSql(engine="duck", query="¿ anything at all ?"), (), VOCAB)
    assert query.facts.kind == "the dialect of duck"
    assert query.problems == ()
    assert query.waits
    assert (query.key, query.accumulators, query.products) == (None, None, None)
    assert dict(query.spans) == {}
