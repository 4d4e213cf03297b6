"""Answers to questions over HTTP: rows, with a proof on request, and the check of such a proof.

The routes, documents and proofs are those of the reference implementation.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response

from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.parameters import block_of, count_of, offset_of, switch_of, time_of
from odfbuild.serve.query.answers import Answers, MissingBlockError
from odfbuild.serve.query.commitment import (
    BadSignatureError,
    check_proof,
    commitment_to,
    hash_of,
    proof_of,
)
from odfbuild.serve.query.question import (
    PinnedDataset,
    QueryQuestion,
    RowView,
    parse_counts,
    read_document,
    read_question,
)
from odfbuild.serve.query.workers import AnswerText
from odfbuild.serve.served import Served
from odfbuild.serve.simple_routes import body_of
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.keys import KeyFolder, PrivateKey

if TYPE_CHECKING:
    from starlette.requests import Request

    from odfbuild.odf.chain.state import ChainState

T = TypeVar("T")
_LOOK = 0.5  # seconds between checks whether a client is still connected
_Part = Callable[[Dataset, "ChainState"], Any]
"""Returns one part of the metadata; None if the dataset has no such part."""


class QueryRoutes:
    """Questions about the datasets of one server."""

    def __init__(self, served: Served, answers: Answers) -> None:
        self._served = served
        self._answers = answers

    @cached_property
    def _key(self) -> PrivateKey:
        """The key that signs answers, created for the first one, outside of the workspace."""
        folder = KeyFolder(self._served.settings.tokens.with_name("answers"))
        kept = [each.dataset for each in folder.kept()]
        return folder.load(kept[0] if kept else folder.new_working_key())

    async def query(self, request: "Request") -> Response:
        """Answer a question: the body of a POST, or the parameters of a GET."""
        caller = self._caller(request)
        document = await self._document(request) if request.method == "POST" else _given(request)
        question = self._question(document)
        pinned, answer = await _while_connected(request, self._answers.answer(question, caller))
        self._served.access.check_token(caller)
        found: dict[str, Any] = {}
        if "Input" in question.include:
            found["input"] = pinned.document()
        if answer.hash is not None:
            commitment = commitment_to(found["input"], answer.hash)
            key = await run_sync(lambda: self._key)
            found |= {
                "subQueries": [],
                "commitment": commitment,
                "proof": proof_of(commitment, key),
            }
        return _with_output(answer, found)

    async def verify(self, request: "Request") -> Response:
        """Check a proof, and that the same blocks still give the same answer."""
        caller = self._caller(request)
        document = await self._document(request)
        parts = {
            name: document.get(name, default)
            for name, default in (("input", {}), ("subQueries", []), ("commitment", {}))
        }
        commitment, proof = parts["commitment"], document.get("proof")
        if not isinstance(commitment, Mapping) or not isinstance(proof, Mapping):
            raise AccessError(400, "input, subQueries, commitment and proof are required.")
        try:
            if (objection := _objection(parts, commitment, proof)) is not None:
                return objection
        except ValueError as error:
            raise AccessError(400, f"{error}.") from None
        if parts["subQueries"] != []:
            raise AccessError(400, "Answers made of other answers cannot be verified.")
        question = self._question(parts["input"])
        try:
            answering = self._answers.answer(question, caller, at_head=False)
            _, answer = await _while_connected(request, answering)
            self._served.access.check_token(caller)
        except MissingBlockError as error:
            return _refused("VerificationFailed::DatasetBlockNotFound", error.text)
        except AccessError as error:
            if error.status != 404:
                raise
            return _refused("VerificationFailed::DatasetNotFound", error.text)
        if answer.hash != commitment.get("outputHash"):
            return _refused("VerificationFailed::OutputMismatch", "the answer here is another one")
        return JSONResponse({"ok": True})

    async def tail(self, request: "Request", alias: DatasetAlias, dataset: Dataset) -> Response:
        """Return the last rows of a dataset at its head or the block `block`.

        They are those that were recorded; the current ones with `current`; with `asOf` those in
        force at that event time.
        """
        given = _given(request)
        for name in ("block", "current", "asOf"):
            given.pop(name, None)
        until = time_of(request, "asOf")
        view = RowView(is_current=switch_of(request, "current") or until is not None, until=until)
        question = self._question({"query": "", **given})
        read = await self._pinned(request, alias, dataset)
        last = self._answers.last_rows(question, read, view)
        answer = await _while_connected(request, last)
        return Response(answer.text, media_type="application/json")

    async def changes(self, request: "Request", alias: DatasetAlias, dataset: Dataset) -> Response:
        """Return the rows that the block `since` and the head, or `block`, do not both have."""
        since = await self._served.place.reading(block_of, request, "since", dataset)
        if since is None:
            raise AccessError(400, "since is the hash of a block.")
        limit = count_of(request, "limit", 100, self._served.settings.limits.rows)
        read = await self._pinned(request, alias, dataset)
        answer = await _while_connected(request, self._answers.changes(read, since, limit))
        return Response(answer.text, media_type="application/json")

    async def origins(
        self, request: "Request", alias: DatasetAlias, dataset: Dataset, caller: Caller
    ) -> Response:
        """Return what the row at an offset was made of."""
        self._answers.check_reader(caller)
        offset = offset_of(request)
        read = await self._pinned(request, alias, dataset)
        found = self._answers.origins(read, offset, caller)
        answer = await _while_connected(request, found)
        return Response(answer.text, media_type="application/json")

    async def metadata(self, request: "Request", dataset: Dataset) -> Response:
        """Return the metadata in force of a dataset; `include` names its parts."""
        wanted = request.query_params.get("include", "Seed").split(",")
        unknown = [each for each in wanted if each not in _PARTS]
        if unknown:
            raise AccessError(400, f"include is a list of {', '.join(_PARTS)}.")
        state = await self._served.place.reading(dataset.state)
        if state is None:
            raise AccessError(404, "There is no such dataset.")
        found = await self._served.place.reading(_parts, dataset, state, wanted)
        return JSONResponse({"output": found})

    async def _pinned(
        self, request: "Request", alias: DatasetAlias, dataset: Dataset
    ) -> PinnedDataset:
        """Return a dataset at the block that the parameter `block` names, or at its head."""
        reading = self._served.place.reading
        block = await reading(block_of, request, "block", dataset) or await reading(dataset.head)
        if block is None:
            raise AccessError(404, "There is no such dataset.")
        return PinnedDataset(str(alias), dataset.id, block)

    def _caller(self, request: "Request") -> Caller:
        caller = self._served.access.caller(request.headers)
        request.state.caller = caller.name
        self._answers.check_reader(caller)
        return caller

    async def _document(self, request: "Request") -> dict[str, Any]:
        limits, data = self._served.settings.limits, bytearray()
        async for piece in body_of(request, limits.piece):
            data += piece
            if len(data) > limits.question:
                raise AccessError(413, f"A question has at most {limits.question:,} bytes.")
        try:
            found = read_document(bytes(data))
        except ValueError as error:
            raise AccessError(400, f"The body is not JSON: {error}.") from None
        if not isinstance(found, dict):
            raise AccessError(400, "The body is not a JSON object.")
        return found

    def _question(self, document: Any) -> QueryQuestion:
        try:
            return read_question(document, self._served.settings.limits.rows)
        except ValueError as error:
            raise AccessError(400, f"{error}.") from None


def _with_output(answer: AnswerText, more: Mapping[str, Any]) -> Response:
    """Return the document of an answer; its text is included unchanged."""
    members = [
        f'"{name}":'.encode() + bytes(JSONResponse(part).body) for name, part in more.items()
    ]
    members.insert("input" in more, b'"output":' + answer.text)
    return Response(b"{" + b",".join(members) + b"}", media_type="application/json")


async def _while_connected(request: "Request", work: Coroutine[Any, Any, T]) -> T:
    """Await work while the client of a request is connected; cancel it when it disconnects."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK)
            if not task.done() and await request.is_disconnected():
                raise AccessError(400, "The client has disconnected.")
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


