"""The live page, and the documents that only this page reads.

    /                        the page; /.odfbuild/live.css and /.odfbuild/live.js belong to it
    /system/status           datasets with their lag, and whether they are locked
    /system/runs[/<id>]      records of runs, for tokens that may read all datasets
    [/<account>]/<name>/history   blocks, newest first

The page contains no data: it requests them with the token of its reader.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.staleness import lag_of
from odfbuild.repositories.catalogue import index_document
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.listing import DamagedDataset
from odfbuild.serve.parameters import block_of, count_of
from odfbuild.serve.served import Served
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.refs import ancestry
from odfbuild.state.runs import RunSummary, UnknownRunError, find_run, list_runs, read_events
from odfbuild.texts.page import joined_scripts, page_file

if TYPE_CHECKING:
    from starlette.requests import Request

_SCRIPTS = (
    "client", "datasets", "graph", "dataset", "rows", "changes", "row", "question", "runs", "start",
)  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_BLOCKS = 200  # of one answer at most
_RUNS = 200


class LiveRoutes:
    """The live page of one server, and its documents."""

    def __init__(self, served: Served) -> None:
        self._served = served
        style = page_file("base.css") + page_file("live.css", __package__)
        own = (page_file(f"{name}.js", __package__) for name in _SCRIPTS)
        script = joined_scripts(
            (page_file("elements.js"), page_file("layout.js"), *own, page_file("frame.js"))
        )
        self._files = {
            "/": _file(page_file("page.html", __package__), "text/html"),
            "/.odfbuild/live.css": _file(style, "text/css"),
            "/.odfbuild/live.js": _file(script, "text/javascript"),
        }

    async def file(self, request: "Request") -> Response:
        """Return the page, its style or its script."""
        content, media_type, tag = self._files[request.url.path]
        headers = {**_HEADERS, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    async def status(self, request: "Request") -> Response:
        """Return the datasets that the caller may read, as they are now.

        The tag depends on the answer alone; a request with it gets 304 while nothing has changed.
        """
        caller = self._caller(request)
        self._served.access.check_known(caller)
        found = JSONResponse(await self._served.place.reading(self._status, caller))
        tag = f'"{sha256(bytes(found.body)).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        found.headers["etag"] = tag
        return found

    async def history(self, request: "Request", dataset: Dataset) -> Response:
        """Return blocks, newest first: from the head, or from the block `from`."""
        limit = count_of(request, "limit", 50, _BLOCKS)
        size = self._served.settings.limits.page
        blocks = await self._served.place.reading(_blocks, request, dataset, limit, size)
        return JSONResponse(blocks)

    async def runs(self, request: "Request") -> Response:
        """Return the recorded runs, newest first."""
        self._check_reads_all(self._caller(request))
        limit = count_of(request, "limit", 50, _RUNS)
        await self._served.place.reading(self._served.workspace.bring_runs)
        found = await run_sync(list_runs, self._served.workspace.root, limit)
        return JSONResponse(
            {"runs": [_summary(each) for each in found.runs], "damaged": list(found.damaged)}
        )

    async def run(self, request: "Request") -> Response:
        """Return one run, and its events after the first `after` ones, of limited size."""
        self._check_reads_all(self._caller(request))
        after = count_of(request, "after", 0, None)
        await self._served.place.reading(self._served.workspace.bring_runs)
        root = self._served.workspace.root
        try:
            summary = await run_sync(find_run, root, request.path_params["id"])
            read = read_events(root, summary.id)
            size = self._served.settings.limits.page
            events, more = await run_sync(_page, islice(read, after, None), size)
        except UnknownRunError:
            raise AccessError(404, "There is no such run.") from None
        except OdfBuildError as error:
            raise AccessError(500, f"The run cannot be read: {error.code}.") from None
        return JSONResponse({"run": _summary(summary), "events": events, "more": more})

    def _caller(self, request: "Request") -> Caller:
        caller = self._served.access.caller(request.headers)
        request.state.caller = caller.name
        return caller

    def _check_reads_all(self, caller: Caller) -> None:
        """Raise AccessError unless a token may read all datasets, of any name.

        A run also names datasets that are damaged, were renamed or deleted, or were never made.
        """
        if caller.token is None:
            raise AccessError(401, "A token is needed.")
        if not caller.token.reads_all(is_multi_tenant=self._served.settings.is_multi_tenant):
            raise AccessError(403, "Runs are shown only to tokens that may read all datasets.")

    def _status(self, caller: Caller) -> dict[str, Any]:
        served = self._served
        current = served.states()
        listing = served.index.listing(current, lambda alias, id: served.shows(caller, alias, id))
        damaged = {
            alias: each
            for alias, each in {**served.damage(current), **listing.damaged}.items()
            if served.is_served(alias) and served.access.sees(caller, alias, each.id)
        }
        whole = {each.alias for each in listing.entries}
        states = {state.dataset: state for alias, state in current.items() if alias not in damaged}
        known = (*(each.id for each in listing.entries), *(each.id for each in damaged.values()))
        ids = {each for each in known if each is not None}
        locks = served.workspace.locks()
        found = []
        for form in index_document(listing.entries)["datasets"]:
            id = DatasetId.parse(form["id"])
            more = {"locked": id in locks, "damage": None}
            found.append(
                (DatasetAlias.parse(form["alias"]), {**form, **_now(id, states, ids), **more})
            )
        for alias, each in damaged.items():
            if alias not in whole:
                found.append((alias, {**_unknown(alias, each), "locked": each.id in locks}))
        return {"datasets": [form for _, form in sorted(found, key=lambda each: each[0])]}


def _unknown(alias: DatasetAlias, damaged: DamagedDataset) -> dict[str, Any]:
    """Return a dataset that is damaged: its name, its id if that is known, and the code why."""
    names = ("kind", "head", "sequenceNumber", "records", "size", "time", "watermark", "behind")
    id = None if damaged.id is None else str(damaged.id)
    return {
        "id": id,
        "alias": str(alias),
        **dict.fromkeys(names),
        "inputs": [],
        "damage": damaged.code,
    }


def _file(text: str, media_type: str) -> tuple[bytes, str, str]:
    content = text.encode()
    return content, media_type, f'"{sha256(content).hexdigest()}"'


def _blocks(request: "Request", dataset: Dataset, limit: int, size: int) -> dict[str, Any]:
    """Return at most `limit` blocks of `size` bytes together, or one; and where to go on."""
    start = block_of(request, "from", dataset) or dataset.head()
    if start is None:
        raise AccessError(404, "There is no such dataset.")
    chain = (_block(*each) for each in islice(ancestry(dataset, start), limit))
    found, _ = _page(chain, size)
    before = dataset.block(Multihash.parse(found[-1]["hash"])).prev_block_hash if found else None
    return {"blocks": found, "next": None if before is None else str(before)}


def _page(
    forms: Iterable[Mapping[str, Any]], size: int
) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """Return the first values, of at most `size` bytes as JSON, or one; and whether more follow."""
    found: list[Mapping[str, Any]] = []
    for each in forms:
        size -= len(json.dumps(each))
        if found and size < 0:
            return found, True
        found.append(each)
    return found, False


def _block(hash: Multihash, block: MetadataBlock) -> dict[str, Any]:
    return {
        "hash": str(hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.system_time),
        "event": to_mapping(block.event),
    }


def _now(
    id: DatasetId, states: Mapping[DatasetId, ChainState], shown: Collection[DatasetId]
) -> dict[str, Any]:
    """Return watermark, inputs and lag; inputs that are not shown to the caller are left out."""
    state = states.get(id)
    if state is None:
        return {"watermark": None, "inputs": [], "behind": None}
    lag = lag_of(state, states)
    inputs = [] if lag is None else [each.dataset for each in lag.inputs]
    sees_all = all(each in shown for each in inputs)
    return {
        "watermark": None if state.watermark is None else str(state.watermark),
        "inputs": [str(each) for each in inputs if each in shown],
        "behind": lag.records if lag is not None and sees_all else None,
    }


def _summary(run: RunSummary) -> dict[str, Any]:
    return {each.name: _plain(getattr(run, each.name)) for each in fields(run)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, int) else str(value)
