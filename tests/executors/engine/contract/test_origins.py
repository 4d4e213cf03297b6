"""What a row was made of, as engines elsewhere say: proven, or said to be unknown."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.analysis import UnofferedQuestionError
from odfbuild.executors.engine.contract.client import EngineTimeoutError, EngineUnreachableError
from odfbuild.executors.engine.contract.outside import EngineElsewhere, client_of
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.provenance.derive import (
    Derivation,
    InexactError,
    answered_derivation,
)
from odfbuild.odf.events import TransformSql
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.project.config.outside_engines import OutsideEngine
from tests.executors.engine.contract.conftest import Engines
from tests.executors.engine.contract.test_projects import READER, Project
from tests.executors.engine.datafusion.test_rule import DataFusionQuery
from tests.odf.wire.plain_flatbuffers import write
from tests.rule.histories import history
from tests.rule.steps import played, sealed
from tests.support.effort import examples, places
from tests.support.servers.engine import Served, asked, envelope, opened, serving
from tests.support.servers.second_engine import WRONG_ORIGINS

QUERIES = {
    "select event_time, k, n * 2 as n from a where n > 0": ("a",),
    "select max(event_time) as event_time, k, sum(n) as s, count(*) as c from a group by k": ("a",),
    "select max(event_time) as event_time, max(n) as n from a having count(*) > 0": ("a",),
    "select distinct event_time, n from a": ("a",),
    "select a.event_time, a.k, n, w from a left join b on a.k = b.k and a.n = b.w": ("a", "b"),
    "select event_time, k from a union all select event_time, k from b": ("a", "b"),
}


class _Query(DataFusionQuery):
    """A query for an engine elsewhere, whose dialect nothing here reads."""

    @property
    def transform(self) -> TransformSql:
        return TransformSql(engine="duck", query=self.text)


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), "--jobs", "1") as served:
        yield served


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("which", ["ours", "another"])
def test_what_engines_say_gives_the_row_and_no_row_can_be_left_out(
    text: str, which: str, engine: Engines, server: Served, tmp_path: Path
) -> None:
    """Held against DuckDB in this process, which runs the query on what was said."""
    if which == "ours":
        found = OutsideEngine(name="duck", address=server.address, engine="datafusion")
        elsewhere = EngineElsewhere(found, client_of(found, tmp_path, tmp_path))
        folder, query = server.write, _Query(text, "whole", QUERIES[text])
    else:
        elsewhere, folder = engine(), tmp_path
        query = _Query(f"-- mode origins honest\n{text}", "whole", QUERIES[text])
    count, seed = 0, 0
    while count < examples(3, 100):
        seed += 1
        draw = Random(f"{text}{which}{seed}")
        here = folder / f"{QUERIES[text]}{len(text)}-{seed}"
        here.mkdir()

        def step(asked: Any, work: TransformWork, start: int, draw: Random = draw) -> Any:
            nonlocal count
            done = sealed(asked, work, start)
            if done.path is not None:
                records = pq.read_table(done.path)
                for at in draw.sample(range(len(records)), min(1, len(records))):
                    _check(text, work, records.slice(at, 1), asked)
                    count += 1
            return done

        for _ in played(elsewhere, here, query, history(draw, query.inputs, (0, 1, 2, 4)), step):
            pass
    elsewhere.close()


def _check(text: str, work: TransformWork, record: pa.Table, engine: EngineElsewhere) -> None:
    found = answered_derivation(engine, work, record)
    (row,) = record.to_pylist()
    logs = {
        each.alias: pa.concat_tables(map(pq.read_table, (*each.past, *each.paths)))
        for each in work.inputs
        if each.past or each.paths
    }
    assert found.comes == (row["op"] in (0, 3))
    wanted = {k: v for k, v in row.items() if k not in {"offset", "op", "system_time"}}

    def given(chosen: Mapping[str, tuple[int, ...]]) -> bool:
        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        for each in work.inputs:
            rows = logs.get(each.alias)
            held = [] if rows is None else rows.column("offset").to_pylist()
            numbers = [held.index(one) for one in chosen.get(each.alias, ())]
            empty = to_arrow(each.schema).empty_table()
            connection.register(
                each.alias, empty if rows is None else rows.take(pa.array(numbers, pa.int64()))
            )
        result = connection.execute(text).to_arrow_table()
        return any(
            all(each[name] == value for name, value in wanted.items())
            for each in result.to_pylist()
        )

    assert given(found.why), "the rows do not give it by themselves"
    for alias, offsets in found.why.items():
        for left_out in offsets if found.exact else ():
            less = tuple(each for each in offsets if each != left_out)
            assert not given({**found.why, alias: less}), "a row could be left out"


def derived(elsewhere: EngineElsewhere, folder: Path, mode: str) -> Derivation:
    """Return what is found of the first record that a query over all rows makes."""
    text = "select max(event_time) as event_time, max(n) as n from a having count(*) > 0"
    query = _Query(f"-- mode origins {mode}\n{text}", "whole", ("a",))
    found: list[Derivation] = []

    def step(engine: Any, work: TransformWork, start: int) -> Any:
        done = sealed(engine, work, start)
        if done.path is not None and not found:
            found.append(answered_derivation(engine, work, pq.read_table(done.path).slice(0, 1)))
        return done

    for _ in played(elsewhere, folder, query, history(Random(mode), ("a",), (3, 4)), step):
        if found:
            break
    return found[0]


@pytest.mark.holds("engine-answers")
@pytest.mark.parametrize("mode", sorted(WRONG_ORIGINS))
def test_origins_that_break_the_contract_are_not_taken(
    mode: str, engine: Engines, tmp_path: Path
) -> None:
    with pytest.raises(EngineFailedError) as caught:
        derived(engine(), tmp_path, mode)
    assert WRONG_ORIGINS[mode] in caught.value.what
    assert caught.value.what.isprintable()


@pytest.mark.holds("engine-answers")
def test_origins_that_do_not_give_the_row_are_not_taken(engine: Engines, tmp_path: Path) -> None:
    with pytest.raises(InexactError, match="of the rows that the engine names"):
        derived(engine(), tmp_path, "no-rows")


def test_origins_of_which_rows_can_be_left_out_are_reduced(engine: Engines, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "honest").mkdir()
    many = derived(engine(), tmp_path / "all", "all")
    assert sum(map(len, many.why.values())) == 1 or not many.exact


def test_an_engine_may_not_know_not_offer_it_not_be_there_or_be_silent(
    engine: Engines, tmp_path: Path
) -> None:
    def asked(mode: str, **more: Any) -> Derivation:
        (tmp_path / mode).mkdir()
        return derived(engine(**more), tmp_path / mode, mode)

    with pytest.raises(InexactError, match="as it was long ago") as caught:
        asked("unknown")
    assert str(caught.value).isprintable()
    start = time.monotonic()
    with pytest.raises(EngineTimeoutError, match="no answer within 3 s"):
        asked("silent", limit=3)
    assert time.monotonic() - start < 30
    plain = "select max(event_time) as event_time, max(n) as n from a having count(*) > 0"
    query = _Query(plain, "whole", ("a",))

    def step(_: Any, work: TransformWork, start: int) -> Any:
        done = sealed(engine(), work, start)
        if done.path is not None:
            record = pq.read_table(done.path).slice(0, 1)
            with pytest.raises(UnofferedQuestionError, match="does not say of which rows"):
                answered_derivation(engine(), work, record)
            with pytest.raises(EngineUnreachableError):
                answered_derivation(engine(at="127.0.0.1:1"), work, record)
            raise Seen
        return done

    class Seen(Exception):
        pass

    with pytest.raises(Seen):
        list(played(engine(), tmp_path, query, history(Random(0), ("a",), (3, 4)), step))


# --- the server -----------------------------------------------------------------------------------


def question(server: Served, **more: Any) -> dict[str, Any]:
    """Return a question about the second of three rows."""
    zero = pa.scalar(0, pa.timestamp("ms", "UTC"))
    made = {
        "offset": pa.array([0, 1, 2], pa.int64()),
        "op": pa.array([0, 0, 0], pa.int32()),
        "system_time": pa.repeat(zero, 3),
        "event_time": pa.repeat(zero, 3),
        "a": pa.array([1, 2, 3], pa.int64()),
    }
    path = server.read / "records.parquet"
    pq.write_table(pa.table(made), path)
    vocab = {
        "offset_column": "offset",
        "operation_type_column": "op",
        "system_time_column": "system_time",
        "event_time_column": "event_time",
    }
    given = {
        "query_alias": "x",
        "vocab": vocab,
        "offset_interval": {"start": 0, "end": 2},
        "data_paths": [str(path)],
        "schema_file": str(path),
    }
    return {
        "vocab": vocab,
        "transform": (
            "TransformSql",
            {"engine": "datafusion", "queries": [{"query": "select event_time, a from x"}]},
        ),
        "query_inputs": [{**given, **more.pop("input", {})}],
        "record": {"data_path": str(path), "offset": 1, **more.pop("record", {})},
        **more,
    }


@pytest.fixture
def channel(server: Served) -> Iterator[Any]:
    with opened(server.address) as found:
        yield found


def test_our_engine_answers_strangers(server: Served, channel: Any) -> None:
    kind, said = asked(channel, "DeriveProvenance", question(server))[-1]
    assert kind == "Success"
    (found,) = said["inputs"]
    assert (found["query_alias"], found["made_of"]) == ("x", [{"start": 1, "end": 1}])


@pytest.mark.holds("engine-folders")
@pytest.mark.parametrize("field", ["record", "data_paths", "prev_data_paths", "schema_file"])
def test_files_of_a_question_that_are_elsewhere_are_refused(
    field: str, server: Served, channel: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"a": [1]}), secret)
    link = server.read / f"link-{field}"
    link.symlink_to(secret)
    for path in (str(secret), str(link), "/proc/self/environ", f"{server.read}/../secret", ""):
        more: dict[str, Any] = (
            {"record": {"data_path": path}}
            if field == "record"
            else {"input": {field: path if field == "schema_file" else [path]}}
        )
        with pytest.raises(grpc.RpcError) as caught:
            asked(channel, "DeriveProvenance", question(server, **more))
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.holds("engine-messages")
@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"record": {"offset": 3}}, "InvalidQuery"),
        ({"record": {"offset": (1 << 63) - 1}}, "InvalidQuery"),
        ({"input": {"query_alias": ""}}, "InvalidQuery"),
        ({"input": {"offset_interval": {"start": 2, "end": 0}}}, None),
        ({"query_inputs": []}, "InvalidQuery"),
    ],
)
def test_questions_that_make_no_sense_are_answered(
    more: dict[str, Any], kind: str | None, server: Served, channel: Any
) -> None:
    try:
        (answer,) = asked(channel, "DeriveProvenance", question(server, **more))
    except grpc.RpcError as error:
        assert kind is None
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    else:
        assert kind in (None, answer[0])
        assert kind is None or answer[1]["message"]


@pytest.mark.holds("engine-messages")
def test_a_question_with_a_changed_byte_is_answered_in_a_form_of_the_contract(
    server: Served, channel: Any
) -> None:
    message = envelope(write("DeriveProvenanceRequest", question(server), 4))
    refusals = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}
    for at in places(0, 4):
        if at >= len(message):
            break
        for value in (0, message[at] ^ 4, 255):
            changed = message[:at] + bytes([value]) + message[at + 1 :]
            try:
                (answer,) = asked(channel, "DeriveProvenance", changed)
            except grpc.RpcError as error:
                assert error.code() in refusals, error.details()
            else:
                assert answer


# --- projects -------------------------------------------------------------------------------------

BY_KEY = """\
select k, max(event_time) as event_time, count(*) as n, sum(v) as s from prices group by k"""


def built(folder: Path, address: str, query: str) -> Project:
    """Return a project whose datasets an engine elsewhere makes, after two steps of them."""
    folder.mkdir()
    made = Project(folder, f"engines: {{duck: {{address: '{address}', engine: datafusion}}}}")
    head = READER.partition('        version: "1.5"\n')[0]
    lines = "".join(f"          {line}\n" for line in query.splitlines())
    (folder / "datasets" / "totals.yaml").write_text(f"{head}        query: |-\n{lines}")
    done = made("apply", "--yes")
    assert done.code == 0, done.err
    made.rows("2.csv", "a,10", "c,5")
    done = made("apply", "--yes")
    assert done.code == 0, done.err
    return made


def explained(project: Project, offset: int) -> dict[str, Any]:
    done = project("explain-row", "totals", str(offset), "-o", "json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["why"]["rows"][0]
    return found


def test_a_row_that_an_engine_elsewhere_made_is_explained(server: Served) -> None:
    project = built(server.write / "explained", server.address, BY_KEY)
    log = project("show", "totals", "--log", "-o", "ndjson").out.splitlines()
    found = {}
    for row in map(json.loads, log):
        each = explained(project, row["offset"])
        assert each["exact"], each
        (made,) = each["made_of"]
        found[row["k"], row["op"]] = (made["offsets"], made.get("caused_by"))
    assert len(found) == 5
    text = project("explain-row", "totals", "2").out
    assert "made of 1 row" in text
    assert "prices, offset" in text
    assert "from files data/*.csv" in text


def test_an_engine_that_does_not_say_it_is_named_and_asked_once(
    tmp_path: Path, address: str
) -> None:
    project = built(tmp_path / "p", address, BY_KEY)
    done = project("explain-row", "totals", "0")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert f"the engine duck at {address} does not say of which rows it made a row" in said
    assert "prices: among offsets 0 to 1" in said


def test_an_engine_that_is_gone_or_not_permitted_is_named(server: Served) -> None:
    project = built(server.write / "gone", server.address, BY_KEY)
    refused = project("explain-row", "totals", "0", CI="true")
    assert refused.code == 0, refused.err
    assert "Made of rows that cannot be determined" in refused.out
    assert "is to be used, and an engine gets the rows" in refused.out
    project.settings("engines: {duck: {address: '127.0.0.1:1', engine: datafusion}}")
    done = project("explain-row", "totals", "0")
    assert done.code == 0, done.err
    assert "the engine duck at 127.0.0.1:1 cannot be reached" in " ".join(done.out.split())
    project.settings("")
    (project.folder / "datasets" / "totals.yaml").unlink()
    (project.folder / "datasets" / "prices.yaml").unlink()
    done = project("explain-row", "totals", "0")
    assert "its engine is duck" in " ".join(done.out.split())
