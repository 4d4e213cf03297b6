"""What a metadata chain says of the datasets that a derivative was made of.  Pure.

A relation begins when a transform names an input and lasts once records were read: rows that were
made of an input stay, also when a later transform reads others.  Its classifier is the alias that
the transform last in force gave the input.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from odfbuild.odf.events import ExecuteTransform, MetadataBlock, SetTransform
from odfbuild.odf.identity import DatasetId, Multihash

__all__ = ["Input", "trace"]


@dataclass(frozen=True, slots=True)
class Input:
    """A dataset that a chain reads, its alias, the block that says so first, and if it was read."""

    dataset: DatasetId
    classifier: str
    block: Multihash
    is_read: bool = False


def trace(
    known: Iterable[Input], blocks: Iterable[tuple[Multihash, MetadataBlock]]
) -> tuple[Input, ...]:
    """Return the inputs after some blocks, given those before them."""
    found = {each.dataset: each for each in known}
    for hash, block in blocks:
        match block.event:
            case SetTransform() as event:
                found = _declared(found, event, hash)
            case ExecuteTransform(query_inputs=inputs):
                for each in inputs:
                    before = found.get(each.dataset_id) if each.new_offset is not None else None
                    if before is not None and not before.is_read:
                        found[each.dataset_id] = replace(before, block=hash, is_read=True)
            case _:
                pass
    return tuple(found.values())


def _declared(
    found: dict[DatasetId, Input], event: SetTransform, hash: Multihash
) -> dict[DatasetId, Input]:
    kept = {id: each for id, each in found.items() if each.is_read}
    names: dict[DatasetId, list[str]] = {}
    for each in event.inputs:
        if isinstance(each.dataset_ref, DatasetId):
            names.setdefault(each.dataset_ref, []).append(each.alias or "input")
    for id, aliases in names.items():
        before = found.get(id) or Input(id, "", hash)
        kept[id] = replace(before, classifier=", ".join(aliases))
    return kept
