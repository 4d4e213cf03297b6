"""A chain is copied out of a folder that nobody vouches for, or not at all."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName, LocalAttestations
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError, MissingObjectError
from odfbuild.state.copy import NoChainError, UnsafeFolderError, copy_chain, noted_alias, peek
from tests.support.data.histories import Added, History, licensed

SCRIPT = (Added(3), licensed(1), Added(2, columns=2), Added(0, hours=2))


@pytest.fixture
def made(tmp_path: Path) -> Dataset:
    return History(tmp_path / "made", *SCRIPT).dataset


@pytest.fixture
def source(made: Dataset) -> Path:
    return made.stores.heads._folder  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder by their paths."""
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in found}


def refused(source: Path, target: Path, error: type[OdfBuildError], says: str) -> None:
    with pytest.raises(error, match=says):
        copy_chain(source, target)


def test_all_that_the_heads_reach_is_copied_byte_for_byte(source: Path, target: Path) -> None:
    copied = copy_chain(source, target)
    assert files(target) == files(source)
    assert copied.left == ()
    assert copied.bytes == sum(
        len(data) for name, data in files(source).items() if not name.startswith("refs/")
    )
    assert copied.blocks == len(list((source / "blocks").iterdir()))
    assert copied.files == 2


def test_copies_share_no_file_with_what_they_were_copied_from(source: Path, target: Path) -> None:
    copy_chain(source, target)
    nodes = [{each.stat().st_ino for each in folder.rglob("f1620*")} for folder in (source, target)]
    assert nodes[0].isdisjoint(nodes[1])


def test_other_references_come_along(made: Dataset, source: Path, target: Path) -> None:
    hashes = [hash for hash, _ in made.blocks()]
    made.stores.heads.swap("release-1", expected=None, new=hashes[2])
    made.set_head(hashes[3], hashes[-1])
    made.stores.heads.swap("later", expected=None, new=hashes[-1])
    copied = copy_chain(source, target)
    assert files(target) == files(source)
    assert dict(copied.heads) == {"head": hashes[3], "later": hashes[-1], "release-1": hashes[2]}


def test_what_no_head_reaches_stays_behind(made: Dataset, source: Path, target: Path) -> None:
    hashes = [hash for hash, _ in made.blocks()]
    made.set_head(hashes[3], hashes[-1])
    (source / "data" / "notes.txt").write_text("mine")
    (source / "info").mkdir()
    (source / "info" / "summary").write_text("kind: DatasetSummary")
    (source / "..hidden").write_text("x")
    (source / "refs" / "UPPER").write_text("x")
    copied = copy_chain(source, target)
    left = {f"blocks/{each}" for each in hashes[4:]} | {"..hidden", "data/notes.txt", "refs/UPPER"}
    assert left <= set(copied.left)
    assert set(files(target)) == set(files(source)) - set(copied.left) - {"info/summary"}