def _given(request: "Request") -> dict[str, Any]:
    """Return the question in the parameters of a URL."""
    given = dict(request.query_params)
    form = parse_counts(given)
    if "include" in given:
        form["include"] = given["include"].split(",")
    return form


def _objection(
    parts: Mapping[str, Any], commitment: Mapping[str, Any], proof: Mapping[str, Any]
) -> Response | None:
    """Return the refusal of a proof or of its hashes, that of the answer excepted."""
    for name, text in (("input", "the input"), ("subQueries", "the sub-queries")):
        if hash_of(parts[name]) != commitment.get(f"{name}Hash"):
            kind = f"InvalidRequest::{name[0].upper()}{name[1:]}Hash"
            return _refused(kind, f"the commitment is to another hash of {text}")
    try:
        check_proof(commitment, proof)
    except BadSignatureError as error:
        return _refused("InvalidRequest::BadSignature", str(error))
    return None


def _refused(kind: str, message: str) -> Response:
    return JSONResponse({"ok": False, "error": {"kind": kind, "message": message}})


def _parts(dataset: Dataset, state: "ChainState", wanted: Iterable[str]) -> dict[str, Any]:
    found = {_PARTS[each][0]: _PARTS[each][1](dataset, state) for each in wanted}
    return {name: part for name, part in found.items() if part is not None}


def _event(name: str) -> "_Part":
    def found(_: Dataset, state: "ChainState") -> Any:
        event = getattr(state, name)
        return None if event is None else to_mapping(event)

    return found


def _schema(_: Dataset, state: "ChainState") -> Any:
    schema = schema_in_force(state)
    return None if schema is None else to_mapping(schema)


def _seed(_: Dataset, state: "ChainState") -> Any:
    return {"datasetId": str(state.dataset), "datasetKind": state.kind.value}


def _refs(dataset: Dataset, _: "ChainState") -> Any:
    heads = dataset.stores.heads
    known = ((name, heads.read(name)) for name in heads.names())
    return [{"name": name, "blockHash": str(hash)} for name, hash in known if hash is not None]


_PARTS: dict[str, tuple[str, "_Part"]] = {
    "Seed": ("seed", _seed),
    "Info": ("info", _event("info")),
    "License": ("license", _event("license")),
    "Schema": ("schema", _schema),
    "Refs": ("refs", _refs),
    "Vocab": ("vocab", _event("vocab")),
    "Attachments": ("attachments", _event("attachments")),
}
