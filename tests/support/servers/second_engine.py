"""A second engine of the contract, in DuckDB: `python -m tests.support.servers.second_engine`.

It shares no code with the product: FlatBuffers are read and written by the stock runtime, queries
run by DuckDB.  It prints its port.  A query that begins with `-- mode` is answered in a wrong way.
It validates no query but those that begin with `-- mode columns`, and says what rows were made of
where a query begins with `-- mode origins`.
"""

import os
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import duckdb
import grpc
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.odf.wire.plain_flatbuffers import read, write
from tests.support.servers.engine import envelope

__all__ = ["MODULE", "WRONG", "WRONG_COLUMNS", "WRONG_ORIGINS"]

MODULE = "tests.support.servers.second_engine"

WRONG = {
    "offsets": "offsets that do not count from 0",
    "interval": "says the offsets 0 to 7",
    "no-interval": "says no offsets",
    "garbage": "is not Parquet",
    "empty": "is not Parquet",
    "missing": "no file",
    "link": "cannot be read",
    "pipe": "cannot be read",
    "no-event-time": "without the column 'event_time'",
    "text-time": "which is not a date or timestamp",
    "no-offset": "without the column 'offset'",
    "text-op": "that is not a column of whole numbers",
    "null-op": "that is not a column of whole numbers",
    "strange-op": "not 0, 1, 2 or 3",
    "huge-offset": "offsets that no slice can have",
    "bytes": "sent an invalid message",
    "envelope": "sent an invalid message",
    "large": "RESOURCE_EXHAUSTED",
    "nothing": "ended its answer without a result",
    "status": "ended the call with DATA_LOSS: lost",
    "flood": "messages and no answer",
}
"""What is said of each wrong answer."""


WRONG_COLUMNS = {
    "two": "two columns named 'x'",
    "no-time": "no event time 'event_time'",
    "text-time": "no event time 'event_time'",
    "many": "20,001 columns",
    "many-inside": "20,003 columns",
    "no-name": "whose name cannot be shown",
    "long-name": "whose name cannot be shown",
    "escape": "whose name cannot be shown",
    "deep": "sent an invalid message",
    "bytes": "sent an invalid message",
    "envelope": "sent an invalid message",
    "large": "RESOURCE_EXHAUSTED",
    "nothing": "ended its answer without a result",
    "status": "ended the call with DATA_LOSS: lost",
    "failed": "out of luck",
}
"""The same of answers on queries to validate."""


WRONG_ORIGINS = {
    "alias": "says of an input 'other'",
    "twice": "says of an input 'a'",
    "many": "says of an input 'a0'",
    "beyond": "was made of offsets 0 to 4611686018427387904",
    "backwards": "was made of offsets 1 to 0",
    "overlap": "was made of offsets 0 to 0",
    "bytes": "sent an invalid message",
    "envelope": "sent an invalid message",
    "large": "RESOURCE_EXHAUSTED",
    "nothing": "ended its answer without a result",
    "status": "ended the call with DATA_LOSS: lost",
    "failed": "out of luck",
}
"""The same of answers on what a row was made of."""


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        run = {
            "ExecuteTransform": _transform,
            "ExecuteRawQuery": _raw_query,
            "ValidateQuery": _validate,
            "DeriveProvenance": _derive,
        }.get(name)
        return None if run is None else grpc.unary_stream_rpc_method_handler(run)


def _message(data: bytes, table: str) -> dict[str, Any]:
    at = 1
    while data[at] >= 128:
        at += 1
    found: dict[str, Any] = read(table, data[at + 1 :])
    return found


def _answer(kind: str, member: str, table: dict[str, Any]) -> bytes:
    root = {"value": (f"{kind}Response{member}", table)}
    return envelope(write(f"{kind}ResponseRoot", root, 4))


def _transform(data: bytes, context: Any) -> Iterator[bytes]:
    request = _message(data, "TransformRequest")
    queries = request["transform"][1]["queries"]
    mode, path = _mode(queries[0]["query"]), Path(request["new_data_path"])
    yield _answer("Transform", "Progress", {})
    if mode in _STREAMS:
        yield from _STREAMS[mode]("Transform", context)
        return
    rows: pa.Table
    try:
        rows = _result(request["query_inputs"], queries)
    except duckdb.Error as error:
        yield _answer("Transform", "InvalidQuery", {"message": str(error)})
        return
    count = rows.num_rows
    zero = pa.scalar(0, pa.timestamp("ms", "UTC"))
    log = pa.table(
        {
            "offset": pa.array(range(count), pa.int64()),
            "op": pa.array([0] * count, pa.int32()),
            "system_time": pa.repeat(zero, count),
            **{name: rows.column(name) for name in rows.column_names},
        }
    )
    span = {"start": 0, "end": count - 1}
    log, span = _spoilt(mode, log, span, path)
    if mode not in {"garbage", "empty", "missing", "link", "pipe", "no-file"}:
        pq.write_table(log, path)
    said = {} if mode == "no-interval" or not count else {"new_offset_interval": span}
    yield _answer("Transform", "Success", said)


