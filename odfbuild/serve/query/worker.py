"""A process that answers one question of a client within limits, and ends.

A question may take any time and memory, so it is not answered in the server itself.  Server and
process exchange frames of JSON, after an empty one of the process when it is ready:

    server    {"query": text, "is_repeatable": bool}        or    {"rows": name, ...}
    process   {"tables": [name, ...]}
    server    {"workspace": path, "store": {"place": url, "cache": path} of one in a store,
               "tables": {name: [id, block]}, "skip": n, "limit": n,
               ...}
    process   {"hash": text}, and the output        or    {"status": n, "text": text, ...}

    server    {"since": hash, "id": id, "block": hash, "workspace": path, "limit": n, "bytes": n}
    process   {}, and the rows that differ between the two blocks

    server    {"offset": n, "name": name, "id": id, "block": hash, "workspace": path, "bytes": n,
               "datasets": n, "refused": text or null}, which says why no step is run again
    process   {"inputs": [id, ...]}
    server    {"workspace": path, "visible": {id: [name, head]}}, of those that the caller may read
    process   {}, and the document of `serve.query.origins`

The output is hashed if the server requests it with `"is_hashed": true`.  It is JSON, or with these
values of `data_format`: COLUMNS, the schema alone, for which no row is read; FLIGHT_DATA, messages
with rows, and an empty one at the end.  The process ends at the end of its input, and so with the
server.
"""

import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import (
    Diagnostic,
    EngineFailedError,
    InvalidQueryError,
    OdfBuildError,
    UsageRefusedError,
)
from odfbuild.host.frames import framed, read_frame
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.serve.query.commitment import hash_of
from odfbuild.serve.query.message_paths import without_paths

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.data.views import DatasetView
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.sql.text.steps import QueryStep
    from odfbuild.state.chain.dataset import Dataset
    from odfbuild.state.workspace import Workspace

COLUMNS: Final = "Columns"
FLIGHT_DATA: Final = "FlightData"

TIME_LIMIT, MEMORY_LIMIT, SIZE_LIMIT = "time-limit", "memory-limit", "size-limit"
"""Codes of refusals of answers that exceed a limit."""

_FEWER: Final = "request fewer rows or columns: with LIMIT, a condition, or groups"
_OF_CLIENTS = (InvalidQueryError, UsageRefusedError, EngineFailedError)


class QuestionRefusedError(Exception):
    """A question is refused with a status of HTTP, a code, and a remedy if there is one."""

    def __init__(
        self, status: int, message: str, code: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message)
        self.form = {"status": status, "text": message, "code": code, "fix": fix}


