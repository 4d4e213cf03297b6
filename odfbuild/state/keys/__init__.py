"""Private keys of datasets: Ed25519, one file each, readable by nobody but their owner.

The public half is the id of the dataset (ODF 0.34.1, "Dataset Identity").  Keys are never printed
and leave the process only into their file: `<fed01...>.pem`, or `<fed01...>.json` if it is sealed.
"""

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.state.files.disk import Disk, place_new, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.keys.sealed import (
    KeyFile,
    OpenKey,
    SealedKey,
    key_text,
    parse_key,
    private_key,
    unseal,
)
from odfbuild.values import dataclass

_FILE = re.compile(r"fed01([0-9a-f]{64})\.(pem|json)")


class MissingKeyError(StateError):
    """The workspace has no private key for a dataset."""

    code = "missing-key"


class UnsafeKeyError(StateError):
    """A key file is damaged, belongs to another dataset, or can be read by other users."""

    code = "unsafe-key"


class SealedKeyError(StateError):
    """A key is sealed, and no passphrase is given."""

    code = "sealed-key"


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key file of the workspace: whose it is, and what its permissions are."""

    dataset: DatasetId
    path: Path
    sealed: bool
    mode: int

    @property
    def is_private(self) -> bool:
        """Say whether nobody but the owner can use the file."""
        return not self.mode & 0o077


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


class KeyFolder:
    """The keys in one folder of a workspace, mode 0700, one file of mode 0600 for each dataset."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    def new_dataset_key(self, first: Callable[[DatasetId], object] | None = None) -> DatasetId:
        """Make a key, keep its private half, and return the id of a dataset that it owns.

        `first` is done before the key is kept: a key that is left of a creation has its folder.
        """
        from Crypto.PublicKey import ECC

        made = ECC.generate(curve="Ed25519")
        dataset = PrivateKey(made).dataset
        if first is not None:
            first(dataset)
        self._keep(dataset, made.export_key(format="PEM").encode())
        return dataset

    def new_working_key(self, seal: Callable[[OpenKey], KeyFile] | None = None) -> DatasetId:
        """Make a key that is no dataset's, keep it, sealed by `seal` if given; return its id."""
        from Crypto.Random import get_random_bytes

        seed = get_random_bytes(32)
        made = OpenKey(PrivateKey(private_key(seed)).dataset, seed)
        self.take(made if seal is None else seal(made))
        return made.dataset

    def has(self, dataset: DatasetId) -> bool:
        """Say whether the key of a dataset is here, sealed or not."""
        return self._path(dataset).is_file() or self._path(dataset, sealed=True).is_file()

    def kept(self) -> tuple[KeptKey, ...]:
        """Return the key files that are here, by id; none of them is read."""
        if not self._folder.is_dir():
            return ()
        found = []
        for path in sorted(self._folder.iterdir()):
            if (match := _FILE.fullmatch(path.name)) is not None:
                dataset = DatasetId(bytes.fromhex(match[1]))
                mode = stat.S_IMODE(path.stat().st_mode)
                found.append(KeptKey(dataset, path, match[2] == "json", mode))
        return tuple(found)

    def load(self, dataset: DatasetId, passphrase: str | None = None) -> PrivateKey:
        """Return the key of a dataset, opened with the passphrase if it is sealed.

        Raises MissingKeyError, UnsafeKeyError, SealedKeyError or WrongPassphraseError.
        """
        kept = self.export(dataset)
        if isinstance(kept, SealedKey):
            if passphrase is None:
                raise SealedKeyError(
                    what=f"the key of {dataset} is sealed",
                    why="it can only be used with its passphrase",
                    fix="give the passphrase",
                )
            kept = unseal(kept, passphrase)
        return PrivateKey(private_key(kept.seed))

    def export(self, dataset: DatasetId) -> KeyFile:
        """Return what is kept for a dataset, sealed if it is kept so.

        Raises MissingKeyError or UnsafeKeyError.
        """
        for sealed in (False, True):
            path = self._path(dataset, sealed=sealed)
            if (data := read_file(path)) is not None:
                return _read(path, data, dataset, sealed=sealed)
        raise MissingKeyError(
            what=f"there is no private key for {dataset}",
            why="only the creator of a dataset has its key",
            fix="where the dataset was created: odfbuild key export; here: odfbuild key import",
        )

    def take(self, key: KeyFile) -> bool:
        """Keep a key, sealed if it is; say whether it was not here before."""
        if self.has(key.dataset):
            return False
        try:
            match key:
                case OpenKey():
                    self._keep(key.dataset, _pem(key))
                case SealedKey():
                    self._keep(key.dataset, key_text(key).encode(), sealed=True)
        except FileExistsError:  # somebody else brought it meanwhile
            return False
        return True

    def forget(self, dataset: DatasetId) -> None:
        """Delete the key of a dataset that never came to be."""
        self._path(dataset).unlink(missing_ok=True)

    def _keep(self, dataset: DatasetId, text: bytes, *, sealed: bool = False) -> None:
        make_workspace_folder(self._folder.parent, self._folder, mode=0o700, disk=self._disk)
        path = self._path(dataset, sealed=sealed)
        mode = stat.S_IRUSR | stat.S_IWUSR
        try:
            place_new(self._disk, path, text, mode)
        except FileNotFoundError:  # `gc` of age 0 took it for what nobody writes any more
            place_new(self._disk, path, text, mode)

    def _path(self, dataset: DatasetId, *, sealed: bool = False) -> Path:
        return self._folder / f"{dataset.multibase}.{'json' if sealed else 'pem'}"


def _read(path: Path, data: bytes, dataset: DatasetId, *, sealed: bool) -> KeyFile:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise _unsafe(path, "it can be read by other users", f"chmod 600 {path}")
    key = parse_key(data, str(path)) if sealed else _from_pem(path, data)
    if key.dataset != dataset:
        raise _unsafe(path, "it is the key of another dataset", "restore it from a copy")
    return key


def _from_pem(path: Path, data: bytes) -> OpenKey:
    from Crypto.PublicKey import ECC

    try:
        key = ECC.import_key(data)
        public = key.public_key().export_key(format="raw")
        seed = key.seed if key.has_private() else None
    except (ValueError, IndexError, TypeError) as error:
        raise _unsafe(path, "it is not an Ed25519 key", "restore it from a copy") from error
    if seed is None:
        raise _unsafe(path, "its private part is missing", "restore it from a copy")
    return OpenKey(DatasetId(public), seed)


def _pem(key: OpenKey) -> bytes:
    text: str = private_key(key.seed).export_key(format="PEM")
    return text.encode()


def _unsafe(path: Path, why: str, fix: str) -> UnsafeKeyError:
    return UnsafeKeyError(what=f"the key file {path} cannot be trusted", why=why, fix=fix)
