"""Chains that are sealed well and say what is not so.

`Forger` takes a good chain, changes one thing in a block or in the rows of a slice, and seals it
again: hashes, sizes, links and counts fit again, so only a look at what they mean can tell.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.odf.events import (
    AddData,
    DataField,
    DataSchema,
    DataSlice,
    DataTypeInt8,
    DataTypeInt64,
    DataTypeOption,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
    SetTransform,
)
from odfbuild.odf.hashing import logical_hash, physical_hash
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.schema.arrow_bytes import arrow_bytes, from_arrow_bytes
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.state.chain.dataset import Dataset

__all__ = ["Forger", "Place", "false_cells", "false_columns", "false_fields", "put"]

Place: TypeAlias = tuple[str | int, ...]
"""Where in a block a value is: names of fields, and numbers of items."""

_FAR = Timestamp.parse("2100-01-01T00:00:00Z")
_ZERO = Timestamp.from_millis(0)
_OTHER_ID = DatasetId(bytes(range(32)))


class Forger:
    """One good chain, and chains made of it."""

    def __init__(self, dataset: Dataset, scratch: Path) -> None:
        self.dataset = dataset
        self.blocks = [block for _, block in dataset.blocks()]
        self._scratch = scratch
        self._head = dataset.head()

    def restore(self) -> None:
        """Make the good chain that of the dataset again."""
        now = self.dataset.head()
        assert self._head is not None
        if now != self._head:
            self.dataset.stores.heads.swap("head", expected=now, new=self._head)

    def rows(self, number: int) -> pa.Table | None:
        """Return the rows that a block brings."""
        event = self.blocks[number].event
        if not isinstance(event, AddData | ExecuteTransform) or event.new_data is None:
            return None
        return pq.read_table(self.dataset.data_path(event.new_data.physical_hash))

    def forge(self, number: int, block: MetadataBlock, rows: pa.Table | None = None) -> Multihash:
        """Put a block, with other rows perhaps, in the place of one, and make that the chain.

        Raises whatever encoding raises for values that no block can hold.
        """
        if rows is not None:
            block = dataclasses.replace(block, event=self._sealed(block.event, rows))
        return self._chain(block, *self.blocks[number + 1 :])

    def shift(self, by: int) -> Multihash:
        """Make a chain whose offsets begin with another than 0, and agree with each other."""
        first, *more = (self._shifted(block, by) for block in self.blocks)
        return self._chain(first, *more)

    def reads(self, dataset: DatasetId) -> Multihash:
        """Make a chain whose one input is said to be another dataset, of which nothing was read."""
        first, *more = (self._reading(block, dataset) for block in self.blocks)
        return self._chain(first, *more)

    def _reading(self, block: MetadataBlock, dataset: DatasetId) -> MetadataBlock:
        event = block.event
        if isinstance(event, SetTransform):
            event = put(event, ("inputs", 0, "dataset_ref"), dataset)
        elif isinstance(event, ExecuteTransform):
            inputs = (ExecuteTransformInput(dataset_id=dataset),)
            event = dataclasses.replace(event, query_inputs=inputs)
        return dataclasses.replace(block, event=event)

    def _shifted(self, block: MetadataBlock, by: int) -> MetadataBlock:
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform):
            return block
        last = by - 1 if event.prev_offset is None else event.prev_offset + by
        event = dataclasses.replace(event, prev_offset=last)
        if (data := event.new_data) is not None:
            rows = pq.read_table(self.dataset.data_path(data.physical_hash))
            at = rows.schema.get_field_index("offset")
            moved = pc.add(rows.column(at), by).cast(rows.schema.field(at).type)
            ends = data.offset_interval
            data = dataclasses.replace(
                data, offset_interval=OffsetInterval(ends.start + by, ends.end + by)
            )
            event = self._sealed(
                dataclasses.replace(event, new_data=data),
                rows.set_column(at, rows.schema.field(at), moved),
            )
        return dataclasses.replace(block, event=event)

    def _chain(self, first: MetadataBlock, *more: MetadataBlock) -> Multihash:
        """Seal blocks, the first with the link it has, and make the last the head."""
        before: Multihash | None = None
        encoded: dict[Multihash, bytes] = {}
        for each in (first, *more):
            after = each if each is first else dataclasses.replace(each, prev_block_hash=before)
            data = encode_block(after)
            before = block_hash(data)
            encoded[before] = data
        assert before is not None
        self.dataset.stores.blocks.put(encoded)
        self.dataset.stores.heads.swap("head", expected=self.dataset.head(), new=before)
        return before

    def miscount(self, number: int) -> Iterator[Multihash]:
        """Make chains of which the footer of one slice counts other rows than it has.

        The block goes by the footer.  Every byte of it is tried with its neighbours' values.
        """
        block = self.blocks[number]
        event: Any = block.event
        good = self.dataset.data_path(event.new_data.physical_hash).read_bytes()
        start = event.new_data.offset_interval.start
        counts = _counts(good)
        size = int.from_bytes(good[-8:-4], "little")
        for at in range(len(good) - 8 - size, len(good) - 8):
            for by in (1, 2, 4, 255, 254):
                made = good[:at] + bytes([(good[at] + by) % 256]) + good[at + 1 :]
                with suppress(OSError, pa.ArrowException, MemoryError):
                    found = _counts(made)
                    if found == counts or min(found) < 1:
                        continue
                    for end in {start + found[0] - 1, start + counts[0] - 1}:
                        data = dataclasses.replace(
                            event.new_data, offset_interval=OffsetInterval(start, end)
                        )
                        data = self._put(data, made)
                        forged = dataclasses.replace(event, new_data=data)
                        yield self._chain(dataclasses.replace(block, event=forged))

    def _put(self, data: DataSlice, made: bytes) -> DataSlice:
        path = self._scratch / "forged.parquet"
        path.write_bytes(made)
        hash = physical_hash(path)
        self.dataset.data_path(hash).write_bytes(made)
        return dataclasses.replace(data, physical_hash=hash, size=len(made))

    def _sealed(self, event: Any, rows: pa.Table) -> Any:
        """Return the event with the description of other rows, which are put in their place."""
        path = self._scratch / "forged.parquet"
        pq.write_table(rows, path, store_schema=False)
        hash = physical_hash(path)
        self.dataset.data_path(hash).write_bytes(path.read_bytes())
        found = dataclasses.replace(
            event.new_data,
            physical_hash=hash,
            logical_hash=logical_hash(pq.ParquetFile(path).read()),
            size=path.stat().st_size,
        )
        return dataclasses.replace(event, new_data=found)


def _counts(file: bytes) -> tuple[int, ...]:
    """Return how many rows a footer counts: in all, and in each row group."""
    known = pq.read_metadata(BytesIO(file))
    groups = (known.row_group(number).num_rows for number in range(known.num_row_groups))
    return (known.num_rows, *groups)


def put(value: Any, place: Place, new: Any) -> Any:
    """Return a value with something else in a place of it."""
    if not place:
        return new
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        items = list(value)
        items[step] = put(items[step], rest, new)
        return tuple(items)
    return dataclasses.replace(value, **{step: put(getattr(value, step), rest, new)})


def false_fields(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every place in a block, at any depth, with values that are not the one there."""
    if dataclasses.is_dataclass(value) and not isinstance(value, Multihash | DatasetId | Timestamp):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            here = (*place, field.name)
            yield from ((here, each) for each in _false(part, str(field.type)))
            yield from false_fields(part, here)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from false_fields(item, (*place, number))


