"""Decompression: right bytes or an error, never wrong bytes."""

import base64
import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest import prepare as module
from odfbuild.executors.ingest.prepare import DamagedArchiveError, prepare
from odfbuild.odf.events import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe

GZIP = PrepStepDecompress(format=CompressionFormat.GZIP)
BZIP = PrepStepPipe(command=("bzip2", "-dc"))
XZ = PrepStepPipe(command=("xz", "-dc"))
ZSTD = PrepStepPipe(command=("zstd", "-dc"))
ZIP = PrepStepDecompress(format=CompressionFormat.ZIP)
TEXT = b"".join(b"%d,row number %d\n" % (i, i * i) for i in range(400))


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


PACKERS: dict[PrepStep, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    BZIP: bz2.compress,
    XZ: lzma.compress,
    ZSTD: zstandard,
    ZIP: lambda data: zipped({"a.csv": data}),
}
# what `zstd -19` makes of the first rows, with the checksum that Arrow leaves out
CHECKED = base64.b64decode(
    "KLUv/QRoNQcA5hQtE7AnHUew0QUM2clNkkwyeVbE5XQpACYAJQA7naOWuJe5+nB2OZaciHAcNX+sXOzzUWmnVzN3"
    "5ARwGAgIiAIgYTgEJJ3xnImUzOhRncfoqkXRvXhHPXUv3FVpOo92NDsRS8cX587gahQMvEeVkvcpe+Uxnl/U46An"
    "cvFYqpntMatPMXt9Ri3NTvSsxsxcYeNw0fwZtHIL2oenUWWIdpZpJWNolqI0ykkTIaFRXJ5lhlfSwjsDO6gRSBjU"
    "7r4B4OViEF7WB+NxAjTIiHZ9sMd0M2g4PrH9dCUnN16Z18wEZq4EyCqxfM7X"
)
NAMES = ["gzip", "bzip2", "xz", "zstd", "zip"]
every = pytest.mark.parametrize("step", PACKERS, ids=NAMES)
streams = pytest.mark.parametrize("step", list(PACKERS)[:4], ids=NAMES[:4])


def prepared(data: bytes, tmp_path: Path, *steps: PrepStep) -> bytes:
    source = tmp_path / "data.bin"
    source.write_bytes(data)
    return prepare(steps, source, tmp_path, name="data.bin").read_bytes()


def refused(data: bytes, tmp_path: Path, *steps: PrepStep) -> DamagedArchiveError:
    with pytest.raises(DamagedArchiveError) as caught:
        prepared(data, tmp_path, *steps)
    assert not list(tmp_path.glob("unpacked-*"))
    return caught.value


def test_without_steps_the_file_is_used_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_bytes(TEXT)
    assert prepare((), source, tmp_path) == source


def test_gzip_gives_its_bytes_and_leaves_the_source(tmp_path: Path) -> None:
    assert prepared(gzip.compress(TEXT), tmp_path, GZIP) == TEXT
    assert gzip.decompress((tmp_path / "data.bin").read_bytes()) == TEXT


def test_all_members_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    data = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"more\n") + b"\0" * 512
    assert prepared(data, tmp_path, GZIP) == TEXT + b"more\n"


def test_steps_are_applied_in_turn(tmp_path: Path) -> None:
    assert prepared(gzip.compress(zipped({"a.csv": TEXT})), tmp_path, GZIP, ZIP) == TEXT


def test_what_lies_between_two_steps_is_removed(tmp_path: Path) -> None:
    prepared(gzip.compress(zipped({"a.csv": TEXT})), tmp_path, GZIP, ZIP)
    assert len(list(tmp_path.glob("unpacked-*"))) == 1


@streams
def test_the_formats_beside_zip_give_their_bytes(tmp_path: Path, step: PrepStep) -> None:
    assert prepared(PACKERS[step](TEXT), tmp_path, step) == TEXT
    large = TEXT * 700  # more than a block
    assert prepared(PACKERS[step](large), tmp_path, step) == large


@streams
@given(members=st.lists(st.binary(max_size=3000), min_size=1, max_size=4))
def test_members_come_out_as_their_concatenation(
    tmp_path_factory: pytest.TempPathFactory, step: PrepStep, members: list[bytes]
) -> None:
    data = b"".join(PACKERS[step](member) for member in members)
    assert prepared(data, tmp_path_factory.mktemp("packed"), step) == b"".join(members)


@streams
def test_rubbish_after_the_last_member_is_refused(tmp_path: Path, step: PrepStep) -> None:
    refused(PACKERS[step](TEXT) + b"rubbish", tmp_path, step)


@pytest.mark.parametrize("step", [GZIP, BZIP, XZ], ids=["gzip", "bzip2", "xz"])
def test_zeros_may_fill_the_last_block(tmp_path: Path, step: PrepStep) -> None:
    data = PACKERS[step](TEXT) + b"\0" * 512 + PACKERS[step](TEXT) + b"\0" * (3 << 20)
    assert prepared(data, tmp_path, step) == TEXT + TEXT


