"""Damage of kinds that libraries do not expect: found by `make fuzz`, refused in words since."""

import lzma
import struct
import tempfile
from pathlib import Path

import pytest

from fuzz.corpus import load
from odfbuild.executors.ingest.prepare import DamagedArchiveError, prepare
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import (
    CompressionFormat,
    PrepStepDecompress,
    PrepStepPipe,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepNdJson,
)
from tests.bad.case import GOOD, zipped
from tests.executors.ingest.read.reading import refusal_of
from tests.fuzz.targets import DEADLY, TARGETS

ZIP = PrepStepDecompress(format=CompressionFormat.ZIP)


def unpacked(data: bytes, step: PrepStepDecompress | PrepStepPipe = ZIP) -> DamagedArchiveError:
    """Return why a file cannot be unpacked."""
    with tempfile.TemporaryDirectory() as folder, pytest.raises(DamagedArchiveError) as caught:
        (Path(folder) / "in").write_bytes(data)
        prepare((step,), Path(folder) / "in", Path(folder))
    return caught.value


@pytest.mark.parametrize("schema", [None, ("k STRING", "v INT")])
def test_a_header_that_is_no_text_is_refused(schema: tuple[str, ...] | None) -> None:
    step = ReadStepCsv(header=True, ddl_schema=schema)
    error = refusal_of(step, b"k\xe1,v\n1,2\n")
    assert error.what == "in: field 1 of the header has bytes that are not UTF-8: 'k\xe1'"
    assert "encoding" in error.fix


def test_lines_without_any_record_show_no_drift() -> None:
    step = ReadStepNdJson(ddl_schema=("v ARRAY<STRUCT<a: INT>>",))
    assert refusal_of(step, b'\xfb"v":[]}\n').what.startswith("in:1: ")


def test_entries_without_a_name_are_passed_over() -> None:
    data = bytearray(zipped(["a"]))
    data[30] = data[data.index(b"PK\x01\x02") + 46] = 0  # names end with their first zero
    assert unpacked(bytes(data)).why == "it holds no file"
    assert "no shapefile" in refusal_of(ReadStepEsriShapefile(), bytes(data)).what


def test_an_archive_for_newer_programs_is_refused() -> None:
    data = bytearray(zipped(["a.shp"], GOOD))
    data[data.index(b"PK\x01\x02") + 6] = 84
    assert "8.4" in unpacked(bytes(data)).why
    assert "8.4" in refusal_of(ReadStepEsriShapefile(), bytes(data), InvalidSourceError).why


def test_what_would_fill_the_memory_is_refused() -> None:
    packed = bytearray(lzma.compress(GOOD.encode(), format=lzma.FORMAT_ALONE))
    packed[1:5] = struct.pack("<I", 0xFFFFFFFF)
    assert "emory" in unpacked(bytes(packed), PrepStepPipe(command=("xz", "-dc"))).why


@pytest.mark.parametrize("name", sorted(DEADLY))
def test_no_kept_file_ends_the_process(name: str) -> None:
    for data in load(name):
        TARGETS[name](data)
