"""Files that clients send before their push is complete, stored outside the datasets.

    cache/incoming/<name of the dataset>/<data|checkpoints>/<hash>

A file is accepted only while a push that names it is open, with exactly the size in its block, and
is stored only if it has the hash of its name; so a repeated push continues where it broke off.
Files that no push used within a day are deleted.
"""

import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Lock

from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.protocol import ObjectFile
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.limits import ServerLimits
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

PUSH_HEADER = "x-odfbuild-push"
_PIECE = 1 << 20
_SPARE = 64 << 20  # bytes of a disk that are left free


@dataclass(slots=True)
class OpenPush:
    """A push that waits for files; `secret` shows that a request belongs to it."""

    alias: DatasetAlias
    caller: Caller
    files: Mapping[tuple[str, Multihash], ObjectFile] = field(default_factory=dict)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Uploads:
    """The files of all open pushes of a server."""

    def __init__(self, workspace: Workspace, limits: ServerLimits) -> None:
        self._workspace = workspace
        self._limits = limits
        self._open: list[OpenPush] = []
        self._lock = Lock()
        self._waiting = 0

    def begin(self, push: OpenPush) -> None:
        """Accept files of a push.  Raises AccessError (413) if they are too large."""
        size = sum(each.size for each in push.files.values())
        if size > self._limits.objects:
            raise AccessError(413, f"A push may have {self._limits.objects:,} bytes of files.")
        with self._lock:
            self._open.append(push)

    def end(self, push: OpenPush) -> None:
        """Accept no more files of a push."""
        with self._lock, suppress(ValueError):
            self._open.remove(push)

    def wanted(
        self, alias: DatasetAlias, kind: str, hash: Multihash, caller: Caller, secret: str | None
    ) -> ObjectFile:
        """Return the file that an open push of this caller waits for.  Raises AccessError (409)."""
        with self._lock:
            for push in self._open:
                is_own = caller.token is not None and push.caller.token == caller.token
                is_shown = secret is not None and secrets.compare_digest(secret, push.secret)
                if push.alias == alias and (is_own or is_shown):
                    found = push.files.get((kind, hash))
                    if found is not None:
                        return found
        raise AccessError(409, "You have no open push that names this file.")

    def path(self, alias: DatasetAlias, file: ObjectFile) -> Path:
        """Return the path of a file, whether or not it exists."""
        return self._folder(alias, file.kind) / str(file.hash)

    def has(self, alias: DatasetAlias, file: ObjectFile) -> bool:
        """Return whether a file was sent."""
        with suppress(OSError):
            return self.path(alias, file).lstat().st_size == file.size
        return False

    async def take(self, alias: DatasetAlias, file: ObjectFile, body: AsyncIterator[bytes]) -> None:
        """Store a file that arrives in pieces.

        Raises AccessError: 400 for another size or hash, 507 if there is no room.
        """
        from anyio.to_thread import run_sync

        part = await run_sync(self._begun, alias, file)
        try:
            await self._written(part, file, body)
            await run_sync(part.finish, self.path(alias, file))
        finally:
            self._waiting -= file.size
            await run_sync(part.close)

    async def _written(self, part: "_Part", file: ObjectFile, body: AsyncIterator[bytes]) -> None:
        from anyio.to_thread import run_sync

        ready = bytearray()
        async for piece in body:
            ready += piece
            if part.size + len(ready) > file.size:
                raise AccessError(400, f"The file must have {file.size:,} bytes, but more arrived.")
            if len(ready) >= _PIECE:
                await run_sync(part.write, bytes(ready))
                ready.clear()
        await run_sync(part.write, bytes(ready))
        if part.size != file.size:
            raise AccessError(400, f"The file must have {file.size:,} bytes, not {part.size:,}.")
        if part.digest.digest() != file.hash.digest:
            raise AccessError(400, "The bytes do not have the hash in the name of the file.")

    def _begun(self, alias: DatasetAlias, file: ObjectFile) -> "_Part":
        folder = self._folder(alias, file.kind)
        Disk().make_folder(folder)
        room = os.statvfs(folder)
        free = room.f_bavail * room.f_frsize - self._waiting
        if file.size + _SPARE > free or self._waiting + file.size > self._limits.waiting:
            raise AccessError(507, "There is no room for this file.")
        self._waiting += file.size
        return _Part(folder / f".part-{secrets.token_hex(8)}", file.hash)

    def link(self, alias: DatasetAlias, file: ObjectFile, folder: Path) -> bool:
        """Link a file into a folder with the layout of a dataset; False if it was not sent."""
        target = folder / file.kind
        target.mkdir(exist_ok=True)
        try:
            os.link(self.path(alias, file), target / str(file.hash))
        except FileNotFoundError:
            return False
        return True

    def forget(
        self, alias: DatasetAlias, files: Mapping[tuple[str, Multihash], ObjectFile]
    ) -> None:
        """Delete files that a dataset has now."""
        for each in files.values():
            with suppress(OSError):
                self.path(alias, each).unlink()

    def sweep(self) -> None:
        """Delete the files that no push used in time."""
        with self._lock:
            wanted = {
                str(self.path(push.alias, each))
                for push in self._open
                for each in push.files.values()
            }
        base = self._base
        old = time.time() - self._limits.kept
        for folder, _, names in os.walk(base):
            for name in names:
                path = Path(folder, name)
                with suppress(OSError):
                    if str(path) not in wanted and path.lstat().st_mtime < old:
                        path.unlink()

    @property
    def _base(self) -> Path:
        return self._workspace.root / "cache" / "incoming"

    def _folder(self, alias: DatasetAlias, kind: str) -> Path:
        return self._base / alias.folded.replace("/", "%2F") / kind


class _Part:
    """A file that is being written, and the hash of its bytes so far."""

    def __init__(self, path: Path, hash: Multihash) -> None:
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
        is_sha2 = hash.code == Multicodec.SHA2_256
        self.digest = hashlib.sha256() if is_sha2 else hashlib.sha3_256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.size += len(data)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def finish(self, target: Path) -> None:
        """Write the file to disk, under its final name."""
        os.fsync(self._file.fileno())
        self._path.replace(target)
        Disk().sync(target.parent)

    def close(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)
