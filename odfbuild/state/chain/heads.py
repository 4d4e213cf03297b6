"""Heads: the one thing of a dataset that is ever rewritten, and only by compare-and-swap.

`refs/head` holds the text of a hash and nothing else (ODF 0.34.1, "Dataset Layout"), and so does
every other named reference.  Nobody sets one without saying which block they believe to replace.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar, Final, Protocol, TypeVar

from odfbuild.errors import StateError
from odfbuild.host.files import NO_FILE
from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.state.files.disk import Disk, pending, read_file
from odfbuild.state.files.lock import locked
from odfbuild.texts.redaction import excerpt

HEAD = "head"
DEFAULT_LOCK_TIMEOUT = 10.0
ATTEMPTS: Final = 10
"""How often work is done in a row before a lost race is reported as `head-moved`."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,99}")

Result = TypeVar("Result")


class HeadMovedError(StateError):
    """The head changed before a commit, which therefore changed nothing."""

    code = "head-moved"
    rejection: ClassVar[str] = "RefCASFailed"

    def __init__(
        self, expected: Multihash | None, actual: Multihash | None, name: str = HEAD
    ) -> None:
        which = "the head" if name == HEAD else f"the reference {name}"
        super().__init__(
            what=f"{which} is {_shown(actual)}, not {_shown(expected)}",
            why="another process changed the dataset meanwhile, and history is never overwritten",
            fix="plan again" if name == HEAD else "check it, then try again",
        )
        self.expected = expected
        self.actual = actual


def until_committed(attempt: Callable[[], Result]) -> Result:
    """Return what an attempt gives that reads a state, works and commits; again after a lost race.

    Raises HeadMovedError after the last attempt, and at once when the dataset is gone.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except HeadMovedError as error:
            if left == 0 or error.actual is None:
                raise
    raise AssertionError("the last attempt returns or raises")


class CorruptHeadError(StateError):
    """A head file does not hold a hash."""

    code = "corrupt-head"


class InvalidRefNameError(StateError):
    """A text cannot be the name of a reference."""

    code = "invalid-ref-name"


class HeadStore(Protocol):
    """Named heads of one dataset."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all heads there are, in order."""

    def read(self, name: str = HEAD) -> Multihash | None:
        """Return a head, or None if there is none yet."""

    def swap(self, name: str, *, expected: Multihash | None, new: Multihash) -> None:
        """Replace a head if it is still the expected one (None: must not exist).

        Raises HeadMovedError when it is another, LockedError when the dataset is being changed.
        """

    def delete(self, name: str, *, expected: Multihash) -> None:
        """Take a head away if it is still the expected one; raises as `swap` does."""

    def lock(self, timeout: float | None = None) -> AbstractContextManager[None]:
        """Keep others from changing heads for a while; seconds to wait, None for the default."""


class LocalHeads:
    """Heads as files of a dataset folder's `refs`; the lock is on the dataset folder."""

    def __init__(
        self,
        folder: Path,
        disk: Disk | None = None,
        *,
        timeout: float = DEFAULT_LOCK_TIMEOUT,
        note: Path | None = None,
    ) -> None:
        self._folder = folder
        self._refs = folder / "refs"
        self._disk = disk or Disk()
        self._timeout = timeout
        self._note = note
        self._mine = threading.RLock()
        self._depth = 0

    def names(self) -> tuple[str, ...]:
        try:
            found = [path.name for path in self._refs.iterdir()]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _unreadable(self._refs, error) from error
        return tuple(sorted(name for name in found if _NAME.fullmatch(name)))

    def read(self, name: str = HEAD) -> Multihash | None:
        path = self._refs / checked_name(name)
        try:
            text = read_file(path)
        except OSError as error:
            raise _unreadable(path, error) from error
        return None if text is None else parse_head(text, path)

    def swap(self, name: str, *, expected: Multihash | None, new: Multihash) -> None:
        path = self._refs / checked_name(name)
        with self.lock():
            actual = self.read(name)
            if actual != expected:
                raise HeadMovedError(expected, actual, name)
            draft = pending(self._refs)
            self._disk.write(draft, str(new).encode())
            self._disk.rename(draft, path)
            self._disk.sync(self._refs)

    def delete(self, name: str, *, expected: Multihash) -> None:
        path = self._refs / checked_name(name)
        with self.lock():
            actual = self.read(name)
            if actual != expected:
                raise HeadMovedError(expected, actual, name)
            self._disk.remove(path)
            self._disk.sync(self._refs)

    @contextmanager
    def lock(self, timeout: float | None = None) -> Iterator[None]:
        with self._mine:
            if self._depth:
                yield
                return
            if not self._refs.is_dir():
                self._disk.make_folder(self._refs)
            wait = self._timeout if timeout is None else timeout
            with locked(self._folder, timeout=wait, note=self._note):
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1


class MemoryHeads:
    """Heads in memory."""

    def __init__(self) -> None:
        self._heads: dict[str, Multihash] = {}
        self._mine = threading.RLock()

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._heads))

    def read(self, name: str = HEAD) -> Multihash | None:
        return self._heads.get(checked_name(name))

    def swap(self, name: str, *, expected: Multihash | None, new: Multihash) -> None:
        with self._mine:
            actual = self.read(name)
            if actual != expected:
                raise HeadMovedError(expected, actual, name)
            self._heads[name] = new

    def delete(self, name: str, *, expected: Multihash) -> None:
        with self._mine:
            actual = self.read(name)
            if actual != expected:
                raise HeadMovedError(expected, actual, name)
            del self._heads[name]

    @contextmanager
    def lock(self, timeout: float | None = None) -> Iterator[None]:  # noqa: ARG002
        with self._mine:
            yield


def parse_head(text: bytes, path: Path | str) -> Multihash:
    """Read the content of a head file; CorruptHeadError if it is no hash."""
    try:
        return Multihash.parse(text.decode("ascii"))
    except (UnicodeDecodeError, InvalidMultihashError) as error:
        raise CorruptHeadError(
            what=f"{path} does not hold the hash of a block",
            why="the file must contain only a hash, without a line end",
            fix="restore the file from a copy, or write the hash of the last good block into it",
        ) from error


def _unreadable(path: Path, error: OSError) -> Exception:
    if error.errno not in NO_FILE:
        return error
    return CorruptHeadError(
        what=f"{path} cannot be read as a file: {error.strerror}",
        why="a head is a file with the hash of a block, in the folder `refs`",
        fix="check its access rights, or create the file with the hash of the last good block",
    )


def is_ref_name(name: str) -> bool:
    """Tell whether a text can be the name of a reference."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return the name of a reference; raises InvalidRefNameError of a text that cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRefNameError(
            what=f"{excerpt(name, 100)!r} cannot be the name of a reference",
            why="names begin with a lower-case letter, followed by such letters, digits and "
            "dashes, at most 100 in all",
            fix="choose another name, such as `release-1`",
        )
    return name


def _shown(head: Multihash | None) -> str:
    return "not there" if head is None else str(head)