def _raw_query(data: bytes, context: Any) -> Iterator[bytes]:
    request = _message(data, "RawQueryRequest")
    query = request["transform"][1]["queries"][0]["query"]
    mode = _mode(query)
    connection = _connection()
    try:
        connection.register("input", pq.read_table(request["input_data_paths"]))
        rows = connection.execute(query).to_arrow_table()
    except duckdb.Error as error:
        yield _answer("RawQuery", "InvalidQuery", {"message": str(error)})
        return
    pq.write_table(rows, request["output_data_path"])
    count = rows.num_rows + (1 if mode == "count" else 0)
    yield _answer("RawQuery", "Success", {"num_records": count})


def _validate(data: bytes, context: Any) -> Iterator[bytes]:
    request = _message(data, "ValidateQueryRequest")
    query = request["transform"][1]["queries"][0]["query"]
    chosen, _, mode = _mode(query).partition(" ")
    if chosen != "columns":
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    if mode in _STREAMS:
        yield from _STREAMS[mode]("ValidateQuery", context)
        return
    if mode == "refused":
        yield _answer("ValidateQuery", "InvalidQuery", {"message": "no such column\x1b[31m"})
        return
    yield _answer("ValidateQuery", "Success", {"schema": {"fields": _fields(mode)}})


def _derive(data: bytes, context: Any) -> Iterator[bytes]:
    request = _message(data, "DeriveProvenanceRequest")
    queries, inputs = request["transform"][1]["queries"], request["query_inputs"]
    chosen, _, mode = _mode(queries[0]["query"]).partition(" ")
    if chosen != "origins":
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    if mode in _STREAMS:
        yield from _STREAMS[mode]("DeriveProvenance", context)
        return
    first = inputs[0]["query_alias"]

    def of(*spans: tuple[int, int], alias: str = first) -> dict[str, Any]:
        made = [{"start": start, "end": end} for start, end in spans]
        return {"query_alias": alias, "made_of": made}

    said: dict[str, Any] = {"inputs": [of()]}
    match mode:
        case "alias":
            said = {"inputs": [of(alias="other")]}
        case "twice":
            said = {"inputs": [of((0, 0)), of()]}
        case "many":
            said = {"inputs": [of(alias=f"a{number}") for number in range(5000)]}
        case "beyond":
            said = {"inputs": [of((0, 1 << 62))]}
        case "backwards":
            said = {"inputs": [of((1, 0))]}
        case "overlap":
            said = {"inputs": [of((0, 0), (0, 0))]}
        case "unknown":
            said = {"inputs": [{"query_alias": first}], "reason": "it was long ago\x1b[31m"}
        case "all" | "honest":
            rows = {each["query_alias"]: pq.read_table(each["data_paths"] or each["schema_file"])
                    for each in inputs}  # fmt: skip
            if mode == "honest":
                rows = _made_of(rows, queries, request["record"])
            spans = {
                alias: [(at, at) for at in table.column("offset").to_pylist()]
                for alias, table in rows.items()
            }
            said = {"inputs": [of(*each, alias=alias) for alias, each in spans.items()]}
    yield _answer("DeriveProvenance", "Success", said)


def _made_of(
    rows: dict[str, pa.Table], queries: list[dict[str, Any]], record: dict[str, Any]
) -> dict[str, pa.Table]:
    """Leave out one row after the other, as long as the query gives the record."""
    system = ["offset", "op", "system_time"]
    wanted = pq.read_table(record["data_path"]).drop_columns(system).to_pylist()[record["offset"]]

    def given(chosen: dict[str, pa.Table]) -> bool:
        connection = _connection()
        for alias, table in chosen.items():
            connection.register(alias, table)
        return wanted in connection.execute(queries[-1]["query"]).to_arrow_table().to_pylist()

    for alias, table in [*rows.items()]:
        for offset in table.column("offset").to_pylist():
            left = rows[alias]
            less = left.filter(pc.not_equal(left.column("offset"), offset))
            if given({**rows, alias: less}):
                rows = {**rows, alias: less}
    return rows


def _fields(mode: str) -> list[dict[str, Any]]:
    text: Any = ("DataTypeString", {})
    whole: Any = ("DataTypeInt64", {})
    moment: Any = ("DataTypeTimestamp", {"unit": 1, "timezone": "UTC"})
    found = [("event_time", moment), ("n", whole), ("s", whole)]
    match mode:
        case "two":
            found += [("x", text), ("x", text)]
        case "no-time":
            del found[0]
        case "text-time":
            found[0] = ("event_time", text)
        case "many":
            found = [(f"c{number}", text) for number in range(20_001)]
        case "many-inside":
            inner = [{"name": f"c{number}", "type": text} for number in range(19_999)]
            found.append(("z", ("DataTypeStruct", {"fields": inner})))
        case "no-name" | "long-name" | "escape":
            name = {"no-name": "", "long-name": "n" * 1_001}.get(mode, "a\x1b[31mb")
            found.append((name, text))
        case "deep":
            kind: Any = text
            for _ in range(200):
                kind = ("DataTypeList", {"item_type": kind})
            found.append(("l", kind))
        case "text-sum":
            found[2] = ("s", text)
    return [{"name": name, "type": kind} for name, kind in found]


