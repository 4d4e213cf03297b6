"""Workspace: the folder that holds datasets, their names, keys, and work in progress.

    datasets/<fed01...>/{refs,blocks,data,checkpoints}/    and attestations/ where heads are signed;
                                                           nothing else, so it can be served
    names/<alias in lower case, / as %2F>                  the id, and the alias as spelled
    staging/<random>/   keys/   cache/   index.sqlite

A name is written last, so a dataset without one is what an interrupted creation left.
"""

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from odfbuild.errors import OdfBuildError, ProtocolError, StateError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind, Seed, SetPollingSource
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import LONGEST_ALIAS, DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import (
    DEFAULT_LOCK_TIMEOUT,
    HEAD,
    HeadMovedError,
)
from odfbuild.state.chain.index import Index, agrees
from odfbuild.state.chain.seen_heads import SeenHeads
from odfbuild.state.disabled import disable, disabled_folders, enable
from odfbuild.state.files.disk import Disk
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.links import check_staging_links
from odfbuild.state.files.lock import Holder, locked, open_locked
from odfbuild.state.homes import FolderHome, Home, R, file_names, unreadable
from odfbuild.state.keys import KeyFolder
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    from odfbuild.state.lease import FarLeases

COLLECTING: Final = ".gc"  # the lease of who deletes in a store
_HOST = r"[a-z0-9]+(?:[.-][a-z0-9]+)*"
_NAME_FILE = re.compile(rf"{_HOST}(?:%2F{_HOST})?")
_READINGS = 8  # of a chain whose head others move meanwhile
_LISTED = 256  # datasets whose lists are in memory
_SWEEPING = DEFAULT_LOCK_TIMEOUT  # seconds for the steps of one run to get past each other
_LISTINGS: Final = 5  # of names, while datasets are renamed


class AliasTakenError(StateError):
    """A dataset of that name exists, in this or another spelling."""

    code = "alias-taken"


class ClearedAwayError(StateError):
    """A dataset was deleted as a leftover while it was being created."""

    code = "cleared-away"

    def __init__(self, alias: DatasetAlias) -> None:
        super().__init__(
            what=f"{alias} was deleted while it was being created",
            why="gc with age 0 deletes datasets without a name, also new ones",
            fix="repeat the command; gc with its default age does not delete new datasets",
        )


class CorruptNameError(StateError):
    """A file of `names/` was not written by this program."""

    code = "corrupt-name"


class MissingHeadError(StateError):
    """A dataset has a name but no head."""

    code = "missing-head"

    def __init__(self, alias: DatasetAlias) -> None:
        super().__init__(
            what=f"the dataset {alias} has no head",
            why="its head file is missing, so the end of its chain is not known; or its name is "
            "damaged, and refers to another id",
            fix="restore the file from a copy; odfbuild verify has details",
        )


class UnusableNameError(StateError):
    """An alias cannot be used as the name of a file."""

    code = "unusable-name"


