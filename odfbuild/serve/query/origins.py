"""Origins of one record: its values, its block, and the rows of other datasets it was made of.

A step is run again only if the caller may read all that it read, as its query may be anybody's; and
only datasets that the server names can be read for that, up to the heads that it gives.  Steps of
DataFusion are run again here; those of other engines are not, so of their records only the offsets
that a step read are known.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.data.checks.verified_files import LostDataError
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.provenance.chain import (
    StepInput,
    WrittenBlock,
    intervals,
    written_by,
)
from odfbuild.executors.engine.provenance.derive import InexactError
from odfbuild.executors.verify.explanation import (
    Explained,
    RowExplainer,
    RowKey,
    RowOrigins,
)
from odfbuild.executors.verify.history import PinnedHistories
from odfbuild.odf.events import (
    AddPushSource,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    OffsetInterval,
    SetPollingSource,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.serve.query.message_paths import without_paths
from odfbuild.sql.text.steps import DATAFUSION, steps_of
from odfbuild.state.workspace import Workspace
from odfbuild.texts.json_values import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.engine.protocol import Inputs, TransformWork
    from odfbuild.executors.ingest.source_lines import LineSearch

FOLLOWED: Final = 10  # rows of each input that are returned
_SPANS: Final = 100

_HIDDEN: Final = "its step reads a dataset that you may not read, so it is not run again"
_MANY: Final = "its step reads more datasets than a question may, so it is not run again"

Visible = Callable[[Collection[str]], Mapping[str, tuple[str, str | None]]]
"""Asks the server which datasets the caller may read: their names and heads, by id."""


class NoSuchRecordError(Exception):
    """The dataset has no record at an offset."""


def origins(workspace: Workspace, asked: Mapping[str, Any], visible: Visible) -> Mapping[str, Any]:
    """Return what is known of a record, as a document of the live page.

    Raises NoSuchRecordError.
    """
    past = PinnedHistories(workspace)
    id, block, offset = DatasetId.parse(asked["id"]), asked["block"], int(asked["offset"])
    past.admit(id, Multihash.parse(block))
    history = past.history(id)
    written = None if history is None else written_by(history.blocks, offset)
    if written is None:
        raise NoSuchRecordError
    reads = () if written.step is None else written.step.inputs
    read = {each.dataset for each in reads} - {id}
    is_many = len(read) > asked["datasets"]
    names = _admitted(past, () if is_many else read, visible) | {id: asked["name"]}
    with ExitStack() as closing:
        files = _files(workspace, asked, closing)
        explainer = RowExplainer(workspace, past, _InProcess, closing, files=files)
        found, damage = _explained(
            explainer,
            RowKey(id, written.block, offset),
            written,
            asked["refused"] or (_MANY if is_many else _refusal(reads, names, past)),
        )
        return {
            "offset": offset,
            "row": _pairs(found.row),
            "damage": damage,
            "at": block,
            "block": _block(written),
            "source": None if written.step is not None else _source(written),
            "lines": None if found.lines is None else asdict(found.lines),
            "merged": found.merged,
            "query": _query(written),
            "columns": _columns(found),
            **_reason(found, workspace),
            "inputs": [
                _input(each, names[each.dataset], found, explainer, past)
                for each in reads
                if each.dataset in names
            ],
            "hidden": sum(each.dataset not in names for each in reads),
            "takes_back": None if found.takes_back is None else found.takes_back.offset,
        }


def _files(
    workspace: Workspace, asked: Mapping[str, Any], closing: ExitStack
) -> "LineSearch | None":
    """Return what searches lines in the files of the project; None if the server serves none."""
    if asked["project"] is None:
        return None
    from odfbuild.executors.ingest.source_lines import LineSearch
    from odfbuild.project.config.permissions import permissions_of

    folder = Path(asked["project"])
    return LineSearch(
        workspace,
        folder,
        permissions_of(os.environ, folder),
        closing.enter_context(workspace.staging()),
        most=asked["file_bytes"],
        rows=asked["file_rows"],
        inside=True,
    )


def _explained(
    explainer: RowExplainer, key: RowKey, written: WrittenBlock, refused: str | None
) -> tuple[Explained, str | None]:
    """Return what is known of a record, and the code of what keeps its values from being read.

    Its block and query are in the chain, and known also if its file is damaged.
    """
    reads = written.step is not None and written.step.inputs
    try:
        found = explainer.explained(
            key, 0, written, follow=FOLLOWED if reads else None, refused=refused
        )
    except EngineFailedError:
        raise
    except OdfBuildError as error:
        reason = f"its file cannot be read: {error.code}"
        found = Explained(key=key, depth=0, row=None, written=written, unknown=reason)
        return found, error.code
    return found, LostDataError.code if found.row is None else None


def _admitted(
    past: PinnedHistories, ids: Collection[DatasetId], visible: Visible
) -> dict[DatasetId, str]:
    """Admit the datasets that the caller may read, up to their heads; return their names."""
    given = visible([str(each) for each in ids])
    names = {}
    for id in ids:
        if str(id) in given:
            names[id], head = given[str(id)]
            with suppress(OdfBuildError):  # as if the block that was read were not there
                if head is not None:
                    past.admit(id, Multihash.parse(head))
    return names


def _refusal(
    reads: Sequence[StepInput], names: Mapping[DatasetId, str], past: PinnedHistories
) -> str | None:
    """Say why a step is not run again: it read what is not for the caller, or is no more."""
    if any(each.dataset not in names for each in reads):
        return _HIDDEN
    gone = sorted(names[each.dataset] for each in reads if not _is_there(each, past))
    if not gone:
        return None
    which = " and ".join(gone)
    return f"the block of {which} that its step read is not in the chain now, or cannot be read"


def _is_there(read: StepInput, past: PinnedHistories) -> bool:
    """Say whether the chain of an input still has the block up to which it was read."""
    return past.history(read.dataset, read.block) is not None


class _InProcess:
    """The engine of this process: DataFusion.  No other one is started for a page."""

    def __init__(self) -> None:
        self._engine = DataFusionEngine()

    def positions(self, work: "TransformWork") -> "Frame":
        return self._of(work).positions(work)

    def results(self, work: "TransformWork", many: "Sequence[Inputs]") -> "Sequence[pa.Table]":
        return self._of(work).results(work, many)

    def origins(
        self, work: "TransformWork", _: "Inputs", __: "pa.Table"
    ) -> Mapping[str, Collection[int]]:
        raise InexactError(_not_run(work))

    def close(self) -> None:
        self._engine.close()

    def _of(self, work: "TransformWork") -> DataFusionEngine:
        if work.query.transform.engine.lower() != DATAFUSION:
            raise InexactError(_not_run(work))
        return self._engine


def _not_run(work: "TransformWork") -> str:
    return (
        f"its query is for {work.query.transform.engine}, which is not started for a page; "
        "odfbuild explain-row runs it again"
    )


def _block(written: WrittenBlock) -> Mapping[str, Any]:
    return {
        "hash": str(written.block),
        "sequence": written.sequence,
        "time": str(written.system_time),
        "offsets": _span(written.offsets),
    }


def _source(written: WrittenBlock) -> Mapping[str, Any]:
    """Return where a record of a root comes from, as far as the chain names it."""
    state = None if written.state is None else written.state.value
    named: str | None
    match written.source:
        case AddPushSource(source_name=name):
            kind, named = "push", name
        case SetPollingSource(fetch=FetchStepUrl(url=url)):
            kind, named = "url", url
        case SetPollingSource(fetch=FetchStepFilesGlob(path=path)):
            kind, named = "files", path
        case SetPollingSource(fetch=FetchStepContainer(image=image)):
            kind, named = "container", image
        case _:
            kind, named = "unknown", None
    return {"kind": kind, "source": named, "state": state}


def _query(written: WrittenBlock) -> Mapping[str, Any] | None:
    """Return the query of a step, and how it looks at rows."""
    if written.step is None:
        return None
    sql = written.step.transform.transform
    if is_opaque(sql):
        return {"engine": None, "steps": [], "looks_at": written.step.kind}
    engine = " ".join(filter(None, (sql.engine, sql.version)))
    steps = [{"alias": each.alias, "text": each.text} for each in steps_of(sql)]
    return {"engine": engine, "steps": steps, "looks_at": written.step.kind}


def _columns(found: Explained) -> list[Mapping[str, Any]] | None:
    """Return where the columns of the result come from; None if that is not known."""
    if found.columns is None or found.columns.outputs is None:
        return None
    return [
        {
            "name": each.name,
            "copied": each.copied,
            "from": [f"{ref.input}.{ref.column}" for ref in sorted(each.sources)],
        }
        for each in found.columns.outputs
    ]


def _reason(found: Explained, workspace: Workspace) -> Mapping[str, Any]:
    """Return whether a record came or went by its rows, and what is not known of them."""
    derived = found.derivation
    reason = found.unknown if derived is None else derived.reason
    return {
        "comes": None if derived is None else derived.comes,
        "exact": derived is not None and derived.exact,
        "reason": None if reason is None else without_paths(reason, workspace.root),
    }


def _input(
    read: StepInput,
    name: str,
    found: Explained,
    explainer: RowExplainer,
    past: PinnedHistories,
) -> Mapping[str, Any]:
    """Return the rows of an input that a record was made of, and what the step read of it."""
    alone = RowOrigins(read=read, offsets=(), followed=())
    made = next((each for each in found.made_of if each.read == read), alone)
    history = past.history(read.dataset, read.block)
    spans = intervals(made.offsets)
    rows = {key.offset: _values(explainer, key) for key in made.followed}
    columns = tuple(dict.fromkeys(column for each in rows.values() for column in each))
    return {
        "name": name,
        "alias": read.alias,
        "block": None if history is None or read.block is None else str(read.block),
        "missing": history is None,
        "offset_column": None
        if history is None
        else history.state(read.block or history.blocks[-1][0]).vocab.offset_column,
        "offsets": [_span(each) for each in spans[:_SPANS]],
        "more_offsets": sum(each.end - each.start + 1 for each in spans[_SPANS:]),
        "columns": columns,
        "rows": [
            {
                "offset": offset,
                "values": [plain(row.get(each)) for each in columns] if row else None,
            }
            for offset, row in rows.items()
        ],
        "more": made.more,
        "of": 0 if found.derivation is None else found.derivation.of.get(read.alias, 0),
        "looked_at": None if read.looked_at is None else _span(read.looked_at),
    }


def _values(explainer: RowExplainer, key: RowKey) -> Mapping[str, Any]:
    """Return the values of a record of an input; none if they cannot be read."""
    try:
        return explainer.row(key) or {}
    except OdfBuildError:
        return {}


def _pairs(row: Mapping[str, Any] | None) -> list[tuple[str, Any]] | None:
    """Return names and values in their order: objects of JSON have names that mean something."""
    return None if row is None else [(name, plain(value)) for name, value in row.items()]


def _span(interval: OffsetInterval) -> Mapping[str, int]:
    return {"start": interval.start, "end": interval.end}