_DAY = 86_400 * 10**9
_NAMES = ("op", "system_time", "")


def _false(value: Any, kind: str) -> Iterator[Any]:
    """Yield other values for one; `kind` is what its field may hold."""
    yield from (each for each in _candidates(value, kind) if each != value)


def _candidates(value: Any, kind: str) -> Iterator[Any]:
    if value is not None and "None" in kind:
        yield None
    match value:
        case None:
            yield from _instead_of_none(kind)
        case bool():
            yield not value
        case int():
            yield from {0, value + 1, max(0, value - 1), 99} - {value}
        case Timestamp():
            yield from (_ZERO, _FAR)
            yield Timestamp(value.nanos + 10**6)
            yield from (Timestamp(value.nanos + days * _DAY) for days in (-400, -2, 2, 400))
        case Multihash():
            yield Multihash(value.code, bytes(len(value.digest)))
        case DatasetId():
            yield _OTHER_ID
        case Enum():
            yield from (each for each in type(value) if each is not value)
        case bytes():
            yield value[:-1] + bytes([value[-1] ^ 1])
            yield from map(arrow_bytes, _other_schemas(from_arrow_bytes(value)))
        case str():
            yield value + "x"
            yield from _NAMES
        case tuple() if value:
            yield ()
            yield (*value, value[0])
            if len(value) > 1:
                yield value[::-1]


