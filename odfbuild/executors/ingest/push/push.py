"""Pushes: each input exactly one commit.

unpack -> read -> add.  An input may have an id: the commit then says it, and the same id pushed
again is recognised, so that whoever does not know how a push ended does it again.  A lost race for
the head is run again on the new one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from odfbuild.errors import EngineError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import InputNotes, Site
from odfbuild.executors.ingest.commit import Intake, Receiver, add
from odfbuild.executors.ingest.media import PushFormat, format_of_file, read_as, unpacking
from odfbuild.executors.ingest.prepare import DamagedArchiveError, prepare
from odfbuild.executors.ingest.push.ids import has_push, push_state
from odfbuild.executors.ingest.push.source import push_source
from odfbuild.executors.ingest.read.column_policy import read_columns
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.odf.chain.partial_inputs import is_partial
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddPushSource
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import until_committed
from odfbuild.state.partial_inputs import in_part
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_LONGEST_ID: Final = 500
_QUICK: Final = 1 << 20  # bytes that are read in less time than an engine needs to end again


class BadPushError(EngineError):
    """The data of a push is empty, or its id is invalid."""

    code = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """One input: how people call it, its file, and what was said of it.

    `format` None leaves it to the file's name and the source; `event_time` is for rows without one,
    None is the system time; `source` is the name of the push source, None for the obvious one.
    """

    name: str
    path: Path
    source: str | None = None
    format: PushFormat | None = None
    event_time: Timestamp | None = None
    id: str | None = None
    options: IngestOptions = AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What became of one input.

    `blocks` and `records` are what the commit added, 0 and 0 if nothing was news; `repeated` tells
    that the id was there already.  `head` is the dataset's head afterwards, `notes` what the input
    had beside its rows.
    """

    name: str
    source: str
    id: str | None
    blocks: int
    records: int
    head: Multihash
    repeated: bool = False
    notes: InputNotes = InputNotes()


def push(
    site: Site,
    dataset: Dataset,
    given: Pushing,
    *,
    called: str,
    soon: Callable[[int], None] = lambda _: None,
) -> Pushed:
    """Commit one input, or find that it was committed before.

    `called` is the dataset's name for messages; `soon` hears how many bytes the engine will be
    asked about: while a large input is read, or once a small one was.  Raises PushSourceError,
    BadPushError, PartialInputError for a chain that ends inside of an input, and the errors of
    unpacking, reading, the engine and the commit; the chain is as it was then.
    """
    _check(given)
    return until_committed(lambda: _attempt(site, dataset, given, called, soon))


def _attempt(
    site: Site, dataset: Dataset, given: Pushing, called: str, soon: Callable[[int], None]
) -> Pushed:
    state = dataset.state()
    if state is None:
        raise BadPushError(
            what=f"{called} has no block yet",
            why="its creation was interrupted",
            fix="odfbuild apply continues with it",
        )
    source = push_source(state, given.source, called)
    name = source.source_name
    if given.id is not None and has_push(dataset, site.workspace.index, name, given.id):
        return Pushed(
            name=given.name,
            source=name,
            id=given.id,
            blocks=0,
            records=0,
            head=dataset.head() or state.head,
            repeated=True,
        )
    if is_partial(state.last_add_data):
        raise in_part(dataset, state, called)
    return _take_in(site, dataset, given, state, source, soon)


def _take_in(
    site: Site,
    dataset: Dataset,
    given: Pushing,
    state: ChainState,
    source: AddPushSource,
    soon: Callable[[int], None],
) -> Pushed:
    name = source.source_name
    receiver = Receiver(
        site=site,
        dataset=dataset,
        state=state,
        source=source,
        source_name=name,
        now=max(site.clock(), state.system_time),
        options=given.options,
    )
    size = given.path.stat().st_size
    if size > _QUICK:
        soon(size)
    with site.workspace.staging() as staging:
        frame, notes = _read(receiver, given, source, staging)
        intake = Intake(
            name=given.name,
            frame=frame,
            event_time=given.event_time or receiver.now,
            state=None if given.id is None else push_state(name, given.id),
            notes=notes,
        )
        if size <= _QUICK:
            soon(size)
        added = add(receiver, intake, staging)
    done = added.round
    return Pushed(
        name=given.name,
        source=name,
        id=given.id,
        blocks=0 if done is None else done.blocks,
        records=0 if done is None else done.records,
        head=added.state.head,
        notes=InputNotes() if done is None else done.notes,
    )


def _read(
    receiver: Receiver, given: Pushing, source: AddPushSource, staging: Path
) -> tuple[Frame | None, ReadNotes]:
    try:
        path = prepare(unpacking(given.name), given.path, staging, name=given.name)
    except DamagedArchiveError as error:
        error.fix = "push it again as it was written; if it is not compressed, rename it"
        raise
    _check_size(path, given.name)
    format = given.format or format_of_file(given.name, source.read)
    step = read_as(source.read, format, path)
    return read_columns(
        step,
        path,
        staging=staging,
        name=given.name,
        options=given.options,
        in_force=schema_in_force(receiver.state),
        vocab=receiver.state.vocab,
        held=receiver.site.engine.held(source.merge, source.preprocess),
    )


def _check(given: Pushing) -> None:
    _check_size(given.path, given.name)
    if given.id is not None and not (given.id.isprintable() and 0 < len(given.id) <= _LONGEST_ID):
        raise BadPushError(
            what=f"{excerpt(given.id, 40)!r} cannot be the id of a push",
            why=f"it is kept in the chain: 1 to {_LONGEST_ID} printable characters",
            fix="use a number, a UUID or the name of a file",
        )


def _check_size(path: Path, name: str) -> None:
    if path.stat().st_size == 0:
        raise BadPushError(
            what=f"{name} is empty: it has not one byte",
            why="what was to write it may have failed; a table without rows has a header, or is []",
            fix="write it again, or leave it out",
        )
