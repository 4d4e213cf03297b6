"""Which record of a dataset another one takes back: of equal ones the first that still stands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from odfbuild.executors.changelog import COMES
from odfbuild.executors.engine import system_columns
from odfbuild.executors.lookup import Keys, in_millis, look_up
from odfbuild.executors.selections import equal_rows
from odfbuild.odf.events import DatasetVocabulary

__all__ = ["taken_back"]

_MOST: Final = 64 << 20  # bytes of records that may be equal


def taken_back(paths: Sequence[Path], record: pa.Table, vocab: DatasetVocabulary) -> int | None:
    """Return the offset of the record that one takes back, None if it takes back none.

    `paths` are the slices of its dataset; what is too much to read is not looked through.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    if record.column(op)[0].as_py() in COMES:
        return None
    data = record.drop_columns([n for n in system_columns(vocab) if n in record.column_names])
    log = [pa.field(op, pa.int32()), pa.field(offset, pa.int64())]
    wanted = pa.schema([*log, *(pa.field(each.name, in_millis(each.type)) for each in data.schema)])
    found = look_up(paths, wanted, _condition(data), most=_MOST)
    if found is None:
        return None
    own = record.column(offset)[0].as_py()
    rows = found.rows.take(pa.array(equal_rows(found.rows, data), pa.int64())).sort_by(offset)
    standing: list[int] = []
    for at, operation in zip(
        rows.column(offset).to_pylist(), rows.column(op).to_pylist(), strict=True
    ):
        if at >= own:
            break
        standing = [*standing, at] if operation in COMES else standing[1:]
    return standing[0] if standing else None


def _condition(data: pa.Table) -> Keys | None:
    """Return the columns of a record by which equal ones can be looked up."""
    names = [name for name in data.column_names if Keys.of(data.select([name])) is not None]
    return Keys.of(data.select(names)) if names else None
