"""Private keys of datasets: Ed25519, one file each, readable by nobody but their owner.

The public half is the id of the dataset (ODF 0.34.1, "Dataset Identity").  Keys are never printed
and leave the process only into their file.
"""

import stat
from pathlib import Path
from typing import Any

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.state.disk import Disk, pending, read_file

__all__ = ["Keys", "MissingKeyError", "PrivateKey", "UnsafeKeyError"]


class MissingKeyError(StateError):
    """There is no private key for a dataset."""

    code = "missing-key"


class UnsafeKeyError(StateError):
    """A key file is damaged, is another dataset's, or can be read by others."""

    code = "unsafe-key"


class PrivateKey:
    """A key that can sign; it does not show itself."""

    __slots__ = ("_key", "dataset")

    def __init__(self, key: Any) -> None:
        self._key = key
        self.dataset = DatasetId(key.public_key().export_key(format="raw"))

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of the Ed25519 signature (RFC 8032) of a message."""
        from Crypto.Signature import eddsa

        signature: bytes = eddsa.new(self._key, "rfc8032").sign(message)
        return signature

    def __repr__(self) -> str:
        return f"PrivateKey of {self.dataset}"


class Keys:
    """The keys in one folder, mode 0700, one file of mode 0600 for each dataset."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    def new_dataset_key(self) -> DatasetId:
        """Make a key, keep its private half, and return the id of a dataset that it owns."""
        from Crypto.PublicKey import ECC

        made = ECC.generate(curve="Ed25519")
        dataset = PrivateKey(made).dataset
        self._keep(dataset, made.export_key(format="PEM").encode())
        return dataset

    def has(self, dataset: DatasetId) -> bool:
        """Say whether the key of a dataset is here."""
        return self._path(dataset).is_file()

    def load(self, dataset: DatasetId) -> PrivateKey:
        """Return the key of a dataset; raises MissingKeyError or UnsafeKeyError."""
        from Crypto.PublicKey import ECC

        path = self._path(dataset)
        text = read_file(path)
        if text is None:
            raise MissingKeyError(
                what=f"there is no private key for {dataset}",
                why="only who made a dataset has its key",
                fix="copy the key file from where the dataset was made",
            )
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise _unsafe(path, "it can be read by other users", f"chmod 600 {path}")
        try:
            key = PrivateKey(ECC.import_key(text))
        except (ValueError, IndexError, TypeError) as error:
            raise _unsafe(path, "it is no Ed25519 key", "restore it from a copy") from error
        if key.dataset != dataset:
            raise _unsafe(path, "it is the key of another dataset", "restore it from a copy")
        return key

    def _keep(self, dataset: DatasetId, text: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        near = pending(self._folder)
        try:
            self._disk.write(near, text, mode=stat.S_IRUSR | stat.S_IWUSR)
            self._disk.link(near, self._path(dataset))
        finally:
            near.unlink(missing_ok=True)
        self._disk.sync(self._folder)

    def _path(self, dataset: DatasetId) -> Path:
        return self._folder / f"{dataset.multibase}.pem"


def _unsafe(path: Path, why: str, fix: str) -> UnsafeKeyError:
    return UnsafeKeyError(what=f"the key file {path} cannot be trusted", why=why, fix=fix)