class Workspace:
    """The datasets in one folder; reading makes no folders, so an absent one is empty.

    `url` is where they are instead if they are in an object store; `root` then is a folder of this
    machine for what belongs to the workspace and can be lost, or made again.  `seen_at` is when
    they were as they are shown, in seconds since 1970, where nobody is asked.
    """

    is_read_only = False
    seen_at: float | None = None
    url: str | None = None
    far_leases: "FarLeases | None" = None

    def __init__(
        self,
        root: Path,
        *,
        disk: Disk | None = None,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        home: Home | None = None,
    ) -> None:
        self.root = root
        self.keys = KeyFolder(root / "keys", disk)
        self.index = Index(root / "index.sqlite")
        self.seen = SeenHeads(root)
        self._disk = disk or Disk()
        self._lock_timeout = lock_timeout
        self._staging = root / "staging"
        self._home = home or FolderHome(
            root,
            self._disk,
            lock_timeout=lock_timeout,
            keeping=self._keeping,
            remembers=not self.is_read_only,
        )
        self._names = self._home.names
        self.look = self._home.look
        self._wrong_names: dict[str, OdfBuildError] = {}
        self._wrong_chains: dict[DatasetId, OdfBuildError] = {}

    @property
    def cache(self) -> Path:
        """Return the folder of what can be made again, making it first."""
        folder = self.root / "cache"
        make_workspace_folder(self.root, folder)
        return folder

    def now(self) -> float:
        """Return the time by the clock that objects get their ages from, in seconds since 1970."""
        return time.time()

    def read_only(self) -> "Workspace":
        """Return the same workspace, to be looked at."""
        return ReadOnlyWorkspace(self.root)

    def disable(self, dataset: DatasetId, source: SetPollingSource | None) -> None:
        """Note that a source is not to be used; None: no source of this dataset is."""
        disable(self.root, dataset, source)

    def enable(self, dataset: DatasetId) -> bool:
        """Let a source be used; tell whether it was disabled."""
        return enable(self.root, dataset)

    def disabled(self, only: DatasetId | None = None) -> Mapping[str, str]:  # noqa: ARG002
        """Return the marks of sources that are not to be used, by the folders of their datasets.

        With `only`, at least that of one dataset.
        """
        return disabled_folders(self.root)

    def send_run(self, run: str) -> None:
        """Have the record of a run, as it is here by now, where the datasets are."""

    def bring_runs(self) -> None:
        """Have the records of runs at hand that others made."""

    def forget_runs(self, runs: Collection[str]) -> None:
        """Take the records of runs away from where the datasets are."""

    def held_leases(self) -> Mapping[str, float]:
        """Return the names of leases that machines have in a store, and when each was renewed."""
        return {}

    def read_anew(self) -> None:
        """Trust no copy of an object that is kept elsewhere; a folder has none."""

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Say that objects are being deleted; in a folder, locks do that."""
        yield

    # names and heads

    def names(self) -> Mapping[DatasetAlias, DatasetId]:
        """Return the ids of all datasets by alias; a damaged name is noted, see `damage`.

        Where one is gone that was listed, its dataset may have another by now: all are read again.
        """
        for _ in range(_LISTINGS):
            found, is_settled = self._names_listed()
            if is_settled:
                break
        return found

    def _names_listed(self) -> tuple[dict[DatasetAlias, DatasetId], bool]:
        """Return the ids by alias, and whether all names were still there that were listed."""
        found: dict[DatasetAlias, DatasetId] = {}
        is_settled = True
        wrong: dict[str, OdfBuildError] = {}
        for each, reading in self._names.items():
            try:
                read = self._read_name(each, reading)
            except CorruptNameError as error:
                wrong[each] = error
                continue
            if read is None:
                is_settled = False
            else:
                found[read[0]] = read[1]
        self._wrong_names = wrong
        return found, is_settled

    def aliases(self) -> Mapping[DatasetId, DatasetAlias]:
        """Return the names of all datasets by id, as `names` has them."""
        return {id: alias for alias, id in self.names().items()}

    def names_mark(self) -> str:
        """Return what becomes another text when any dataset gets, changes or loses its name."""
        return self._names.mark()

    def damage(self) -> Mapping[DatasetAlias | DatasetId | Path, OdfBuildError]:
        """Return what was found to be damaged so far: datasets by name or id, or files.

        `names`, `heads` and `states` go on without it.
        """
        aliases = self.aliases() if self._wrong_chains else {}
        found: dict[DatasetAlias | DatasetId | Path, OdfBuildError] = {
            _alias_of(name) or self._names.place(name): error
            for name, error in self._wrong_names.items()
        }
        return found | {aliases.get(id, id): error for id, error in self._wrong_chains.items()}

    def damaged_names(self) -> Mapping[DatasetAlias, OdfBuildError]:
        """Return what is wrong with the names of datasets, as they were read last."""
        found = ((_alias_of(name), error) for name, error in self._wrong_names.items())
        return {alias: error for alias, error in found if alias is not None}

    def damage_of(self, id: DatasetId) -> OdfBuildError | None:
        """Return what was found wrong with the chain of a dataset, None if nothing was."""
        return self._wrong_chains.get(id)

    def note_damage(self, id: DatasetId, error: OdfBuildError) -> None:
        """Note that the chain of a dataset cannot be read."""
        self._wrong_chains[id] = error

    def heads(self, ids: Collection[DatasetId] | None = None) -> Mapping[DatasetId, Multihash]:
        """Return the heads of all datasets that have one, also of those without a name.

        With `ids` only theirs are read.  A damaged one is noted, see `damage`.
        """
        found: dict[DatasetId, Multihash] = {}
        for id, head in self._home.heads(ids):
            if isinstance(head, Multihash):
                found[id] = head
            else:
                self._wrong_chains[id] = head
        return found

    def named_heads(
        self, aliases: Collection[DatasetAlias] | None = None
    ) -> Mapping[DatasetAlias, Multihash]:
        """Return the heads of all datasets that have a name, without a look at their chains.

        With `aliases` only theirs are read.
        """
        if aliases is None:
            heads, names = self.heads(), self.names()
        else:
            names = {alias: id for alias, id in self.names().items() if alias in aliases}
            heads = self.heads(names.values())
        return {alias: heads[id] for alias, id in names.items() if id in heads}

    def locks(self) -> Mapping[DatasetId, Holder]:
        """Return who is changing which dataset just now, as far as they said."""
        return self._home.locks()

    def states(
        self,
        names: Mapping[DatasetAlias, DatasetId] | None = None,
        heads: Mapping[DatasetId, Multihash] | None = None,
    ) -> Mapping[DatasetAlias, ChainState]:
        """Return the state of every named dataset, from the index where that is up to date, and
        the blocks at its head say the same.

        One without a head, or whose chain cannot be read, is noted, see `damage`.  With `names`,
        those datasets are meant, and of no others anything is read.  `heads` are those of all if
        they were read just now.
        """
        if names is None:
            heads = self.heads() if heads is None else heads
            known = self.index.get_many(heads) if heads else {}
            names = self.names()
        else:
            heads = self.heads(names.values())
            indexed = ((id, self.index.get(id)) for id in heads)
            known = {id: each for id, each in indexed if each and each.head == heads[id]}

        def state_of(named: tuple[DatasetAlias, DatasetId]) -> ChainState | None:
            state = known.get(named[1])
            return state if state is not None and self._agrees(state) else self._state(*named)

        found = zip(names, self._home.each(names.items(), state_of), strict=True)
        return {alias: state for alias, state in found if state is not None}

    def each(self, datasets: Collection[Dataset], work: Callable[[Dataset], R]) -> Iterable[R]:
        """Return what a work makes of each dataset, in order; several at a time in a store."""
        return self._home.each(datasets, work)

    def each_listed(self, work: Callable[[Dataset], R]) -> Iterator[tuple[DatasetId, R]]:
        """Yield what a work makes of each dataset that has a head, in order.

        In a store it is each that has any object, and what its stores list is from one list of the
        whole workspace, which is read while the work goes on.
        """
        found = (Dataset(id, stores, self.index, self.seen) for id, stores in self._home.listed())
        while some := tuple(islice(found, _LISTED)):
            yield from zip((each.id for each in some), self.each(some, work), strict=True)

    def _agrees(self, state: ChainState) -> bool:
        with suppress(OdfBuildError, OSError):  # which reading the chain will name
            return agrees(state, self.dataset(state.dataset).stores.blocks)
        return False

    def _state(self, alias: DatasetAlias, id: DatasetId) -> ChainState | None:
        """Return the state of a dataset that has a name; None, and a note, if it is damaged."""
        dataset = self.dataset(id)
        heads: list[Multihash | None] = []
        while len(heads) < _READINGS and (len(heads) < 2 or heads[-1] != heads[-2]):
            try:
                state = dataset.state()
                if state is None and self._id_of(alias) == id:  # else it was taken away just now
                    raise MissingHeadError(alias)
            except (OdfBuildError, OSError) as error:
                found = error
            else:
                return state
            head = None
            with suppress(OdfBuildError, OSError):
                head = dataset.head()  # if that moved, gc may have taken what it reached
            if head is None:
                break
            heads.append(head)
        self._wrong_chains[id] = unreadable(self._home.place(id), found)
        return None

    # datasets

    def open(self, ref: DatasetAlias | DatasetId) -> Dataset | None:
        """Return a dataset by name or id, or None if there is none."""
        dataset = self.find(ref)
        return None if dataset is None or dataset.head() is None else dataset

    def find(self, ref: DatasetAlias | DatasetId) -> Dataset | None:
        """Return a dataset by name or id, whether or not it has a head; None if no dataset has the
        name.
        """
        id = ref if isinstance(ref, DatasetId) else self._id_of(ref)
        return None if id is None else self.dataset(id)

    def dataset(self, id: DatasetId) -> Dataset:
        """Return the dataset of an id whether or not it has a block; makes nothing on disk."""
        return Dataset(id, self._home.stores(id), self.index, self.seen)

    def create(
        self,
        alias: DatasetAlias,
        kind: DatasetKind,
        prepared: CommitRequest,
        *,
        id: DatasetId | None = None,
    ) -> Dataset:
        """Make a dataset as `make` does, and return it."""
        return self.dataset(self.make(alias, kind, prepared, id=id).dataset)

    def make(
        self,
        alias: DatasetAlias,
        kind: DatasetKind,
        prepared: CommitRequest,
        *,
        id: DatasetId | None = None,
    ) -> ChainState:
        """Make a dataset: a Seed, then the prepared events; without an id it gets a new key.

        Returns the state that this left.  Raises AliasTakenError, ClearedAwayError, and what
        `Dataset.commit` raises.
        """
        self._refuse_taken(alias)
        try:
            new, state = self._unnamed(kind, prepared, id)
        except FileNotFoundError as error:  # of folders that were just made
            raise ClearedAwayError(alias) from error
        try:
            with self._names.changing():  # gc takes a key away under it, too
                if id is None and not self.keys.has(new):
                    raise ClearedAwayError(alias)
                self._give_name(alias, new)
        except (AliasTakenError, ClearedAwayError):  # of what was made here nobody knows
            with suppress(FileNotFoundError, HeadMovedError):
                self._home.drop(new, state.head)
            if id is None:
                self.keys.forget(new)
            raise
        return state

    def _unnamed(
        self, kind: DatasetKind, prepared: CommitRequest, id: DatasetId | None
    ) -> tuple[DatasetId, ChainState]:
        room = self.make_room
        new = self.keys.new_dataset_key(room) if id is None else room(id).id
        seed = Seed(dataset_id=new, dataset_kind=kind)
        whole = CommitRequest((seed, *prepared.events), prepared.system_time, prepared.files)
        return new, self.dataset(new).commit(whole, on=None)

    def make_room(self, id: DatasetId) -> Dataset:
        """Make the folders of a dataset and return it, ready for its first block."""
        self._home.make_room(id)
        return self.dataset(id)

    def take_in(self, id: DatasetId, folder: Path) -> Dataset:
        """Make a folder that is whole and on disk a dataset, at once; it has no name yet.

        The folder lies on the disk of the workspace.  What an interrupted creation left in its
        place goes.  Raises StateError if there is a dataset, LockedError if one is being made.
        """
        self._home.take_in(id, folder)
        return self.dataset(id)

    def name(self, alias: DatasetAlias, id: DatasetId) -> None:
        """Give a dataset its name, the last step of making it.

        Raises AliasTakenError, and ClearedAwayError if the dataset is gone.
        """
        with self._names.changing():
            self._give_name(alias, id)

    def _give_name(self, alias: DatasetAlias, id: DatasetId) -> None:
        self._refuse_taken(alias)
        self._put_name(alias, id)
        if self.dataset(id).head() is None:  # looked at last: see `drop_unnamed`
            self._names.remove(_name_file(alias))
            raise ClearedAwayError(alias)

    @contextmanager
    def _keeping(self, folder: Path) -> Iterator[None]:
        """Hold the lock of a folder of the workspace, which all take for moments only."""
        with locked(folder, timeout=max(self._lock_timeout, _SWEEPING)):
            yield

    def _put_name(self, alias: DatasetAlias, id: DatasetId) -> None:
        try:
            self._names.create(_name_file(alias), _name_text(alias, id))
        except FileExistsError as error:
            raise self._taken(alias, self._id_of(alias)) from error

    def rename(self, old: DatasetAlias, new: DatasetAlias) -> None:
        """Give a dataset another name; its id and chain stay.

        A crash half way leaves it with both names; renaming it once more ends that.  Raises
        AliasTakenError when another dataset has the new name.
        """
        with self._names.changing():
            self._rename(old, new)

    def _rename(self, old: DatasetAlias, new: DatasetAlias) -> None:
        id = self._id_of(old)
        if id is None:
            raise StateError(
                what=f"no dataset named '{old}' in the workspace",
                why="it was renamed or removed meanwhile",
                fix="plan again",
            )
        if old == new:
            self._names.replace(_name_file(new), _name_text(new, id))
            return
        if self._id_of(new) != id:
            self._put_name(new, id)
        self._names.remove(_name_file(old))

    def remove(self, alias: DatasetAlias, id: DatasetId, expected: Multihash) -> None:
        """Take the name and then the head of a dataset away; its objects stay where they are.

        Raises, with nothing changed, HeadMovedError when the head is another, and StateError when
        the dataset has another name by now.
        """
        dataset = self.dataset(id)
        with dataset.stores.heads.lock(), self._names.changing():
            if (actual := dataset.head()) != expected:
                raise HeadMovedError(expected, actual)
            if self._id_of(alias) == id:
                self._names.remove(_name_file(alias))
            elif id in self.names().values():
                raise StateError(
                    what=f"{alias} was renamed meanwhile",
                    why="a dataset is retired by its name",
                    fix="check it: odfbuild status",
                )
            dataset.stores.heads.delete(HEAD, expected=expected)

    def drop_unnamed(self, id: DatasetId, head: Multihash) -> bool:
        """Take the head of a dataset away that no name leads to; say whether none does now.

        Where a name was given meanwhile, the head is put back; who gives one looks for the head
        afterwards.  Raises HeadMovedError.
        """
        heads = self.dataset(id).stores.heads
        heads.delete(HEAD, expected=head)
        if id not in self.names().values():
            return True
        heads.swap(HEAD, expected=None, new=head)
        return False

    # staging

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a new folder on the disk of the datasets, gone afterwards; sweep stale ones."""
        check_staging_links(self.root)
        make_workspace_folder(self.root, self._staging, disk=self._disk)
        with self._keeping(self._staging):
            self._sweep()
            folder = self._staging / secrets.token_hex(8)
            folder.mkdir()
            opened = open_locked(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if opened is not None:
                os.close(opened)

    def sweep_staging(self) -> None:
        """Delete what processes that are gone have left in the staging folder."""
        if self._staging.is_dir():
            with self._keeping(self._staging):
                self._sweep()

    def _sweep(self) -> None:
        """Delete the folders of processes that are gone: theirs alone are not locked."""
        for name in file_names(self._staging):
            folder = self._staging / name
            with suppress(FileNotFoundError):  # its own step may be deleting it just now
                if folder.is_symlink() or not folder.is_dir():
                    continue
                if (opened := open_locked(folder)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(opened)

    # name files

    def _id_of(self, alias: DatasetAlias) -> DatasetId | None:
        name = _name_file(alias)
        found = self._read_name(name, partial(self._names.read, name))
        return None if found is None else found[1]

    def _read_name(
        self, name: str, reading: Callable[[], bytes | None]
    ) -> tuple[DatasetAlias, DatasetId] | None:
        try:
            text = reading()
        except OSError as error:
            raise CorruptNameError(
                what=f"{self._names.place(name)} cannot be read: {error.strerror}",
                why="it holds the id of a dataset and its name",
                fix="check its access rights, or restore it from a copy",
            ) from error
        if text is None:
            return None
        with suppress(ProtocolError, UnicodeDecodeError, ValueError):
            id, spelling, rest = text.decode("ascii").split("\n")
            alias = DatasetAlias.parse(spelling)
            if not rest and _name_file(alias) == name:
                return alias, DatasetId.parse(id)
        raise CorruptNameError(
            what=f"{self._names.place(name)} is damaged",
            why="it holds the id of a dataset and its name, on two lines",
            fix="restore it from a copy; the id is the name of a folder in datasets/",
        )

    def _refuse_taken(self, alias: DatasetAlias) -> None:
        id = self._id_of(alias)
        if id is not None:
            raise self._taken(alias, id)

    def _taken(self, alias: DatasetAlias, id: DatasetId | None) -> StateError:
        if id is not None and self.dataset(id).head() is None:  # a name is given after the head
            return MissingHeadError(alias)
        return AliasTakenError(
            what=f"the dataset {alias} exists already" + ("" if id is None else f": {id}"),
            why="names are unique regardless of case",
            fix="choose another name, or open the dataset",
        )


def _alias_of(name: str) -> DatasetAlias | None:
    """Return the alias that a name file is of, None if it is of none."""
    with suppress(OdfBuildError):
        alias = DatasetAlias.parse(name.replace("%2F", "/"))
        return alias if _name_file(alias) == name else None
    return None


def _name_text(alias: DatasetAlias, id: DatasetId) -> bytes:
    return f"{id}\n{alias}\n".encode()


def _name_file(alias: DatasetAlias) -> str:
    """Return the file name of an alias; whatever could leave the folder is refused."""
    name = alias.file_name
    if _NAME_FILE.fullmatch(name) is None or len(name) > LONGEST_ALIAS:
        raise UnusableNameError(
            what=f"{excerpt(str(alias), 80)!r} cannot name a dataset here",
            why=f"names are letters, digits, inner dots and dashes, at most {LONGEST_ALIAS} long",
            fix="give the dataset another name",
        )
    return name


class ReadOnlyError(StateError):
    """A read-only command would change the workspace."""

    code = "read-only"


class ReadOnlyDisk(Disk):
    """A file system that refuses every change."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> NoReturn:  # noqa: ARG002
        raise _refusal(path)

    def sync(self, path: Path) -> NoReturn:
        raise _refusal(path)

    def rename(self, old: Path, new: Path) -> NoReturn:  # noqa: ARG002
        raise _refusal(new)

    def link(self, old: Path, new: Path) -> NoReturn:  # noqa: ARG002
        raise _refusal(new)

    def remove(self, path: Path) -> NoReturn:
        raise _refusal(path)


class ReadOnlyWorkspace(Workspace):
    """The datasets in a folder, to be looked at; chains are read again, since even the index of a
    workspace is a file that is written to.
    """

    is_read_only = True

    def __init__(self, root: Path) -> None:
        super().__init__(root, disk=ReadOnlyDisk())
        self.index = Index()

    @property
    def cache(self) -> Path:
        """Refuse: what is kept there would be written."""
        raise OSError(errno.EROFS, "the workspace is read-only", str(self.root))


def _refusal(path: Path) -> ReadOnlyError:
    return ReadOnlyError(
        what=f"{path} would be changed by a read-only command",
        why="a check for differences must not make any",
        fix="report this as a defect of odfbuild",
    )
