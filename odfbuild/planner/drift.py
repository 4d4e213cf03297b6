"""Classification of drift: changes of a chain that this project did not make.  Pure.

Drift is not what `plan` shows.  A definition that was edited here and not applied yet is a change
to come; drift is a chain that went elsewhere meanwhile.  Where the last apply left the chain (the
base) tells the two apart: what is in force now, was not then, and is not declared, is drift.
Without a base, every difference counts, since nothing says that it is a change to come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from odfbuild.errors import PlanError, SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DisablePushSource,
    MetadataBlock,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange, diff, in_force
from odfbuild.values import dataclass

Resolve = Callable[[DatasetAlias | DatasetId], DatasetAlias | DatasetId]


class DriftKind(Enum):
    """What is not as this project left it; the values are those of an ignore file.

    UNDECLARED: a dataset of the workspace that the project does not declare.  UNNAMED: a chain
    that no name leads to.  GONE: a dataset
    that was applied, or has a name, and has no chain.  IDENTITY: the name leads to another
    dataset than before, or to one of another kind.  REWRITTEN: the chain no longer holds the block
    that the last apply left as its head.  DEFINITION: what is in force is not declared.  PUSH: a
    push source is in force that is not declared.  DATA: records that no declared source explains.
    WATERMARK: a watermark that was set by hand.  EVENT: a block that this version cannot read.
    FILE: a block, slice or checkpoint that the chain names is missing or has another size.
    INPUT: the chain of an input no longer holds what was read from it.  SOURCE: files of a source
    that came late, or changed since they were read, and stay unread.
    """

    UNDECLARED = "undeclared"
    UNNAMED = "unnamed"
    GONE = "gone"
    IDENTITY = "identity"
    REWRITTEN = "rewritten"
    DEFINITION = "definition"
    PUSH = "push-source"
    DATA = "data"
    WATERMARK = "watermark"
    EVENT = "event"
    FILE = "file"
    INPUT = "input"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDrift:
    """One difference between a chain and what this project made of it.

    `dataset` is the name, or the id of a dataset without one.  `block` is where it shows, `span`
    the definition that it is held against.  `before` and `after` are events, or None for nothing.
    """

    dataset: DatasetAlias | DatasetId
    kind: DriftKind
    what: str
    fix: str
    block: Multihash | None = None
    span: SourceSpan | None = None
    declared: MetadataEvent | None = None
    in_force: MetadataEvent | None = None


def unmanaged_fix(alias: DatasetAlias) -> str:
    """Return the way forward with a dataset that is not declared."""
    return f"declare it again to continue it; to remove it: odfbuild retire {alias}"


def drift_of_definition(
    declared: Declared,
    state: ChainState,
    base: ChainState | None,
    resolve: Resolve,
    engines: Mapping[str, str],
) -> Iterator[ChainDrift]:
    """Yield what is in force, is not declared, and was not so where the last apply left the chain.

    `base` is the state there, None if that is not known.
    """
    try:
        changes = diff(declared.snapshot, state, resolve, engines)
    except PlanError as error:
        yield _drift(declared, DriftKind.IDENTITY, error.what, error.fix, declared.span(()))
        return
    for change in changes:
        now = in_force(change.event, state)
        if base is None or in_force(change.event, base) != now:
            yield _definition_drift(declared, change, now)


def _definition_drift(
    declared: Declared, change: EventChange, now: MetadataEvent | None
) -> ChainDrift:
    kind, name = DriftKind.DEFINITION, type(change.event).__name__
    wanted = None if change.index is None else change.event
    if isinstance(change.event, DisablePushSource):
        kind = DriftKind.PUSH
        what = f"the push source '{change.event.source_name}' is in force and not declared"
    elif wanted is None:
        what = f"{type(now).__name__} is in force and not declared"
    elif now is None:
        what = f"{name} is declared and no longer in force"
    else:
        what = f"{name} in force is not the one declared"
    path = () if change.index is None else ("metadata", change.index)
    return ChainDrift(
        dataset=declared.alias,
        kind=kind,
        what=what,
        fix="odfbuild plan shows the way to what is declared; to keep what is in force, declare it",
        span=declared.span(path),
        declared=wanted,
        in_force=now,
    )


def drift_of_blocks(
    declared: Declared, blocks: Iterable[tuple[Multihash, MetadataBlock]]
) -> Iterator[ChainDrift]:
    """Yield what blocks that no apply of this project made hold beyond what it declares.

    Records of a declared source are explained, whoever ingested them.
    """
    events = declared.snapshot.metadata
    fed = any(
        isinstance(event, SetPollingSource | AddPushSource | SetTransform) for event in events
    )
    for block, each in blocks:
        event = each.event
        if is_opaque(event):
            what = f"block {each.sequence_number} holds an event that this version cannot read"
            fix = "look at it with a newer version of odfbuild"
            yield _drift(declared, DriftKind.EVENT, what, fix, None, block)
        elif isinstance(event, AddData) and event.new_data is None and _by_hand(event):
            what = f"the watermark was set to {event.new_watermark} by hand"
            fix = "nothing is lost: if it is right, list it in the file of --ignore-file"
            yield _drift(declared, DriftKind.WATERMARK, what, fix, None, block)
        elif isinstance(event, AddData) and event.new_data is not None and not fed:
            rows = event.new_data.offset_interval.end - event.new_data.offset_interval.start + 1
            what = f"{rows:,} records were added, and no source is declared"
            fix = "declare the source that they came from"
            yield _drift(declared, DriftKind.DATA, what, fix, declared.span(()), block)


def _by_hand(event: AddData) -> bool:
    """Say whether a watermark came without data and without word from a source."""
    return event.new_source_state is None and event.new_watermark is not None


def _drift(
    declared: Declared,
    kind: DriftKind,
    what: str,
    fix: str,
    span: SourceSpan | None,
    block: Multihash | None = None,
) -> ChainDrift:
    return ChainDrift(dataset=declared.alias, kind=kind, what=what, fix=fix, span=span, block=block)