def main() -> None:
    """Answer one question."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the server ends the process
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))  # of what a sort spills
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    sent: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(sent,), daemon=True).start()
    load()
    answers.write(framed(b""))
    answers.flush()

    def say(message: Mapping[str, Any]) -> None:
        answers.write(framed(_json(message)))
        answers.flush()

    for message in _replies(Conversation(sent, say)):
        answers.write(framed(message))
    answers.flush()
    sys.stderr.flush()
    os._exit(0)


def load() -> None:
    """Load all libraries that a question needs, before it arrives."""
    import datafusion  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from odfbuild.executors.data.checks import verified_files  # noqa: F401
    from odfbuild.executors.engine.datafusion import query  # noqa: F401
    from odfbuild.odf.manifest import writer  # noqa: F401
    from odfbuild.odf.schema import arrow, arrow_bytes  # noqa: F401
    from odfbuild.serve.query import flight_data  # noqa: F401
    from odfbuild.sql.text.steps import DATAFUSION, QueryStep
    from odfbuild.state import workspace  # noqa: F401
    from odfbuild.texts import json_values  # noqa: F401

    _check(_step(QueryStep(None, "select 1", engine=DATAFUSION)), {}, is_repeatable=True)


def _listen(sent: "queue.Queue[Any]") -> None:
    """Read messages, and end the process at the end of input."""
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        sent.put(parse_json(frame))
    os._exit(0)


def _json(message: Any) -> bytes:
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _replies(server: "Conversation") -> Iterator[bytes]:
    """Yield the last messages of a conversation: an answer, or a refusal."""
    from odfbuild.executors.engine.analysis import PlacedQueryError

    try:
        yield from _answer(server)
    except QuestionRefusedError as error:
        yield _json(error.form)
    except PlacedQueryError as error:
        yield _json(_placed_refusal(error, server))
    except _OF_CLIENTS as error:
        yield _json(_refusal(error.diagnostics(), server.folder))
    except OdfBuildError as error:
        sys.stderr.write(f"{error.code}: {_text_of(error.diagnostics())}\n")
        message = f"The dataset cannot be read: {error.code}."
        yield _json({"status": 500, "text": message, "code": error.code})
    except MemoryError:
        message = "The answer needs more memory than a question may use."
        yield _json({"status": 400, "text": message, "code": MEMORY_LIMIT})
    except Exception as error:  # the client gets a reply; the error itself is logged
        traceback.print_exc()
        message = f"The server failed: {type(error).__name__}."
        yield _json({"status": 500, "text": message})


def _refusal(found: Sequence[Diagnostic], folder: str | None) -> Mapping[str, Any]:
    """Return findings as a message, without paths."""
    text, fix = without_paths(_text_of(found), folder), without_paths(found[0].fix, folder)
    return {"status": 400, "text": text, "code": found[0].code, "fix": fix}


def _placed_refusal(error: "PlacedQueryError", server: "Conversation") -> Mapping[str, Any]:
    """Return what is wrong with a name in the text: where it is, and which one may be meant."""
    from odfbuild.sql.text.shape import TextPlace

    at, text = error.at, error.what
    if at is not None and at.start is not None:
        place = TextPlace.of(server.text, at.start, at.length)
        text = f"{text} (line {place.line}, column {place.column})"
    message = without_paths(f"{text}: {error.why}", server.folder)
    return {"status": 400, "text": message, "code": error.code, "fix": error.fix}


class Conversation:
    """The messages of the server, and a function to send replies."""

    def __init__(self, sent: "queue.Queue[Any]", say: Callable[[Mapping[str, Any]], None]) -> None:
        self._sent = sent
        self._say = say
        self.folder: str | None = None
        self.text = ""

    def first(self) -> Mapping[str, Any]:
        """Wait for the first message."""
        message: Mapping[str, Any] = self._sent.get()
        self.folder = message.get("workspace")
        return message

    def ask(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message and wait for the next one."""
        self._say(message)
        return self.first()


def _answer(server: Conversation) -> Sequence[bytes]:
    asked = server.first()
    if "rows" in asked:
        return _last_rows(asked)
    if "since" in asked:
        return _changes(asked)
    if "offset" in asked:
        return _origins(asked, server)
    from odfbuild.sql.text.steps import DATAFUSION, QueryStep

    step = _step(QueryStep(None, asked["query"], engine=DATAFUSION))
    server.text = step.text
    more = server.ask({"tables": _tables(step)})
    _check(step, more["tables"], is_repeatable=asked["is_repeatable"])
    return _output(step, more, is_repeatable=asked["is_repeatable"])


def _step(asked: "QueryStep") -> "QueryStep":
    """Return a step that reads datasets by their plain names; refuse parameters."""
    from odfbuild.serve.query.qualified_names import placeholder, unqualified
    from odfbuild.sql.text.statement import SqlTextError

    try:
        statement = asked.statement
        if (found := placeholder(statement)) is not None:
            place = f"line {found.line}, column {found.column}"
            raise QuestionRefusedError(
                400,
                f"Parameters such as {found.text} ({place}) are not supported.",
                "no-parameters",
                "write the values into the text of the query",
            )
        return replace(asked, text=unqualified(statement))
    except SqlTextError as error:
        place = f"line {error.place.line}, column {error.place.column}"
        raise QuestionRefusedError(400, f"{error} ({place})", error.code) from None


def _tables(step: "QueryStep") -> list[str]:
    names = list(dict.fromkeys(each.text for each in step.statement.tables))
    if "" in names:
        raise QuestionRefusedError(400, "A question reads datasets, not results of functions.")
    return names


def _check(step: "QueryStep", tables: Mapping[str, Any], *, is_repeatable: bool) -> None:
    from odfbuild.sql.analysis.facts import diagnostics, examine
    from odfbuild.sql.findings import Reason

    reasons = [Reason.SYNTAX, Reason.UNKNOWN_INPUT, Reason.ENVIRONMENT, Reason.FOREIGN_CODE]
    reasons += [Reason.NOT_DETERMINISTIC] if is_repeatable else []
    found = diagnostics(examine((step,), list(tables), ()), tuple(reasons))
    if found:
        raise QuestionRefusedError(400, _text_of(found), found[0].code, found[0].fix)