@every
def test_a_file_cut_anywhere_is_refused_by_name(tmp_path: Path, step: PrepStep) -> None:
    whole = PACKERS[step](TEXT)
    for length in [*range(0, len(whole), 50), len(whole) - 1]:
        error = refused(whole[:length], tmp_path, step)
        assert error.what.startswith("data.bin is not a complete ")


@every
def test_a_flipped_byte_never_gives_wrong_data(tmp_path: Path, step: PrepStep) -> None:
    text = TEXT[: TEXT.index(b"60,")] if step is ZSTD else TEXT
    whole = CHECKED if step is ZSTD else PACKERS[step](text)
    assert prepared(whole, tmp_path, step) == text
    for position in range(0, len(whole), 7 if step is ZSTD else 50):
        broken = bytearray(whole)
        broken[position] ^= 0x55
        try:
            found = prepared(bytes(broken), tmp_path, step)
        except DamagedArchiveError:
            continue
        assert found == text


def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path) -> None:
    error = refused(b"garbage", tmp_path, ZIP)
    assert error.what == "data.bin is not a complete zip file"
    assert error.fix == "fetch it again; if it never was zip, correct `prepare`"
    error = refused(b"city,population\n", tmp_path, GZIP)
    assert error.why == "Not a gzipped file (b'ci')"
    assert refused(b"", tmp_path, GZIP).why == "the file is empty"


def test_a_cut_off_gzip_is_called_cut_off(tmp_path: Path) -> None:
    error = refused(gzip.compress(TEXT)[:-20], tmp_path, GZIP)
    assert error.why == "it ends too early: the file was cut off"


def test_without_sub_path_the_first_file_is_taken(tmp_path: Path) -> None:
    data = zipped({"folder/": b"", "folder/b.csv": TEXT, "a.csv": b"other"})
    assert prepared(data, tmp_path, ZIP) == TEXT


@pytest.mark.parametrize("wanted", ["x/b.csv", "*/b.csv", "x/b.*", "*b.csv"])
def test_sub_path_names_an_entry_exactly_or_by_pattern(tmp_path: Path, wanted: str) -> None:
    data = zipped({"a.csv": b"other", "x/b.csv": TEXT})
    step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=wanted)
    assert prepared(data, tmp_path, step) == TEXT


def test_an_exact_name_wins_over_the_pattern_that_it_also_is(tmp_path: Path) -> None:
    data = zipped({"a[1].csv": TEXT, "a1.csv": b"other"})
    step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path="a[1].csv")
    assert prepared(data, tmp_path, step) == TEXT


def test_a_sub_path_that_fits_none_or_several_lists_the_entries(tmp_path: Path) -> None:
    data = zipped({f"{letter}.csv": b"" for letter in "abcdefg"})
    step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path="?.csv")
    error = refused(data, tmp_path, step)
    assert error.what == "7 entries of data.bin match `subPath: ?.csv`"
    assert error.why == "they are a.csv, b.csv, c.csv, d.csv, e.csv and 2 more"
    step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path="z.csv")
    error = refused(data, tmp_path, step)
    assert error.what == "no entry of data.bin matches `subPath: z.csv`"
    assert error.why == "it holds a.csv, b.csv, c.csv, d.csv, e.csv and 2 more"


def test_an_archive_of_folders_only_holds_no_file(tmp_path: Path) -> None:
    assert refused(zipped({"folder/": b""}), tmp_path, ZIP).why == "it holds no file"
    assert refused(zipped({}), tmp_path, ZIP).why == "it holds no file"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b.csv"])
def test_a_name_that_leaves_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    error = refused(zipped({name: TEXT}), tmp_path, ZIP)
    assert error.what == f"data.bin: the entry name {name} leaves the archive"


def test_an_encrypted_entry_is_called_encrypted(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.csv": TEXT}))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    assert refused(bytes(data), tmp_path, ZIP).what == "data.bin: the entry a.csv is encrypted"


def test_an_unknown_packing_method_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.csv": TEXT}))
    data[8] = 97
    data[data.rindex(b"PK\x01\x02") + 10] = 97
    assert "packed in a way that is not known" in refused(bytes(data), tmp_path, ZIP).why


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_common_packing_methods_are_read(tmp_path: Path, method: int) -> None:
    assert prepared(zipped({"a.csv": TEXT}, method), tmp_path, ZIP) == TEXT


@every
def test_a_decompression_bomb_is_refused_before_it_fills_the_disk(
    tmp_path: Path, step: PrepStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RATIO_FROM", 1 << 20)
    error = refused(PACKERS[step](bytes(4 << 20)), tmp_path, step)
    assert error.what.startswith("data.bin gives more than ")
    assert "decompression bomb" in error.why


def test_a_small_file_that_grows_without_measure_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RATIO_FROM", 1 << 20)
    error = refused(b"y", tmp_path, PrepStepPipe(command=("yes",)))
    assert error.what.startswith("data.bin gives more than 1 MiB out of 1 bytes")
