"""Rows as messages of Arrow Flight: each is FlightData around one message of Arrow's IPC format."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from odfbuild.host.protobuf import field

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER, _BODY = 2, 1000  # fields of FlightData
_BYTES: Final = 1 << 20
"""Bytes of rows per message, about: clients accept messages of a few MiB."""


def schema_bytes(schema: "pa.Schema") -> bytes:
    """Return columns as Flight has them without rows: one message with its length."""
    return bytes(schema.serialize())


def flight_data(table: "pa.Table") -> Iterator[bytes]:
    """Yield columns, dictionaries and rows, each as one message."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches(max_chunksize=_rows(table)):
            writer.write_batch(batch)
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        body = b"" if message.body is None else message.body.to_pybytes()
        yield field(_HEADER, message.metadata.to_pybytes()) + field(_BODY, body)


def _rows(table: "pa.Table") -> int:
    """Return how many rows a message has."""
    return int(max(1, table.num_rows * _BYTES // max(1, table.nbytes)))
