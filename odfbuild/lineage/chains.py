"""Relations recorded by metadata chains, and those of them that the store has.

A relation begins when a transform names an input and lasts once records were read: rows that were
made of an input stay, also when a later transform reads others.  Its classifier is the alias that
the transform last in force gave the input.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from odfbuild.lineage.ids import node_id
from odfbuild.lineage.store import SqliteLineageResource, enter_relations, take
from odfbuild.odf.events import ExecuteTransform, MetadataBlock, SetTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class ChainInput:
    """A dataset that a chain reads, its alias, the block that says so first, and if it was read."""

    dataset: DatasetId
    classifier: str
    block: Multihash
    is_read: bool = False


def trace(
    known: Iterable[ChainInput], blocks: Iterable[tuple[Multihash, MetadataBlock]]
) -> tuple[ChainInput, ...]:
    """Return the inputs after some blocks, given those before them."""
    found = {each.dataset: each for each in known}
    for hash, block in blocks:
        match block.event:
            case SetTransform() as event:
                found = _declared_inputs(found, event, hash)
            case ExecuteTransform(query_inputs=inputs):
                for each in inputs:
                    before = found.get(each.dataset_id) if each.new_offset is not None else None
                    if before is not None and not before.is_read:
                        found[each.dataset_id] = replace(before, block=hash, is_read=True)
            case _:
                pass
    return tuple(found.values())


def _declared_inputs(
    found: dict[DatasetId, ChainInput], event: SetTransform, hash: Multihash
) -> dict[DatasetId, ChainInput]:
    kept = {id: each for id, each in found.items() if each.is_read}
    names: dict[DatasetId, list[str]] = {}
    for each in event.inputs:
        if isinstance(each.dataset_ref, DatasetId):
            names.setdefault(each.dataset_ref, []).append(each.alias or "input")
    for id, aliases in names.items():
        before = found.get(id) or ChainInput(id, "", hash)
        kept[id] = replace(before, classifier=", ".join(aliases))
    return kept


_INPUTS = "select did, classifier, block, is_read from input where derived = ? order by source"
_IS_INPUT = "select 1 from input where derived = ? and source = ?"
_GONE = "delete from relation where derived = ? and source = ?"


def heads_of(store: SqliteLineageResource) -> dict[UUID, Multihash]:
    """Return up to which block the relations of each dataset are known."""
    with store.tables.reading() as db:
        rows = db.execute("select dataset, head from chain").fetchall()
    return {UUID(bytes=dataset): Multihash.parse(head) for dataset, head in rows}


def inputs_of(
    store: SqliteLineageResource, dataset: DatasetId
) -> tuple[Multihash | None, tuple[ChainInput, ...]]:
    """Return up to which block the inputs of a dataset are known (None: not at all), and them."""
    key = node_id(dataset).bytes
    with store.tables.reading() as db:
        heads = db.execute("select head from chain where dataset = ?", (key,)).fetchall()
        rows = db.execute(_INPUTS, (key,)).fetchall()
    inputs = [
        ChainInput(DatasetId.parse(did), classifier, Multihash.parse(block), bool(is_read))
        for did, classifier, block, is_read in rows
    ]
    return (Multihash.parse(heads[0][0]), tuple(inputs)) if heads else (None, ())


def is_recorded(store: SqliteLineageResource, derived: UUID, source: UUID) -> bool:
    """Tell whether a chain says that a dataset is made of another."""
    with store.tables.reading() as db:
        found = db.execute(_IS_INPUT, (derived.bytes, source.bytes)).fetchall()
    return bool(found)


def put_inputs(
    store: SqliteLineageResource, dataset: DatasetId, head: Multihash, inputs: Iterable[ChainInput]
) -> None:
    """Make these the relations of a dataset that its chain tells up to a block.

    Those that it told before and tells no more go; what a user said of the same pair is overruled.
    Raises InconsistentLineageException, with nothing written, if that closes a cycle.
    """
    key = node_id(dataset).bytes
    found = {node_id(each.dataset).bytes: each for each in inputs}
    with store.tables.writing() as db:
        before = db.execute("select source from input where derived = ?", (key,)).fetchall()
        gone = [(key, source) for (source,) in before if source not in found]
        db.executemany(_GONE, gone)
        db.execute("delete from input where derived = ?", (key,))
        db.executemany(
            "insert into input values (?, ?, ?, ?, ?, ?)",
            [
                (key, source, str(each.dataset), each.classifier, str(each.block), each.is_read)
                for source, each in found.items()
            ],
        )
        dids = {key: dataset, **{source: each.dataset for source, each in found.items()}}
        db.executemany(
            "insert or ignore into dataset values (?, ?, null)",
            [(id_, str(did)) for id_, did in dids.items()],
        )
        take(db, ((key, source, each.classifier) for source, each in found.items()))
        enter_relations(db, allow_updates=True)
        db.execute("insert or replace into chain values (?, ?)", (key, str(head)))
