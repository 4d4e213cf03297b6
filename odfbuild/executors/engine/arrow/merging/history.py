"""The history that a merge reads: how much it is, and the part of it that new rows may touch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import affected_rows
from odfbuild.executors.engine.arrow.merging.rules import needed_history
from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.odf.merge_strategies import History, key_of, skips_keys, traits_of
from odfbuild.odf.schema.arrow import to_arrow

_EXPANSION: Final = 4  # bytes in memory for a byte of a slice, roughly
_ROW: Final = 16  # bytes in memory for a row at least: sorted keys take far fewer in a file


def history_cost(paths: Sequence[Path]) -> int:
    """Return about how many bytes the rows of a history take in memory."""
    return sum(
        max(_EXPANSION * path.stat().st_size, _ROW * pq.read_metadata(path).num_rows)
        for path in paths
    )


def looks_up(request: IngestRequest) -> bool:
    """Tell whether a merge looks up the keys of its new rows in a history, and no other ones."""
    traits = traits_of(request.merge)
    looks = traits.history is not History.NOTHING and not traits.is_whole
    return looks and bool(request.history) and request.in_force is not None


def narrowed_history(request: IngestRequest, new: Frame) -> IngestRequest | None:
    """Return the request with a history cut down to what rows with these keys may touch.

    None if that is not possible or saves too little.
    """
    if request.in_force is None:
        return None
    key = key_of(request.merge)
    in_force = to_arrow(request.in_force)
    names = [name for name in in_force.names if name != request.vocab.system_time_column]
    if skips_keys(request.merge):
        names = [name for name in key if name in in_force.names]
    into = request.staging / f"narrowed-{uuid4().hex}.parquet"
    schema = pa.schema([in_force.field(name) for name in names])
    found = affected_rows(request.history, schema, key, new, into)
    return None if found is None else replace(request, history=(found,))


def condensed_columns(request: CondenseRequest, in_force: pa.Schema) -> tuple[str, ...]:
    """Return the columns that any later merge may need, whatever its source has."""
    vocab = request.vocab
    apart = {vocab.system_time_column, vocab.event_time_column}
    data = [name for name in in_force.names if name not in apart]
    return needed_history(request.merge, vocab, data)