def test_a_folder_may_be_named_by_a_link(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    copy_chain(tmp_path / "link", target)
    assert files(target) == files(source)


# what is refused


@pytest.mark.parametrize("part", ["refs", "blocks", "data", "checkpoints"])
def test_folders_that_are_links_are_not_followed(part: str, source: Path, target: Path) -> None:
    (source / part).rename(source / "elsewhere")
    (source / part).symlink_to("elsewhere")
    refused(source, target, UnsafeFolderError, f"{part}.*it is a link")


def _file(source: Path, part: str) -> Path:
    return next(each for each in sorted((source / part).iterdir()))


@pytest.mark.parametrize("part", ["refs", "blocks", "data"])
def test_files_that_are_links_are_not_followed(part: str, source: Path, target: Path) -> None:
    file = _file(source, part)
    file.rename(source / "real")
    file.symlink_to(source / "real")
    refused(source, target, UnsafeFolderError, "it is a link")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its path may be longer than a socket's can be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("put", [_pipe, _socket, Path.mkdir])
def test_what_is_no_plain_file_is_not_read(
    put: Callable[[Path], None], source: Path, target: Path
) -> None:
    file = _file(source, "data")
    file.unlink()
    put(file)
    refused(source, target, UnsafeFolderError, "not a regular file|it is a link, or cannot be read")


def test_a_file_far_larger_than_recorded_is_not_copied(source: Path, target: Path) -> None:
    os.truncate(_file(source, "data"), 1 << 40)
    refused(source, target, UnsafeFolderError, "1,099,511,627,776 bytes")
    assert list((target / "data").iterdir()) == []


def test_a_huge_block_or_head_is_not_read(source: Path, target: Path, tmp_path: Path) -> None:
    head = (source / "refs" / "head").read_text()
    os.truncate(source / "blocks" / head, 1 << 40)
    refused(source, target, UnsafeFolderError, "1,099,511,627,776 bytes")
    os.truncate(source / "refs" / "head", 1 << 40)
    (tmp_path / "second").mkdir()
    refused(source, tmp_path / "second", UnsafeFolderError, "1,099,511,627,776 bytes")


def test_what_does_not_fit_on_the_disk_is_not_begun(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 17 << 10

    monkeypatch.setattr("odfbuild.state.copy.shutil.disk_usage", lambda _: Full)
    refused(source, target, StateError, "17,408 are free")
    assert list((target / "data").iterdir()) == []


@pytest.mark.parametrize(
    "text", ["../../etc/passwd", "f1620/../../secret", "", "head", "f1620" + "0" * 64 + "\n"]
)
def test_a_head_is_a_hash_and_no_path(text: str, source: Path, target: Path) -> None:
    (source / "refs" / "head").write_text(text)
    refused(source, target, StateError, "does not hold the hash of a block")


@pytest.mark.parametrize("part", ["blocks", "data"])
def test_missing_and_altered_files_are_named(part: str, source: Path, target: Path) -> None:
    file = _file(source, part)
    if part == "blocks":
        file.write_bytes(file.read_bytes()[:-1] + b"!")
        with pytest.raises(CorruptObjectError):
            copy_chain(source, target)
        target.rename(target.with_name("first"))
        target.mkdir()
    file.unlink()
    with pytest.raises(MissingObjectError) as caught:
        copy_chain(source, target)
    assert caught.value.missing == Multihash.parse(file.name)


def test_a_folder_without_a_head_is_no_dataset(source: Path, target: Path) -> None:
    (source / "refs" / "head").unlink()
    refused(source, target, NoChainError, "is not a dataset")
    refused(source / "nothing", target, NoChainError, "is not a dataset")
    refused(source / "blocks", target, NoChainError, "is not a dataset")


def test_bytes_that_are_no_block_are_refused(source: Path, target: Path) -> None:
    from odfbuild.odf.identity import sha3_256

    data = b"\x10\x00\x00\x00 no block at all " * 3
    (source / "blocks" / str(sha3_256(data))).write_bytes(data)
    (source / "refs" / "head").write_text(str(sha3_256(data)))
    with pytest.raises(OdfBuildError):
        copy_chain(source, target)


# what a folder says of itself


def test_the_name_that_is_noted_is_read(source: Path) -> None:
    assert noted_alias(source) is None
    (source / "info").mkdir()
    (source / "info" / "alias").write_text("acme/rates\n")
    assert noted_alias(source) == "acme/rates"
    (source / "info" / "alias").write_text("x" * 9_999)
    assert noted_alias(source) is None


def test_what_a_chain_says_is_made_out_without_copying(
    made: Dataset, source: Path, tmp_path: Path
) -> None:
    assert peek(source) == made.state()
    assert peek(tmp_path) is None
    _file(source, "blocks").write_bytes(b"")
    assert peek(source) is None


def test_attestations_of_blocks_and_the_delegations_come_along(
    made: Dataset, source: Path, target: Path
) -> None:
    hashes = [hash for hash, _ in made.blocks()]
    signed = LocalAttestations(source / "attestations")
    names: list[AttestationName] = [*hashes, DELEGATIONS]
    for name in names:
        signed.put(name, f"of {name}".encode())
    assert copy_chain(source, target).left == ()
    assert files(target) == files(source)


def test_what_else_lies_among_attestations_stays_behind(
    made: Dataset, source: Path, target: Path
) -> None:
    signed = LocalAttestations(source / "attestations")
    for name in (Multihash(0x16, bytes(32)), *[hash for hash, _ in made.blocks()][-1:]):
        signed.put(name, b"{}")
    (source / "attestations" / "notes.txt").write_text("mine")
    left = copy_chain(source, target).left
    assert left == (f"attestations/{Multihash(0x16, bytes(32))}", "attestations/notes.txt")
    assert [each.name for each in (target / "attestations").iterdir()] == [str(made.head())]


def test_an_attestation_that_is_a_link_or_far_too_large_is_refused(
    made: Dataset, source: Path, target: Path, tmp_path: Path
) -> None:
    (source / "attestations").mkdir()
    place = source / "attestations" / str(made.head())
    place.write_bytes(bytes((1 << 18) + 1))
    refused(source, target, UnsafeFolderError, "bytes")
    place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    again = tmp_path / "again"
    again.mkdir()
    refused(source, again, UnsafeFolderError, "link")
