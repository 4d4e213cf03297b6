"""Writers of Parquet files end once, whatever the disk does, and say what went wrong."""

import ast
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.parquet import FileWriter, SliceWriter
from tests.test_layers import MODULES, name_of, tree_of

OPENED = Path("/proc/self/fd")
TABLE = pa.table({"n": range(1000)})


def _cut_off(path: Path) -> None:
    """Take the file from whoever has it open: what it does next fails."""
    for each in [*OPENED.iterdir()]:
        if each.is_symlink() and each.readlink() == path:
            os.close(int(each.name))


def _fails(writer: Any, path: Path) -> None:
    with pytest.raises(OSError, match=r"failed|clos"), writer:
        _cut_off(path)


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what Python prints as ignored, from here on."""
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append(each.exc_value))
    return found


@pytest.mark.skipif(not OPENED.is_dir(), reason="the system lists no open files")
def test_a_writer_that_cannot_end_is_no_traceback_later(
    tmp_path: Path, unraisable: list[object]
) -> None:
    path = tmp_path / "some.parquet"
    _fails(pq.ParquetWriter(path, TABLE.schema), path)
    gc.collect()
    assert unraisable, "pyarrow closes a writer once only by now: ours has no reason"
    unraisable.clear()
    _fails(FileWriter(path, TABLE.schema), path)
    _fails(SliceWriter(path, TABLE.schema, plain="n"), path)
    gc.collect()
    assert unraisable == []


def test_all_parquet_files_are_written_by_such_writers() -> None:
    found = {
        name_of(module)
        for module in MODULES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Attribute) and node.attr == "ParquetWriter"
    }
    assert found == {"executors/data/parquet.py"}