def _instead_of_none(kind: str) -> Iterator[Any]:
    if "Multihash" in kind:
        yield Multihash(0x16, bytes(32))
    elif "Timestamp" in kind:
        yield _FAR
    elif "int" in kind.split(" | "):
        yield from (0, 99)
    elif "str" in kind.split(" | "):
        yield "x"
        yield from _NAMES


def _other_schemas(schema: DataSchema) -> Iterator[DataSchema]:
    """Yield schemas with one column less, more, elsewhere, called otherwise, or of another type."""
    fields = schema.fields
    yield DataSchema(fields[::-1])
    for of in (DataTypeInt64(), DataTypeOption(DataTypeInt64())):
        yield DataSchema((*fields, DataField("more", of)))
    for at, field in enumerate(fields):
        before, after = fields[:at], fields[at + 1 :]
        yield DataSchema((*before, *after))
        yield DataSchema((*before, dataclasses.replace(field, name=f"{field.name}x"), *after))
        yield DataSchema((*before, DataField(field.name, DataTypeOption(DataTypeInt8())), *after))


def false_cells(rows: pa.Table, name: str) -> Iterator[tuple[int, object, pa.Table]]:
    """Yield the rows with a false value in each cell of a column: place, value, all rows."""
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(at)
    stored = _stored(field.type)
    values = rows.column(name).cast(stored).to_pylist()
    for number, value in enumerate(values):
        for false in _false_cell(value, field.type):
            column = pa.array([*values[:number], false, *values[number + 1 :]], stored)
            made = column.cast(field.type)
            yield number, false, rows.set_column(at, field.with_nullable(True), made)


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column is stored as: numbers for times."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def _false_cell(value: Any, kind: pa.DataType) -> Iterator[Any]:
    if isinstance(value, str):
        yield value + "x"
    else:
        far = _FAR.millis if pa.types.is_timestamp(kind) else 99
        yield from {0, 1, 2, 3, 9, -1, far, value - 1, value + 1} - {value}
    yield None


def false_columns(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows with columns that are missing, more, elsewhere, or of another type."""
    for at, field in enumerate(rows.schema):
        name = field.name
        yield f"{name} is missing", rows.drop_columns([name])
        yield (
            f"{name} is called otherwise",
            rows.rename_columns(
                [each if each != name else f"{name}_" for each in rows.column_names]
            ),
        )
        for kind in _other_types(field.type):
            made = rows.column(name).cast(kind)
            yield f"{name} is {kind}", rows.set_column(at, pa.field(name, kind), made)
    yield "one column more", rows.append_column("more", pa.array([1] * rows.num_rows))
    for name in rows.column_names:
        yield f"two columns {name}", rows.append_column(name, rows.column(name))
    yield "another order", rows.select(rows.column_names[::-1])


def _other_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    others: list[pa.DataType] = [pa.binary()]
    if pa.types.is_integer(kind):
        others = [pa.int16(), pa.int32(), pa.int64(), pa.uint32(), pa.string()]
    elif pa.types.is_timestamp(kind):
        others = [pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.date32()]
    elif pa.types.is_date32(kind):
        others = [pa.timestamp("ms", "UTC"), pa.timestamp("ms")]
    yield from (each for each in others if each != kind)