def _mode(query: str) -> str:
    first = query.partition("\n")[0]
    return first.removeprefix("-- mode ") if first.startswith("-- mode ") else ""


def _connection() -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'; set enable_external_access = false")
    return connection


def _result(inputs: list[dict[str, Any]], queries: list[dict[str, Any]]) -> pa.Table:
    connection = _connection()
    for each in inputs:
        rows = pq.read_table(each["data_paths"] or each["schema_file"])
        span = each.get("offset_interval")
        assert (span is None) == (not each["data_paths"])
        if span is not None:
            assert rows.column("offset").to_pylist() == [*range(span["start"], span["end"] + 1)]
        connection.register(each["query_alias"], rows)
    for each in queries[:-1]:
        connection.execute(f'create view "{each["alias"]}" as {each["query"]}')
    found: pa.Table = connection.execute(queries[-1]["query"]).to_arrow_table()
    return found


def _spoilt(  # noqa: PLR0912 - a case for each mode
    mode: str, log: pa.Table, span: dict[str, int], path: Path
) -> tuple[pa.Table, dict[str, int]]:
    count = log.num_rows

    def put(name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
        return log.set_column(log.column_names.index(name), name, pa.array(values, kind))

    match mode:
        case "offsets":
            return put("offset", [*range(5, 5 + count)], pa.int64()), span
        case "interval":
            return log, {"start": 0, "end": 7}
        case "garbage":
            path.write_bytes(b"PAR1" + os.urandom(500) + b"PAR1")
        case "empty":
            path.write_bytes(b"")
        case "link":
            other = path.with_name("other")
            pq.write_table(log, other)
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "no-event-time":
            return log.drop_columns(["event_time"]), span
        case "text-time":
            return put("event_time", ["today"] * count, pa.string()), span
        case "no-offset":
            return log.drop_columns(["offset"]), span
        case "text-op":
            return put("op", ["0"] * count, pa.string()), span
        case "null-op":
            return put("op", [None] * count, pa.int32()), span
        case "strange-op":
            return put("op", [4] * count, pa.int32()), span
        case "huge-offset":
            return put("offset", [1 << 63] * count, pa.uint64()), span
        case "log":  # as engines of streams do: rows that were corrected on the way
            first = log.slice(0, 1)
            if not count:
                return log, span
            ops = [0, 1] + [0] * count
            whole = pa.concat_tables([first, first, log]).drop_columns(["offset", "op"])
            whole = whole.add_column(0, "op", pa.array(ops, pa.int32()))
            numbers = pa.array(range(count + 2), pa.int64())
            return whole.add_column(0, "offset", numbers), {"start": 0, "end": count + 1}
    return log, span


def _never(kind: str, context: Any) -> Iterator[bytes]:
    while context.is_active():
        yield _answer(kind, "Progress", {})
        time.sleep(0.2)


def _silent(kind: str, context: Any) -> Iterator[bytes]:
    while context.is_active():
        time.sleep(0.2)
    yield from ()


def _flood(kind: str, context: Any) -> Iterator[bytes]:
    answer = _answer(kind, "Progress", {})
    while context.is_active():
        yield answer


def _status(kind: str, context: Any) -> Iterator[bytes]:
    context.abort(grpc.StatusCode.DATA_LOSS, "lost\x1b[31m")
    yield from ()


_STREAMS: dict[str, Any] = {
    "never": _never,
    "silent": _silent,
    "flood": _flood,
    "status": _status,
    "nothing": lambda kind, context: iter(()),
    "bytes": lambda kind, context: iter([envelope(b"\xff" * 40)]),
    "envelope": lambda kind, context: iter([b"\x0a\x7f"]),
    "large": lambda kind, context: iter([envelope(bytes(17 << 20))]),
    "failed": lambda kind, context: iter(
        [_answer(kind, "InternalError", {"message": "out of luck\x1b[31m", "backtrace": "..."})]
    ),
}


def main(port: int = 0) -> None:
    """Serve until the standard input ends; at a port that is given until the process is killed."""
    server = grpc.server(
        futures.ThreadPoolExecutor(8),
        options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)],
    )
    server.add_generic_rpc_handlers((_Handlers(),))
    print(server.add_insecure_port(f"127.0.0.1:{port}"), flush=True)
    server.start()
    if port:
        server.wait_for_termination()
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