def _output(step: "QueryStep", more: Mapping[str, Any], *, is_repeatable: bool) -> Sequence[bytes]:
    from odfbuild.executors.engine.datafusion.query import answer
    from odfbuild.executors.engine.querier import QueryRequest

    workspace = _workspace(more)
    has_rows = more["data_format"] != COLUMNS
    views = {
        name: _view(workspace, name, DatasetId.parse(id), Multihash.parse(block), has_rows)
        for name, (id, block) in more["tables"].items()
    }
    with workspace.staging() as staging:
        request = QueryRequest(
            text=step.text,
            views=views,
            staging=staging,
            limit=more["skip"] + more["limit"],
            engine=step.engine,
            clock=not is_repeatable,
        )
        return _written(answer(request), more)


def _workspace(given: Mapping[str, Any]) -> "Workspace":
    """Return the workspace that the server names: a folder, or what it has of one in a store."""
    from odfbuild.state.workspace import Workspace

    root = Path(given["workspace"])
    if (store := given.get("store")) is None:
        return Workspace(root)
    from odfbuild.state.remote.view.workspace import ReadyWorkspace

    return ReadyWorkspace(store["place"], root, Path(store["cache"]))


def _view(
    workspace: Any, name: str, id: DatasetId, block: Multihash, has_rows: bool = True
) -> "DatasetView":
    from odfbuild.executors.data.checks.verified_files import recorded_columns, recorded_rows

    dataset = workspace.dataset(id)
    if has_rows:
        view = recorded_rows(dataset, block, f"the dataset '{name}'")
    else:
        view = recorded_columns(dataset, block)
    if view is None:
        raise QuestionRefusedError(400, f"{name} has no rows at that block, and so no columns.")
    return view


def _last_rows(asked: Mapping[str, Any]) -> Sequence[bytes]:
    """Return the last rows of a dataset: as recorded, or those in force."""
    from odfbuild.executors.data.frames import Frame

    workspace = _workspace(asked)
    id, block = DatasetId.parse(asked["id"]), Multihash.parse(asked["block"])
    view = _view(workspace, asked["rows"], id, block)
    if asked["is_current"]:
        view = _current(view, workspace.dataset(id), block, asked["until"])
    rows = view.last(asked["skip"] + asked["limit"])
    kept = rows.slice(0, max(0, rows.num_rows - asked["skip"]))
    return _written(Frame.of(kept), {**asked, "skip": 0})


def _current(
    view: "DatasetView", dataset: "Dataset", block: Multihash, until: str | None
) -> "DatasetView":
    """Return the rows that nothing took back; of each key the version in force at a time."""
    from odfbuild.odf.merge_strategies import key_of
    from odfbuild.odf.timestamp import Timestamp

    if until is None:
        return replace(view, log=False)
    state = dataset.state(block)
    keys = {key_of(each.merge) for each in (() if state is None else state.sources)} or {()}
    if len(keys) > 1:
        raise QuestionRefusedError(
            400, "The sources of the dataset have different primary keys, so versions have none."
        )
    (key,) = keys
    return replace(view, log=False, until=Timestamp.parse(until), key=key)


def _changes(asked: Mapping[str, Any]) -> Sequence[bytes]:
    """Return how the rows of a dataset at a block differ from those at another one."""
    from odfbuild.executors.verify.row_difference import row_difference

    dataset = _workspace(asked).dataset(DatasetId.parse(asked["id"]))
    since, block = Multihash.parse(asked["since"]), Multihash.parse(asked["block"])
    found = row_difference(dataset, since, block, asked["limit"])
    counts = {"added": found.added, "removed": found.removed, "changed": found.changed}
    names = list(found.columns)
    rows = [
        {"times": each.times, "before": _row(names, each.before), "after": _row(names, each.after)}
        for each in found.shown
    ]
    return [
        _json({}),
        _limited({"key": found.key, "columns": names, **counts, "rows": rows}, asked),
    ]


def _row(names: Sequence[str], row: Mapping[str, Any] | None) -> list[Any] | None:
    from odfbuild.texts.json_values import plain

    return None if row is None else [plain(row[name]) for name in names]


def _limited(answer: Any, asked: Mapping[str, Any]) -> bytes:
    """Return a document; raise QuestionRefusedError if it is too large."""
    text = _json(answer)
    if len(text) > asked["bytes"]:
        raise QuestionRefusedError(
            400, f"The answer has more than {asked['bytes']:,} bytes.", SIZE_LIMIT
        )
    return text


