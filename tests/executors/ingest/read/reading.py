"""Short ways to read a text, and to hear what is wrong with it."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.errors import EngineError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import ReadStep

__all__ = ["frame_of", "refusal_of", "rows_of", "table_of"]


def frame_of(step: ReadStep, data: bytes | str) -> Frame | None:
    """Read bytes, or text as UTF-8, from a file called `in`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.bin"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        found = read(step, path, staging=Path(folder), name="in")
        if found is None or found.table is not None:
            return found
        return Frame.of(pa.Table.from_batches(list(found.batches()), schema=found.schema))


def table_of(step: ReadStep, data: bytes | str) -> pa.Table:
    found = frame_of(step, data)
    assert found is not None
    assert found.table is not None
    assert found.rows == found.table.num_rows
    found.table.validate(full=True)
    return found.table


def rows_of(step: ReadStep, data: bytes | str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table_of(step, data).to_pylist()]


def refusal_of(
    step: ReadStep, data: bytes | str, kind: type[EngineError] = InvalidSourceError
) -> EngineError:
    with pytest.raises(kind) as caught:
        frame_of(step, data)
    assert caught.value.why
    assert caught.value.fix
    return caught.value
