"""Catalogue of a repository: an index that it may publish, and the names of its folders.

    .odfbuild/index.json    {"version": 1, "datasets": [{"id", "alias", "kind", "head",
                             "sequenceNumber", "records", "size", "time"}]}

The index is a cache, written by who pushes and rebuilt from heads by `indexed`; no other program
reads it, and nothing is trusted because it stands there.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.events import DatasetKind, Seed
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.comparison import Ahead
from odfbuild.repositories.protocol import ChainSource, files_of, records_of
from odfbuild.repositories.transfer import Transferred
from odfbuild.repositories.walk import newest_first, walk
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import TransferError, UnreachableRepositoryError
from odfbuild.values import dataclass

INDEX: Final = ".odfbuild/index.json"
_LARGEST: Final = 64 << 20  # bytes
_U64: Final = 1 << 64


class _Repository(Protocol):
    @property
    def place(self) -> str: ...

    def dataset(self, alias: DatasetAlias) -> ChainSource: ...

    def names(self) -> Iterable[DatasetAlias]: ...

    def get(self, path: str, most: int) -> bytes | None: ...

    def put(self, path: str, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A dataset of a repository, as far as is known: its name alone, or all of it.

    `records` is how many there are, `size` the bytes of files, `time` that of the last block.
    """

    alias: DatasetAlias
    id: DatasetId | None = None
    kind: DatasetKind | None = None
    head: Multihash | None = None
    sequence: int | None = None
    records: int | None = None
    size: int | None = None
    time: Timestamp | None = None


def read_index(repository: _Repository) -> Mapping[DatasetAlias, CatalogueEntry]:
    """Return what the index of a repository says by name; nothing of one that cannot be read."""
    data = repository.get(INDEX, _LARGEST)
    if data is None:
        return {}
    with suppress(ValueError, TypeError, LookupError, ProtocolError):
        form = parse_json(data)
        entries = [_entry(each) for each in form["datasets"]] if form["version"] == 1 else []
        return {each.alias: each for each in entries}
    return {}


def entries(repository: _Repository) -> tuple[CatalogueEntry, ...]:
    """Return the datasets of a repository in the order of names.

    Those that it lists are there; of one that cannot list them, its index says which there are.
    Raises UnreachableRepositoryError of a repository that has neither.
    """
    known = read_index(repository)
    try:
        names = sorted(repository.names())
    except UnreachableRepositoryError:
        if not known:
            raise
        names = sorted(known)
    return tuple(known.get(each, CatalogueEntry(alias=each)) for each in names)


def find_alias(repository: _Repository, id: DatasetId) -> DatasetAlias | None:
    """Return what a dataset is called in a repository, None if that is not known.

    A server is asked; elsewhere the index says it, and where there is none, the chains do.
    """
    asked = getattr(repository, "alias_of", None)
    if asked is not None:
        found: DatasetAlias | None = asked(id)
        return found
    known = read_index(repository)
    for entry in known.values():
        if entry.id == id:
            return entry.alias
    with suppress(UnreachableRepositoryError):
        for alias in repository.names():
            if alias not in known and _seed_of(repository.dataset(alias)) == id:
                return alias
    return None


def indexed(repository: _Repository) -> tuple[CatalogueEntry, ...]:
    """Rebuild the index of a repository from the heads there, and return it.

    A dataset at the head that the index has is not read again; one that is damaged is left out.
    """
    known = read_index(repository)
    found = []
    for alias in repository.names():
        source = repository.dataset(alias)
        with suppress(ProtocolError, TransferError):
            head = source.head()
            before = known.get(alias)
            if before is not None and before.head == head:
                found.append(before)
            elif head is not None:
                found.append(entry_of(source.blocks(head, None), alias, head, source.place))
    _write(repository, found)
    return tuple(found)


def note_push(
    repository: _Repository, alias: DatasetAlias, dataset: Dataset, pushed: Transferred
) -> None:
    """Put a dataset that was pushed into the index of a repository, as far as that goes."""
    with suppress(OdfBuildError):
        known = dict(read_index(repository))
        before = known.get(alias)
        block = dataset.block(pushed.head)
        goes_on = isinstance(pushed.comparison, Ahead)
        if before is None or before.head != pushed.before or not goes_on:
            blocks = newest_first(dataset, pushed.head)
            known[alias] = entry_of(blocks, alias, pushed.head, str(dataset.id))
        else:
            known[alias] = replace(
                before,
                head=pushed.head,
                sequence=block.sequence_number,
                records=(before.records or 0) + pushed.records,
                size=(before.size or 0) + pushed.size,
                time=block.system_time,
            )
        _write(repository, known.values())


def entry_of(
    blocks: Iterable[tuple[Multihash, bytes]], alias: DatasetAlias, head: Multihash, place: str
) -> CatalogueEntry:
    """Return what a whole chain says, newest block first."""
    sequence, time, records, size = 0, None, 0, 0
    id: DatasetId | None = None
    kind: DatasetKind | None = None
    for each in walk(blocks, head, None, place):
        block = each.block
        if time is None:
            sequence, time = block.sequence_number, block.system_time
        records += records_of(block.event)
        size += sum(file.size for file in files_of(block.event))
        if isinstance(block.event, Seed):
            id, kind = block.event.dataset_id, block.event.dataset_kind
    return CatalogueEntry(
        alias=alias,
        id=id,
        kind=kind,
        head=head,
        sequence=sequence,
        records=records,
        size=size,
        time=time,
    )


def index_document(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    """Return an index in the form that it has as JSON, in the order of names."""
    ordered = sorted(entries, key=lambda each: each.alias)
    return {"version": 1, "datasets": [_form(each) for each in ordered]}


def _seed_of(source: ChainSource) -> DatasetId | None:
    with suppress(ProtocolError, TransferError):
        head = source.head()
        if head is not None:
            name, blocks = DatasetAlias(None, "x"), source.blocks(head, None)
            return entry_of(blocks, name, head, source.place).id
    return None


def _write(repository: _Repository, found: Iterable[CatalogueEntry]) -> None:
    text = json.dumps(index_document(found), indent=1)
    repository.put(INDEX, f"{text}\n".encode())


def _form(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "alias": str(entry.alias),
        "kind": None if entry.kind is None else entry.kind.name.lower(),
        "head": str(entry.head),
        "sequenceNumber": entry.sequence,
        "records": entry.records,
        "size": entry.size,
        "time": str(entry.time),
    }


def _entry(form: Any) -> CatalogueEntry:
    """Read an entry.  Raises ValueError, TypeError, LookupError or ProtocolError."""
    return CatalogueEntry(
        alias=DatasetAlias.parse(_text(form, "alias")),
        id=DatasetId.parse(_text(form, "id")),
        kind=DatasetKind[_text(form, "kind").upper()],
        head=Multihash.parse(_text(form, "head")),
        sequence=_number(form, "sequenceNumber"),
        records=_number(form, "records"),
        size=_number(form, "size"),
        time=Timestamp.parse(_text(form, "time")),
    )


def _text(form: Any, key: str) -> str:
    if not isinstance(form[key], str):
        raise TypeError(key)
    return str(form[key])


def _number(form: Any, key: str) -> int:
    found = form[key]
    if isinstance(found, bool) or not isinstance(found, int):
        raise TypeError(key)
    if not 0 <= found < _U64:
        raise ValueError(key)
    return found
