"""The datasets and names of a workspace in an object store, laid out there as on disk."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.host.files import read_regular
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.attestations import DELEGATIONS, LocalAttestations
from odfbuild.state.chain.checked_files import CheckedFiles
from odfbuild.state.chain.head_table import HeadLook, Heads
from odfbuild.state.chain.heads import (
    HEAD,
    CorruptHeadError,
    HeadMovedError,
    is_ref_name,
    parse_head,
)
from odfbuild.state.chain.objects import as_hash
from odfbuild.state.chain.stores import Stores
from odfbuild.state.files.lock import Holder
from odfbuild.state.homes import FOLDER, NameStore, R, T, brought_meanwhile
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.client import (
    ListObjects,
    ObjectClient,
    StoredObject,
    side_by_side,
)
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.heads import BucketHeads, HeadTags, read_head
from odfbuild.state.remote.memory import StoreMemory, keep_memory, read_memory, touch_memory
from odfbuild.state.remote.names import BucketNames
from odfbuild.state.remote.objects import BucketAttestations, BucketObjects, UploadedObjects
from odfbuild.state.remote.reach import DatasetObjects, Reach
from odfbuild.state.remote.store.abilities import UnsafeStoreError, known_abilities
from odfbuild.state.remote.store.layout import FORMAT, FORMAT_KEY, LARGEST_FORMAT, check_format

DATASETS: Final = "datasets/"


class UnorderedStoreError(StateError):
    """An object store lists the objects of a dataset apart from each other."""

    code = "unordered-store"


class BucketHome:
    """Datasets below `datasets/` of a store; what was seen of it is remembered in a local folder.

    `wait_for_collector` returns once no collector is at work; `remembers` says whether that folder
    is written.
    """

    def __init__(
        self,
        client: ObjectClient,
        root: Path,
        cache: ObjectCache,
        *,
        wait_for_collector: Callable[[], None] = lambda: None,
        remembers: bool = True,
    ) -> None:
        self._remembers = remembers
        self._client = client
        self._root = root
        self._cache = cache
        self._wait_for_collector = wait_for_collector
        self._tags = HeadTags()
        self._own_names = BucketNames(client, self.keep_memory)
        self.names: NameStore = self._own_names
        self._stores: dict[DatasetId, Stores] = {}
        self._lock = Lock()
        self._is_checked = False
        self._checking = Lock()
        self.look: HeadLook = _Look(self)
        self.trusts_cache = True
        self._recall()

    # reading

    def heads(
        self, ids: Collection[DatasetId] | None = None
    ) -> Iterator[tuple[DatasetId, Multihash | OdfBuildError]]:
        looked = self.ids() if ids is None else list(ids)

        def head(id: DatasetId) -> Multihash | OdfBuildError | None:
            try:
                return read_head(self._client, _head_key(id), self._tags)
            except (CorruptHeadError, BrokenSourceError) as error:  # of this dataset alone
                return error

        heads = list(side_by_side(looked, head))
        if ids is None:
            known = {_head_key(id) for id in looked}
            for key in self._tags.all().keys() - known:
                if key.endswith(f"/refs/{HEAD}"):
                    self._tags.put(key, None)
        self.keep_memory()
        for id, found in zip(looked, heads, strict=True):
            if found is not None:
                yield id, found

    def ids(self) -> list[DatasetId]:
        """Return the ids of all datasets that have anything, in order."""
        names = filter(FOLDER.fullmatch, self._client.below(DATASETS))
        return [DatasetId(bytes.fromhex(name[5:])) for name in names]

    def each(self, items: Collection[T], work: Callable[[T], R]) -> Iterable[R]:
        return side_by_side(items, work)

    def stores(self, id: DatasetId) -> Stores:
        with self._lock:
            known = self._stores.get(id)
            if known is None:
                known = self._stores[id] = self._new_stores(id)
            return known

    def listed(self) -> Iterator[tuple[DatasetId, Stores]]:
        """See `Home.listed`; a store that does not list keys in order is refused, since a dataset
        would be seen in part.
        """
        last = ""
        for name, objects in groupby(self._client.listed(DATASETS), key=_folder_of):
            if name <= last:
                raise _unordered(self._client.place)
            last = name
            if FOLDER.fullmatch(name):
                id = DatasetId(bytes.fromhex(name[5:]))
                yield id, self._new_stores(id, partial(_below, tuple(objects)))

    def _new_stores(self, id: DatasetId, listed: ListObjects | None = None) -> Stores:
        prefix, sent = f"{DATASETS}{id.multibase}/", UploadedObjects()

        def objects(part: str) -> BucketObjects:
            return BucketObjects(
                self._client,
                f"{prefix}{part}/",
                self._cache,
                sent,
                keeps_blocks=part == "blocks",
                trusts=lambda: self.trusts_cache,
                check=self.check,
                listed=listed,
            )

        of = DatasetObjects(objects("blocks"), objects("data"), objects("checkpoints"), sent)
        return Stores(
            heads=BucketHeads(
                self._client,
                prefix,
                self._tags,
                Reach(of, self._wait_for_collector),
                check=self.check,
                listed=listed,
            ),
            blocks=of.blocks,
            data=of.data,
            checkpoints=of.checkpoints,
            checked=CheckedFiles(self._root / "cache" / "checked" / id.multibase),
            attestations=BucketAttestations(self._client, prefix, listed),
        )

    def locks(self) -> Mapping[DatasetId, Holder]:
        return {}

    def has_block(self, head: Multihash) -> bool:
        """Tell whether a block is in the cache."""
        return self._cache.block(head) is not None

    def place(self, id: DatasetId) -> str:
        return f"{self._client.place}{DATASETS}{id.multibase}"

    # writing

    def check(self) -> None:
        """Have a store that keeps conditions, and a layout of this version; look once.

        Raises UnsafeStoreError, WorkspaceFormatError.
        """
        with self._checking:
            if not self._is_checked:
                self._check()
                self._is_checked = True

    def _check(self) -> None:
        able = known_abilities(self._client)
        if not (able.creates_only and able.swaps):
            raise UnsafeStoreError(
                what=f"{self._client.place} cannot be a workspace: the store does not support "
                + ("If-Match" if able.creates_only else "If-None-Match"),
                why="of two simultaneous commits one would be lost without an error",
                fix="use a store with conditional writes; or a workspace on disk, and "
                "odfbuild push to the store",
            )
        found = self._client.get(FORMAT_KEY, LARGEST_FORMAT)
        if found is None:
            found = self._client.swap(FORMAT_KEY, lambda now: now is None, FORMAT)
        check_format(found, self._client.place)

    def make_room(self, id: DatasetId) -> None:  # noqa: ARG002 - a store has no folders
        self.check()

    def take_in(self, id: DatasetId, folder: Path) -> None:
        """Send a folder that is whole; its head last."""
        stores = self.stores(id)
        for part in ("data", "checkpoints", "blocks"):
            store: BucketObjects = getattr(stores, part)
            paths = {as_hash(each.name): each for each in _files(folder / part)}
            store.put({hash: path for hash, path in paths.items() if hash is not None})
        signed = LocalAttestations(folder / "attestations")
        for name in (DELEGATIONS, *signed.heads()):
            envelope = signed.get(name)  # type: ignore[arg-type]
            if envelope is not None:
                stores.attestations.put(name, envelope)  # type: ignore[arg-type]
        refs = [each for each in _files(folder / "refs") if is_ref_name(each.name)]
        for each in sorted(refs, key=lambda path: path.name == HEAD):
            head = parse_head(read_regular(each), each)
            try:
                stores.heads.swap(each.name, expected=None, new=head)
            except HeadMovedError as error:
                if error.actual != head:
                    raise brought_meanwhile(id) from error

    def drop(self, id: DatasetId, head: Multihash) -> None:
        """Take the head away; gc takes the rest."""
        self.stores(id).heads.delete(HEAD, expected=head)

    # memory

    def keep_memory(self) -> None:
        """Remember what was seen, for who looks next and who looks without the store."""
        if not self._remembers:
            return
        if self._tags.changed or self._own_names.changed:
            if keep_memory(self._root, StoreMemory(self._tags.all(), self._own_names.known())):
                self._tags.changed = self._own_names.changed = False
        else:
            touch_memory(self._root)

    def _recall(self) -> None:
        memory = read_memory(self._root)
        if memory is not None:
            self._tags = HeadTags(memory.heads)
            self._own_names.remember(memory.names)


class _Look(HeadLook):
    """The heads of a home, each read once it is asked for."""

    def __init__(self, home: BucketHome) -> None:
        self._home = home
        self._heads: dict[str, str] = {}

    def stats(self) -> str:
        found = self._home.heads()
        return self._lines({id: head for id, head in found if isinstance(head, Multihash)})

    def stats_with(self, read: Callable[[], Heads]) -> tuple[str, Heads]:
        heads = read()
        return self._lines(heads), heads

    def _lines(self, heads: Heads) -> str:
        self._heads = {id.multibase: str(head) for id, head in heads.items()}
        return "\n".join(f"{id} 0 0 0 {head}" for id, head in sorted(self._heads.items()))

    def head(self, id: str) -> str | None:
        return self._heads.get(id)

    def has_blocks(self, heads: Mapping[str, str]) -> bool:
        return all(self._home.has_block(Multihash.parse(head)) for head in heads.values() if head)


def _head_key(id: DatasetId) -> str:
    return f"{DATASETS}{id.multibase}/refs/{HEAD}"


def _folder_of(found: StoredObject) -> str:
    return found.key.removeprefix(DATASETS).partition("/")[0]


def _below(objects: Iterable[StoredObject], prefix: str) -> Iterator[StoredObject]:
    return (each for each in objects if each.key.startswith(prefix))


def _unordered(place: str) -> StateError:
    return UnorderedStoreError(
        what=f"{place} does not list objects in the order of their keys",
        why="gc reads what all datasets have from one list, and would see part of a dataset",
        fix="use a store that lists keys in order, as S3 does in its general purpose buckets; "
        "nothing was deleted",
    )


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_file())
    except FileNotFoundError:
        return []