def _origins(asked: Mapping[str, Any], server: Conversation) -> Sequence[bytes]:
    """Return what a record was made of, after the server said which datasets may be named."""
    from odfbuild.serve.query.origins import NoSuchRecordError, origins

    def visible(ids: Collection[str]) -> Mapping[str, tuple[str, str | None]]:
        found: Mapping[str, tuple[str, str | None]] = server.ask({"inputs": list(ids)})["visible"]
        return found

    try:
        found = origins(_workspace(asked), asked, visible)
    except NoSuchRecordError:
        raise QuestionRefusedError(404, "The dataset has no row at this offset.") from None
    return [_json({}), _limited(found, asked)]


def _written(frame: "Frame", more: Mapping[str, Any]) -> Sequence[bytes]:
    """Return the messages of an answer, in the requested form."""
    from odfbuild.serve.query.flight_data import flight_data, schema_bytes

    if more["data_format"] == COLUMNS:
        return [_json({}), schema_bytes(frame.schema)]
    if more["data_format"] == FLIGHT_DATA:
        return [_json({}), *flight_data(_table(frame, more)), b""]
    output = _document(frame, more)
    hash = hash_of(output) if more.get("is_hashed") else None
    return [_json({"hash": hash}), _json(output)]


def _table(frame: "Frame", more: Mapping[str, Any]) -> "pa.Table":
    """Return the rows as a table; raises QuestionRefusedError if they exceed a limit."""
    import pyarrow as pa

    if frame.rows > more["rows"]:
        raise QuestionRefusedError(
            400, f"The answer has more than {more['rows']:,} rows.", SIZE_LIMIT, _FEWER
        )
    table = pa.Table.from_batches(list(frame.batches()), frame.schema)
    if table.nbytes > more["bytes"]:
        raise QuestionRefusedError(
            400, f"The answer has more than {more['bytes']:,} bytes.", SIZE_LIMIT, _FEWER
        )
    return table


def _document(frame: "Frame", more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return rows in the requested form, with their columns if requested."""
    from odfbuild.odf.manifest.writer import to_mapping
    from odfbuild.odf.schema.arrow import from_arrow

    names, rows = frame.schema.names, _Rows(more["bytes"])
    left = more["skip"]
    for batch in frame.batches():
        kept = batch.slice(min(left, batch.num_rows))
        left -= batch.num_rows - kept.num_rows
        rows.take(kept, names if more["data_format"] == "JsonAoS" else ())
    found: dict[str, Any] = {"data": _data(names, rows.found, more["data_format"])}
    found["dataFormat"] = more["data_format"]
    if more["schema_format"] is not None:
        found["schema"] = to_mapping(from_arrow(frame.schema))
        found["schemaFormat"] = more["schema_format"]
    return found


class _Rows:
    """Rows as JSON values; their text has a limited size."""

    def __init__(self, most: int) -> None:
        self.found: list[list[Any]] = []
        self._most = most
        self._size = 0

    def take(self, batch: Any, names: Sequence[str]) -> None:
        """Add the rows of a batch; `names` are repeated in each of them."""
        repeated = batch.num_rows * len(_json(names)) if names else 0
        self._check(repeated)
        pairs = zip(batch.schema.names, batch.columns, strict=True)
        columns = [_values(name, column) for name, column in pairs]
        self._size += repeated + len(_json(columns))
        self._check(0)
        self.found += map(list, zip(*columns, strict=True))

    def _check(self, more: int) -> None:
        if self._size + more > self._most:
            raise QuestionRefusedError(
                400,
                f"The answer has more than {self._most:,} bytes: request fewer rows.",
                SIZE_LIMIT,
            )


def _values(name: str, column: Any) -> list[Any]:
    """Return the values of a column as JSON has them."""
    import pyarrow as pa

    from odfbuild.executors.data.python_values import python_values
    from odfbuild.texts.json_values import plain

    try:
        return list(map(plain, python_values(column)))
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise QuestionRefusedError(
            400, f"The column {name!r} has values that cannot be written as JSON: {error}."
        ) from None


def _data(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> Any:
    match form:
        case "JsonAoS":
            return [dict(zip(names, row, strict=True)) for row in rows]
        case "JsonSoA":
            return {name: [row[at] for row in rows] for at, name in enumerate(names)}
        case _:
            return rows


def _text_of(found: Sequence[Diagnostic]) -> str:
    return "; ".join(f"{each.what}: {each.why}" for each in found)


if __name__ == "__main__":
    main()
