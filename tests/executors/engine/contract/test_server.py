"""The engines of ours over gRPC: requests of the reference, and those of strangers."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import VOCAB, table_of, written
from tests.executors.engine.spark.transform.test_datafusion_vectors import plain
from tests.odf.wire.plain_flatbuffers import plain as plain_value
from tests.odf.wire.plain_flatbuffers import write
from tests.support.cases import load
from tests.support.effort import places
from tests.support.projects import program
from tests.support.servers.engine import (
    Served,
    asked,
    children_of,
    envelope,
    opened,
    serving,
)

_CASES = load("transform-datafusion")["cases"]
_SPARK_CASES = load("transform-spark-map")["cases"]
_ID = b"\xed\x01" + bytes(32)
_ENDLESS = (
    "select count(*) as n from input x cross join input y cross join input z "
    "where (x.a * y.a + z.a) % 7 = 3"
)


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("engine"), "--jobs", "1") as served:
        yield served


@pytest.fixture
def channel(server: Served) -> Iterator[Any]:
    with opened(server.address) as found:
        yield found


def raw_query(
    server: Served, query: str, engine: str = "datafusion", **more: Any
) -> dict[str, Any]:
    """Return a request that reads three rows."""
    path = server.read / "rows.parquet"
    if not path.exists():
        pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    return {
        "input_data_paths": [str(path)],
        "transform": ("TransformSql", {"engine": engine, "query": query}),
        "output_data_path": str(server.write / "made.parquet"),
        **more,
    }


# --- what the reference asks --------------------------------------------------------------------


def transform_request(case: dict[str, Any], server: Served, name: str) -> dict[str, Any]:
    """Return the request that a coordinator sends for a case, all fields filled."""
    vocab = plain_value(VOCAB)
    inputs = []
    for each in case["inputs"]:
        tables = [table_of(piece) for piece in each["slices"]]
        shown = server.read / f"schema-{each['alias']}"
        if tables:
            pq.write_table(tables[-1].schema.empty_table(), shown)
        first, last = each["offsetInterval"]
        inputs.append(
            {
                "dataset_id": _ID,
                "dataset_alias": each["alias"],
                "query_alias": each["alias"],
                "vocab": vocab,
                "offset_interval": {"start": first, "end": last},
                "data_paths": [str(written(server.read, table)) for table in tables],
                "schema_file": str(shown),
                "explicit_watermarks": [
                    {
                        "system_time": Timestamp.parse("2020-01-01T00:00:00Z").parts(),
                        "event_time": Timestamp.parse(mark).parts(),
                    }
                    for mark in each["watermarks"]
                ],
            }
        )
    queries = [
        {"query": each["query"]} | ({} if each["alias"] is None else {"alias": each["alias"]})
        for each in case["queries"]
    ]
    return {
        "dataset_id": _ID,
        "dataset_alias": "made",
        "system_time": Timestamp.parse(case["systemTime"]).parts(),
        "vocab": vocab,
        "transform": ("TransformSql", {"engine": case["engine"], "queries": queries}),
        "query_inputs": inputs,
        "next_offset": case["nextOffset"],
        "new_checkpoint_path": str(server.write / f"{name}.checkpoint"),
        "new_data_path": str(server.write / f"{name}.parquet"),
    }


@pytest.mark.parametrize("align", [1, 4])
@pytest.mark.parametrize("case", _CASES, ids=lambda case: str(case["id"]))
def test_a_request_of_the_reference_is_answered_as_by_its_own_engine(
    case: dict[str, Any], align: int, server: Served, channel: Any
) -> None:
    request = transform_request(case, server, f"{case['id']}-{align}")
    check(case, asked(channel, "ExecuteTransform", request, align)[-1], request)


@pytest.mark.spark
@pytest.mark.parametrize("case", _SPARK_CASES, ids=lambda case: str(case["id"]))
def test_steps_for_spark_go_on_from_the_checkpoint_of_the_one_before(
    case: dict[str, Any], server: Served, channel: Any
) -> None:
    before: dict[str, Any] = {}
    for number, step in enumerate(case["steps"]):
        for each in step["inputs"]:
            rows = [row[0] for piece in each["slices"] for row in piece["rows"]]
            each.setdefault("offsetInterval", [min(rows, default=0), max(rows, default=0)])
        whole = {**step, "engine": "spark", "queries": [{"alias": None, "query": case["query"]}]}
        request = transform_request(whole, server, f"{case['id']}-{number}") | before
        if not step["inputs"][0]["slices"]:
            del request["query_inputs"][0]["offset_interval"]
        check(whole, asked(channel, "ExecuteTransform", request)[-1], request)
        before = {"prev_checkpoint_path": request["new_checkpoint_path"]}


def check(case: dict[str, Any], answer: Any, request: dict[str, Any]) -> None:
    """Compare an answer and its file with what the case has."""
    kind, said = answer
    expected = case["expect"]
    if expected.get("error") == "invalid query":
        assert kind == "InvalidQuery"
        return
    assert kind == "Success", said
    offsets = said.get("new_offset_interval")
    found = None if offsets is None else [offsets["start"], offsets["end"]]
    if "offsets" in expected:
        assert found == expected["offsets"]
    if expected.get("watermark") is not None:
        assert said["new_watermark"] == Timestamp.parse(expected["watermark"]).parts()
    if expected["data"] is not None:
        made = pq.read_table(request["new_data_path"])
        assert plain(made) == plain(table_of(expected["data"]))


def test_a_raw_query_says_how_many_rows_it_wrote(server: Served, channel: Any) -> None:
    request = raw_query(server, "select a + 1 as b from input where a > 1")
    assert asked(channel, "ExecuteRawQuery", request)[-1] == ("Success", {"num_records": 2})
    assert pq.read_table(request["output_data_path"]).to_pylist() == [{"b": 3}, {"b": 4}]


@pytest.mark.parametrize(
    ("engine", "query", "said"),
    [
        ("datafusion", "select b from input", "No field named b"),
        ("datafusion", "selec", "cannot be read"),
        ("flink", "select a from input", "no engine flink"),
    ],
)
def test_a_wrong_query_is_an_answer(
    engine: str, query: str, said: str, server: Served, channel: Any
) -> None:
    kind, answer = asked(channel, "ExecuteRawQuery", raw_query(server, query, engine))[-1]
    assert kind == "InvalidQuery"
    assert said in answer["message"]


# --- what strangers ask -------------------------------------------------------------------------


@pytest.mark.holds("engine-folders")
def test_files_elsewhere_are_refused_by_name(server: Served, channel: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"a": [1]}), secret)
    wrong: list[dict[str, Any]] = [
        {"input_data_paths": [str(secret)]},
        {"output_data_path": str(tmp_path / "made")},
    ]
    for more in wrong:
        with pytest.raises(grpc.RpcError) as caught:
            asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input", **more))
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "refused-path" in caught.value.details()
    assert not (tmp_path / "made").exists()


@pytest.mark.holds("engine-messages")
@pytest.mark.parametrize("data", [b"", b"no message", envelope(b""), envelope(b"\xff" * 99)])
@pytest.mark.parametrize("method", ["ExecuteRawQuery", "ExecuteTransform"])
def test_bytes_that_are_no_message_are_refused_by_name(
    data: bytes, method: str, channel: Any
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        asked(channel, method, data)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.holds("engine-messages")
def test_a_request_of_another_kind_is_refused(server: Served, channel: Any) -> None:
    data = write("RawQueryRequest", raw_query(server, "select a from input"), 4)
    with pytest.raises(grpc.RpcError) as caught:
        asked(channel, "ExecuteTransform", envelope(data))
    assert caught.value.code() in {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
    }


@pytest.mark.holds("engine-messages")
def test_a_message_with_a_changed_byte_is_answered_in_a_form_of_the_contract(
    server: Served, channel: Any
) -> None:
    """Also one that has a variant of a newer version of the format, in any of its unions."""
    message = envelope(write("RawQueryRequest", raw_query(server, "select a from input"), 4))
    refusals = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}
    for at in places(0, 4):
        if at >= len(message):
            break
        for value in (0, message[at] ^ 4, 255):
            try:
                (answer,) = asked(channel, "ExecuteRawQuery", splice(message, at, value))
            except grpc.RpcError as error:
                assert error.code() in refusals, error.details()
            else:
                assert answer


def splice(message: bytes, at: int, value: int) -> bytes:
    return message[:at] + bytes([value]) + message[at + 1 :]


@pytest.mark.holds("engine-messages")
def test_a_message_without_end_is_refused(channel: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        asked(channel, "ExecuteRawQuery", envelope(bytes(17 << 20)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.holds("engine-messages")
def test_callers_that_send_no_request_are_left_in_time(server: Served, channel: Any) -> None:
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    calls = [channel.stream_stream("/engine.Engine/ExecuteRawQuery")(nothing()) for _ in range(65)]
    for each in calls:
        with pytest.raises(grpc.RpcError) as caught:
            next(each)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    ended.set()
    answer = asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))
    assert answer[-1] == ("Success", {"num_records": 3})


def migration(server: Served, before: str, after: str, **more: Any) -> dict[str, Any]:
    """Return a request to go over from one query of DataFusion to another."""
    first, second = (
        ("TransformSql", {"engine": "datafusion", "query": q}) for q in (before, after)
    )
    old = server.read / "old"
    old.write_bytes(b"what it knew")
    return {
        "prev_transform": first,
        "next_transform": second,
        "prev_checkpoint_path": str(old),
        "new_checkpoint_path": str(server.write / "new"),
        **more,
    }


GROUPS = "select max(event_time) as event_time, k, count(*) as n from a group by k"
ROWS = "select event_time, k from a"


def test_a_query_goes_over_to_another_or_is_refused(server: Served, channel: Any) -> None:
    new = server.write / "new"
    request = migration(server, GROUPS, GROUPS)
    assert asked(channel, "MigrateQuery", request) == [("Success", {"new_checkpoint": True})]
    assert new.read_bytes() == b"what it knew"
    new.unlink()
    ((kind, answer),) = asked(channel, "MigrateQuery", migration(server, ROWS, GROUPS))
    assert kind == "Refused"
    assert "could not distinguish its own rows" in answer["message"]
    first = migration(server, ROWS, ROWS)
    del first["prev_checkpoint_path"]
    assert asked(channel, "MigrateQuery", first) == [("Success", {"new_checkpoint": False})]
    assert not new.exists()


RESTATED = {"version": f"{engine_version('datafusion')}.restate"}
UNREADABLE = {
    "of names in backticks": {"query": "select event_time, k from `a`"},
    "that is none": {"query": "selec"},
    "that is empty": {"query": ""},
    "that changes something": {"query": "drop table a", **RESTATED},
    "that is to restate": {"query": "selec", **RESTATED},
    "of no steps": {"queries": []},
    "of the present time": {"query": "select now() as event_time, k from a"},
    "by chance": {"query": "select event_time, random() as k from a"},
    "of another engine": {"query": ROWS, "engine": "flink"},
    "of an engine without a name": {"query": ROWS, "engine": ""},
}


@pytest.mark.parametrize("wrong", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_no_query_goes_over_to_one_that_no_step_would_run(
    server: Served, channel: Any, wrong: dict[str, Any]
) -> None:
    """Nor does a query of that kind go over to itself."""
    following = ("TransformSql", {"engine": "datafusion", **wrong})
    request = migration(server, ROWS, ROWS, next_transform=following)
    for before in (request["prev_transform"], following):
        ((kind, answer),) = asked(channel, "MigrateQuery", {**request, "prev_transform": before})
        assert (kind, bool(answer["message"])) == ("Refused", True)
        assert not (server.write / "new").exists()


def test_a_checkpoint_that_cannot_be_written_is_the_fault_of_the_request(
    server: Served, channel: Any
) -> None:
    request = migration(server, ROWS, ROWS, new_checkpoint_path=str(server.write / "no" / "new"))
    ((kind, answer),) = asked(channel, "MigrateQuery", request)
    assert kind == "Refused" and "cannot be copied" in answer["message"]


@pytest.mark.holds("engine-messages")
@pytest.mark.parametrize("place", ["prev_checkpoint_path", "new_checkpoint_path"])
def test_a_migration_names_files_of_the_folders_only(
    server: Served, channel: Any, tmp_path: Path, place: str
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    with pytest.raises(grpc.RpcError) as caught:
        asked(channel, "MigrateQuery", migration(server, ROWS, ROWS, **{place: str(other)}))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert other.read_bytes() == b"kept"


def test_other_methods_there_are_none(channel: Any) -> None:
    for method in ("ExecuteStep", "ExecuteIngest", "Shutdown"):
        call = channel.unary_stream(f"/engine.Engine/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            list(call(b"", timeout=30))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_file_that_is_no_parquet_is_an_answer(server: Served, channel: Any) -> None:
    other = server.read / "other"
    other.write_bytes(b"PAR1" + b"\xff" * 64 + b"PAR1")
    request = raw_query(server, "select a from input", input_data_paths=[str(other)])
    kind, answer = asked(channel, "ExecuteRawQuery", request)[-1]
    assert kind == "InternalError"
    assert answer["message"]


@pytest.mark.holds("engine-messages")
def test_a_query_that_its_caller_gives_up_is_stopped(server: Served, channel: Any) -> None:
    pq.write_table(pa.table({"a": list(range(3000))}), server.read / "many.parquet")
    request = raw_query(server, _ENDLESS, input_data_paths=[str(server.read / "many.parquet")])
    asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))
    (before,) = children_of(server.process.pid)
    data = envelope(write("RawQueryRequest", request, 4))
    call = channel.unary_stream("/engine.Engine/ExecuteRawQuery")(data)
    time.sleep(1)
    call.cancel()
    assert asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))[-1] == (
        "Success",
        {"num_records": 3},
    )
    assert before not in children_of(server.process.pid)


def test_a_worker_that_is_killed_is_an_answer_and_another_one_starts(
    server: Served, channel: Any
) -> None:
    pq.write_table(pa.table({"a": list(range(3000))}), server.read / "many.parquet")
    request = raw_query(server, _ENDLESS, input_data_paths=[str(server.read / "many.parquet")])
    asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))
    (worker,) = children_of(server.process.pid)
    timer = threading.Timer(1, os.kill, (worker, signal.SIGKILL))
    timer.start()
    kind, answer = asked(channel, "ExecuteRawQuery", request)[-1]
    timer.join()
    assert kind == "InternalError"
    assert "ended without an answer" in answer["message"]
    again = asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))
    assert again[-1] == ("Success", {"num_records": 3})


# --- the process --------------------------------------------------------------------------------


def test_it_ends_in_order_and_leaves_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (tmp_path / "in" / "many.parquet").touch()
        pq.write_table(pa.table({"a": [1]}), served.read / "rows.parquet")
        with opened(served.address) as channel:
            asked(channel, "ExecuteRawQuery", raw_query(served, "select a from input"))
        (worker,) = children_of(served.process.pid)
        assert served.stop() == 0
        assert not Path(f"/proc/{worker}").exists()
        assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_query_that_runs_ends_with_the_server(number: int, tmp_path: Path) -> None:
    with serving(tmp_path) as served, opened(served.address) as channel:
        pq.write_table(pa.table({"a": list(range(3000))}), served.read / "many.parquet")
        request = raw_query(served, _ENDLESS, input_data_paths=[str(served.read / "many.parquet")])
        data = envelope(write("RawQueryRequest", request, 4))
        call = channel.unary_stream("/engine.Engine/ExecuteRawQuery")(data)
        next(call)  # Progress
        (worker,) = children_of(served.process.pid)
        served.process.send_signal(number)
        served.process.wait(60)
        with pytest.raises(grpc.RpcError):
            list(call)
        until = time.monotonic() + 20
        while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
            time.sleep(0.1)
        assert not Path(f"/proc/{worker}").exists()


@pytest.mark.holds("engine-messages")
def test_bytes_that_are_no_http_do_not_end_the_server(server: Served, channel: Any) -> None:
    for sent in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(sent + bytes(20_000))
    answer = asked(channel, "ExecuteRawQuery", raw_query(server, "select a from input"))
    assert answer[-1] == ("Success", {"num_records": 3})


def test_an_address_that_is_taken_and_a_folder_that_is_not_there_are_refused(
    tmp_path: Path,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        here = ["--read", str(tmp_path), "--write", str(tmp_path)]
        done = program("engine", "serve", "--port", port, *here, cwd=tmp_path)
    assert done.code != 0
    assert "unusable-port" in done.err
    done = program("engine", "serve", "--read", str(tmp_path / "none"), cwd=tmp_path)
    assert done.code != 0
    assert "is not a folder" in done.err
