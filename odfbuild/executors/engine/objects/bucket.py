"""Objects of one job below a prefix of an object store, and those that several jobs share."""

import hashlib
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from odfbuild.executors.engine.objects.files import MOST_BYTES, SHARED, BadJobError, JobFile
from odfbuild.executors.engine.objects.leftovers import RENEWED
from odfbuild.state.chain.objects import StoredFile, checked_pieces
from odfbuild.state.remote.store.bucket import Bucket


class BucketPlace:
    """A job below a prefix of an object store; `url` ends with a slash."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._url = url
        self._clock = clock
        self._bucket = Bucket(url)

    def shown(self, name: str) -> str:
        return f"{self._url}{name}"

    def get(self, name: str) -> bytes | None:
        return self._bucket.get(name, MOST_BYTES)

    def create(self, name: str, data: bytes) -> bool:
        found = self._bucket.create_or_look(name, data, lambda: self.get(name))
        return found in (None, data)

    def replace(self, name: str, data: bytes) -> None:
        self._bucket.put(name, data)

    def given(self, file: JobFile, folder: Path) -> Path:
        if file.shared:
            return self._shared._brought(file, file.stored, folder / file.stored)
        return self._brought(file, file.path, folder / file.path)

    def made(self, file: JobFile, folder: Path) -> Path:
        return self._brought(file, file.stored, folder / file.path)

    def _brought(self, file: JobFile, name: str, path: Path) -> Path:
        if self._bucket.size(name) != file.size:
            raise other_file(self.shown(name), "it does not exist, or has another size")
        with self._bucket.open(name, 0) as pieces:
            return copied(pieces, file, path, self.shown(name))

    @cached_property
    def _shared(self) -> "BucketPlace":
        """Return where shared files are: beside the job."""
        above, _, _ = self._url.rstrip("/").rpartition("/")
        return BucketPlace(f"{above}/{SHARED}/")

    def has(self, file: JobFile) -> bool:
        return self._bucket.size(file.stored) == file.size

    def store(self, path: Path, file: JobFile) -> None:
        self._bucket.put_file(file.stored, path, overwrite=True)

    def upload(self, path: Path, file: JobFile, url: str | None = None) -> None:
        """Store a file that a request names; a shared one that is there is not sent again.

        One of which there is an object at `url`, in the same bucket, is copied by the store.
        """
        if not file.shared:
            self._bucket.put_file(file.path, path, overwrite=True)
        elif not self._stays(file) and not (
            url is not None and self._shared._bucket.copy(url, file.stored)
        ):
            self._shared.store(path, file)

    def refer(self, stored: StoredFile, file: JobFile) -> None:
        """Have a shared file that is in an object store; of another store, its bytes pass here.

        Raises CorruptObjectError if these are not those of its name, and what opening them does; a
        copy within one store is checked by who reads it.
        """
        shared = self._shared
        if self._stays(file) or shared._bucket.copy(stored.url, file.stored):
            return
        with stored.pieces() as pieces:
            shared._bucket.put_pieces(
                file.stored, file.size, checked_pieces(stored.hash, pieces, stored.origin)
            )

    def _stays(self, file: JobFile) -> bool:
        """Tell whether a shared file is there for as long as a job may need it; renew an old one.

        No store copies an object onto itself, so that is done by way of the job.
        """
        shared = self._shared
        found = shared._bucket.facts(file.stored)
        if found is None or found.size != file.size:
            return False
        if found.touched > self._clock() - RENEWED:
            return True
        aside = f"renewed-{file.stored}"
        try:
            return self._bucket.copy(shared.shown(file.stored), aside) and shared._bucket.copy(
                self.shown(aside), file.stored
            )
        finally:
            self._bucket.delete(aside)

    def clear(self) -> None:
        """Take the whole job away."""
        for each in list(self._bucket.listed("")):
            self._bucket.delete(each.key)

    def working_folder(self) -> "TemporaryDirectory[str]":
        return TemporaryDirectory(prefix="odfbuild-step-", ignore_cleanup_errors=True)


def copied(pieces: Iterable[bytes], file: JobFile, path: Path, shown: str) -> Path:
    """Write a file while it is hashed.  Raises BadJobError if its size or hash is another."""
    digest, size = hashlib.sha3_256(), 0
    with path.open("xb") as target:
        for piece in pieces:
            size += len(piece)
            if size > file.size:
                break
            digest.update(piece)
            target.write(piece)
    if size != file.size:
        raise other_file(shown, "its size is another")
    if digest.digest() != file.hash.digest:
        raise other_file(shown, "its hash is another")
    return path


def other_file(shown: str, why: str) -> BadJobError:
    return refused_job(
        f"{shown} is not the file that the request names: {why}",
        "a step over other rows would be another step",
    )


def refused_job(what: str, why: str) -> BadJobError:
    return BadJobError(what=what, why=why, fix="the coordinator has to write the job again")
