"""Private keys: made for a dataset, kept from others, never shown."""

import os
import stat
from pathlib import Path

import pytest
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from odfbuild.odf.identity import DatasetId
from odfbuild.state.keys import KeyFolder, MissingKeyError, UnsafeKeyError


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "keys")


def key_file(tmp_path: Path, dataset: DatasetId) -> Path:
    return tmp_path / "keys" / f"{dataset.multibase}.pem"


def test_the_id_of_a_dataset_is_the_public_key_of_its_private_one(keys: KeyFolder) -> None:
    dataset = keys.new_dataset_key()
    assert keys.has(dataset)
    signature = keys.load(dataset).sign(b"head")
    public = eddsa.new(eddsa.import_public_key(dataset.key), "rfc8032")
    public.verify(b"head", signature)
    with pytest.raises(ValueError, match="not authentic"):
        public.verify(b"other", signature)


def test_every_key_is_another(keys: KeyFolder) -> None:
    assert keys.new_dataset_key() != keys.new_dataset_key()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_a_key(mask: int, keys: KeyFolder, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        dataset = keys.new_dataset_key()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE(key_file(tmp_path, dataset).stat().st_mode) == 0o600
    assert list((tmp_path / "keys").iterdir()) == [key_file(tmp_path, dataset)]


def test_a_key_that_others_can_read_is_not_used(keys: KeyFolder, tmp_path: Path) -> None:
    dataset = keys.new_dataset_key()
    key_file(tmp_path, dataset).chmod(0o640)
    with pytest.raises(UnsafeKeyError) as caught:
        keys.load(dataset)
    assert caught.value.fix.startswith("chmod 600 ")


def test_a_missing_key_is_named(keys: KeyFolder) -> None:
    dataset = DatasetId(b"\x01" * 32)
    assert not keys.has(dataset)
    with pytest.raises(MissingKeyError, match=str(dataset)):
        keys.load(dataset)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no key",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        ECC.generate(curve="P-256").export_key(format="PEM"),
        ECC.generate(curve="Ed25519").public_key().export_key(format="PEM"),
    ],
    ids=["empty", "text", "damaged", "other-curve", "public-only"],
)
def test_a_file_that_is_no_private_key_of_the_dataset_is_refused(
    text: str, keys: KeyFolder, tmp_path: Path
) -> None:
    dataset = keys.new_dataset_key()
    key_file(tmp_path, dataset).write_text(text)
    with pytest.raises(UnsafeKeyError):
        keys.load(dataset)


def test_the_key_of_another_dataset_is_refused(keys: KeyFolder, tmp_path: Path) -> None:
    one, other = keys.new_dataset_key(), keys.new_dataset_key()
    key_file(tmp_path, one).write_bytes(key_file(tmp_path, other).read_bytes())
    with pytest.raises(UnsafeKeyError, match="cannot be trusted") as caught:
        keys.load(one)
    assert "another dataset" in caught.value.why


def test_a_key_does_not_show_itself(keys: KeyFolder, tmp_path: Path) -> None:
    dataset = keys.new_dataset_key()
    key = keys.load(dataset)
    secret = ECC.import_key(key_file(tmp_path, dataset).read_text()).seed
    for shown in (repr(key), str(key), f"{key}", repr(keys)):
        assert secret.hex() not in shown
        assert "PRIVATE KEY-----" not in shown
    assert str(dataset) in repr(key)
