"""Archives of blocks: written as the reference writes them, read as if by a stranger."""

import gzip
import io
import os
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.repositories.smart.archive import (
    ArchiveLimits,
    UnsafeArchiveError,
    pack,
    unpack,
)
from odfbuild.state.chain.objects import CorruptObjectError

DATA = (b"first", b"", b"x" * 512, b"y" * 513)
BLOCKS = [(sha3_256(each), each) for each in DATA]
NAME = str(BLOCKS[0][0])


def tar(*entries: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, format: int = 1) -> bytes:
    """Return a packed archive that the standard library made."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data) if kind == tarfile.REGTYPE else 0, kind
            info.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue())


@given(st.lists(st.binary(max_size=2_000), unique=True, max_size=20))
def test_what_is_packed_comes_back_in_its_order(blocks: list[bytes]) -> None:
    named = [(sha3_256(each), each) for each in blocks]
    assert list(unpack(pack(named), blocks=len(named))) == named


def test_another_reader_of_tar_finds_the_same_entries() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(BLOCKS)), mode="r:gz") as archive:
        members = archive.getmembers()
        read = [(each.name, archive.extractfile(each)) for each in members]
        assert [(name, file and file.read()) for name, file in read] == [
            (str(hash), data) for hash, data in BLOCKS
        ]
        assert {(each.mode, each.uid, each.mtime, each.uname) for each in members} == {
            (0, 0, 0, "")
        }


def test_a_header_has_a_name_a_size_a_checksum_and_the_mark_of_gnu_only() -> None:
    header = gzip.decompress(pack([BLOCKS[2]]))[:512]
    expected = bytearray(512)
    expected[: len(NAME)] = str(BLOCKS[2][0]).encode()
    expected[124:148] = b"00000001000\x0000000000000\x00"
    expected[148:156] = header[148:156]
    expected[257:265] = b"ustar  \x00"
    assert header == bytes(expected)
    assert int(header[148:155], 8) == sum(header) - sum(header[148:156]) + 8 * 32


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_archives_of_other_programs_are_read(format: int) -> None:
    entries = [(str(hash), data) for hash, data in BLOCKS]
    assert list(unpack(tar(*entries, format=format), blocks=4)) == BLOCKS


HOSTILE: dict[str, tuple[bytes, int]] = {
    "a name with dots": (tar(("../" + NAME, DATA[0])), 1),
    "an absolute name": (tar(("/var/" + NAME, DATA[0])), 1),
    "a name that is no hash": (tar(("head", DATA[0])), 1),
    "a hash in other letters": (tar((NAME.upper(), DATA[0])), 1),
    "a name in another encoding": (tar((BLOCKS[0][0].to_base58(), DATA[0])), 1),
    "a hash of another kind": (tar(("f1220" + "00" * 32, DATA[0])), 1),
    "a longer name": (tar(("a" * 150, DATA[0]), format=tarfile.GNU_FORMAT), 1),
    "a name in a header of pax": (tar(("ä" * 80, DATA[0]), format=tarfile.PAX_FORMAT), 1),
    "a link": (tar((NAME, b""), kind=tarfile.SYMTYPE), 1),
    "a hard link": (tar((NAME, b""), kind=tarfile.LNKTYPE), 1),
    "a folder": (tar((NAME, b""), kind=tarfile.DIRTYPE), 1),
    "a device": (tar((NAME, b""), kind=tarfile.CHRTYPE), 1),
    "one block twice": (tar((NAME, DATA[0]), (NAME, DATA[0])), 2),
    "more than announced": (pack(BLOCKS), 3),
    "fewer than announced": (pack(BLOCKS), 5),
    "nothing, where one was announced": (pack([]), 1),
    "more than anybody may announce": (pack(BLOCKS), 2_000_000),
    "no gzip": (b"plain text", 1),
    "no bytes": (b"", 1),
    "something behind it": (pack(BLOCKS) + b"x", 4),
    "another archive behind it": (pack(BLOCKS) + pack(BLOCKS), 4),
    "something in the padding": (gzip.compress(gzip.decompress(pack(BLOCKS)) + b"x"), 4),
    "endless padding": (gzip.compress(gzip.decompress(pack(BLOCKS)) + bytes(5 << 20)), 4),
    "a wrong checksum": (gzip.compress(b"\x00" * 10 + gzip.decompress(pack(BLOCKS))[10:]), 4),
}


@pytest.mark.parametrize(("payload", "count"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_archive_of_blocks_is_refused(payload: bytes, count: int) -> None:
    with pytest.raises(UnsafeArchiveError):
        list(unpack(payload, blocks=count))


def test_a_block_that_does_not_hash_to_its_name_is_refused() -> None:
    with pytest.raises(CorruptObjectError):
        list(unpack(tar((NAME, b"other")), blocks=1))


def test_an_archive_that_is_cut_off_anywhere_is_refused() -> None:
    whole = pack(BLOCKS)
    for length in range(len(whole)):
        with pytest.raises(UnsafeArchiveError):
            list(unpack(whole[:length], blocks=len(BLOCKS)))


@given(st.data())
def test_any_byte_that_is_changed_is_found(data: st.DataObject) -> None:
    whole = bytearray(gzip.decompress(pack(BLOCKS)))
    at = data.draw(st.integers(0, len(whole) - 1025))  # of the mark at the end any zeros do
    whole[at] ^= data.draw(st.integers(1, 255))
    inside = [
        start + 512 + len(each) for start, each in zip((0, 1024, 1536, 2560), DATA, strict=True)
    ]
    is_padding = any(end <= at < end + -end % 512 for end in inside)
    with suppress(UnsafeArchiveError, CorruptObjectError):
        assert is_padding or not list(unpack(gzip.compress(bytes(whole)), blocks=4))


def bomb(size: int) -> bytes:
    """Return an archive of one entry that says it has so many bytes, and has them: zeros."""
    header = gzip.decompress(tar((NAME, b"")))[:512]
    blank = header[:124] + b"%011o\0" % size + header[136:148] + b" " * 8 + header[156:]
    header = blank[:148] + b"%07o\0" % sum(blank) + blank[156:]
    return repeated(header, bytes(1 << 20), size >> 20)


def endless(size: int) -> bytes:
    """Return many blocks that are alike, packed to a thousandth."""
    one = gzip.decompress(tar((NAME, DATA[0])))[:1024]
    return repeated(b"", one * 1024, size >> 20)


def repeated(first: bytes, block: bytes, count: int) -> bytes:
    """Return `first` and a block so many times, packed by gzip; the block is packed once."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    begin = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    one = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = zlib.crc32(first)
    for _ in range(count):
        checksum = zlib.crc32(block, checksum)
    size = len(first) + count * len(block)
    end = packer.flush() + struct.pack("<II", checksum, size % (1 << 32))
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + begin + one * count + end


@pytest.mark.parametrize(
    "make", [lambda: bomb(1 << 30), lambda: bomb(60 << 20), lambda: endless(64 << 20)]
)
def test_a_small_archive_that_unpacks_to_much_is_refused_in_little_memory(
    make: Callable[[], bytes],
) -> None:
    payload = make()
    assert len(payload) < 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeArchiveError):
            list(unpack(payload, blocks=1_000_000, limits=ArchiveLimits(bytes=64 << 20)))
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_what_is_packed_once_is_what_gzip_packs() -> None:
    assert gzip.decompress(repeated(b"first", b"block" * 999, 7)) == b"first" + b"block" * 6_993


def test_blocks_that_do_not_pack_are_no_bomb() -> None:
    data = os.urandom(3 << 20)
    assert list(unpack(pack([(sha3_256(data), data)]), blocks=1)) == [(sha3_256(data), data)]


def test_the_hash_in_a_name_is_read_as_it_is_written() -> None:
    assert [hash for hash, _ in unpack(pack(BLOCKS[:1]), blocks=1)] == [Multihash.parse(NAME)]
