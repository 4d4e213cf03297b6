"""Hypothesis strategies for protocol values: any value that the specification allows."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from hypothesis import strategies as st

from odfbuild.odf.events import (
    DatasetSnapshot,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    SetDataSchema,
)
from odfbuild.odf.identity import DatasetId, Multicodec, Multihash
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.layout import TABLES, UNIONS
from odfbuild.odf.wire.slots import Slot

__all__ = [
    "aliases",
    "attributes",
    "blocks",
    "dataset_ids",
    "events",
    "intervals",
    "multihashes",
    "names",
    "records",
    "snapshots",
    "timestamps",
]

_T = TypeVar("_T", bound=Record)
_MAX_DEPTH = 3

_FIRST = -62_135_596_800 * 10**9
_LAST = 253_402_300_800 * 10**9 - 1

_words = st.from_regex(r"[a-zA-Z0-9]{1,5}", fullmatch=True)
names = st.lists(_words, min_size=1, max_size=3).flatmap(
    lambda words: st.sampled_from(".-").map(lambda dot: dot.join(words))
)
aliases = st.builds(DatasetAlias, st.none() | names, names)
timestamps = st.integers(_FIRST, _LAST).map(Timestamp) | st.integers(
    _FIRST // 10**9, _LAST // 10**9
).map(lambda seconds: Timestamp(seconds * 10**9))
multihashes = st.builds(
    Multihash,
    st.sampled_from([int(Multicodec.SHA3_256), int(Multicodec.ARROW0_SHA3_256)]),
    st.binary(min_size=32, max_size=32),
)
dataset_ids = st.binary(min_size=32, max_size=32).map(DatasetId)
intervals = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(
    lambda ends: OffsetInterval(min(ends), max(ends))
)
attributes = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=6,
    ),
    max_size=3,
).map(lambda it: json.dumps(it, ensure_ascii=False, sort_keys=True, separators=(",", ":")))

_TEXTS = st.text(max_size=12)
_SIMPLE: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "bool": st.booleans(),
    "u8": st.integers(0, 2**8 - 1),
    "u16": st.integers(0, 2**16 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1) | st.just(0),
    "i16": st.integers(-(2**15), 2**15 - 1),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "timestamp": timestamps,
    "multihash": multihashes,
    "did": dataset_ids,
    "alias": aliases,
    "ref": dataset_ids | aliases,
    "text": _TEXTS,
    "bytes": st.binary(max_size=40),
    "json": attributes,
    "texts": st.lists(_TEXTS, max_size=3).map(tuple),
}


def records(cls: type[_T], depth: int = 0) -> st.SearchStrategy[_T]:
    """Return a strategy for one class; lists are short and types nest a few levels."""

    def build(values: Mapping[str, Any]) -> _T:
        return cls(**values)

    fields = {slot.name: _field(slot, depth) for slot in TABLES[cls].slots}
    return st.fixed_dictionaries(fields).map(_one_schema).filter(_meaningful(cls)).map(build)


def _field(slot: Slot, depth: int) -> st.SearchStrategy[Any]:
    always = _present(slot, depth)
    if slot.optional and depth > _MAX_DEPTH:
        return st.none()
    return st.none() | always if slot.optional else always


def _present(slot: Slot, depth: int) -> st.SearchStrategy[Any]:
    match slot.kind:
        case "enum":
            return st.sampled_from(list(cast("Any", slot.of)))
        case "table":
            return _later(lambda: records(cast("Any", slot.of), depth + 1))
        case "union":
            return _later(lambda: _members(str(slot.of), depth + 1))
        case "tables":
            return st.lists(
                _later(lambda: records(cast("Any", slot.of), depth + 1)),
                max_size=2 if depth < _MAX_DEPTH else 0,
            ).map(tuple)
        case "unions":
            return st.lists(_later(lambda: _members(str(slot.of), depth + 1)), max_size=3).map(
                tuple
            )
        case kind:
            return _SIMPLE[kind]


def _later(make: Callable[[], st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.deferred(make)


def _members(union: str, depth: int) -> st.SearchStrategy[Any]:
    """Return a strategy for a union; deep down only members that hold no other values."""
    members = [
        member for member in UNIONS[union].members if depth <= _MAX_DEPTH or not _nests(member)
    ]
    return st.sampled_from(members).flatmap(lambda member: records(member, depth))


def _nests(cls: type[Record]) -> bool:
    return any(slot.kind == "union" and not slot.optional for slot in TABLES[cls].slots)


def _one_schema(values: dict[str, Any]) -> dict[str, Any]:
    """A read step has a schema in the old form or in the new one, not both."""
    if values.get("schema") is not None:
        for old in ("ddl_schema", "raw_arrow_schema"):
            if old in values:
                values = {**values, old: None}
    return values


def _meaningful(cls: type[Record]) -> Callable[[Mapping[str, Any]], bool]:
    needed = TABLES[cls].either
    return lambda values: not needed or any(values[name] is not None for name in needed)


events: st.SearchStrategy[MetadataEvent] = _members("MetadataEvent", 0)
blocks = records(MetadataBlock)
snapshots = records(DatasetSnapshot)
schema_events = records(SetDataSchema)
