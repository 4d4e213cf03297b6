"""Small chains and declared datasets for the tests of the planner."""

from collections.abc import Sequence

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DatasetSnapshot,
    DataSlice,
    FetchStepFilesGlob,
    MergeStrategyAppend,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    ReadStepCsv,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.planner.declared import Declared, PathSteps

__all__ = [
    "Chain",
    "Places",
    "dataset_id",
    "declare",
    "derivative",
    "polling",
    "root",
    "schema",
    "slice_of",
    "sql",
]

START = Timestamp.parse("2024-01-01T00:00:00Z")


class Places:
    """Every value is in the first line."""

    def value(self, path: PathSteps) -> SourceSpan:
        return SourceSpan(file="d.yaml", line=len(path))

    key = value

    def inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan:
        return SourceSpan(file="d.yaml", line=len(path), column=offset + 1, length=length)


class Chain:
    """A chain made block by block, with the state after each."""

    def __init__(self, name: str, kind: DatasetKind, events: Sequence[MetadataEvent] = ()) -> None:
        self.blocks: list[tuple[Multihash, MetadataBlock]] = []
        self.states: list[ChainState] = []
        self.add(Seed(dataset_id(name), kind))
        for event in events:
            self.add(event)

    @property
    def state(self) -> ChainState:
        return self.states[-1]

    def add(self, event: MetadataEvent) -> "Chain":
        known = self.states[-1] if self.states else None
        block = MetadataBlock(
            system_time=START,
            prev_block_hash=None if known is None else known.head,
            sequence_number=len(self.blocks),
            event=event,
        )
        name = block_hash(encode_block(block))
        self.blocks.append((name, block))
        self.states.append(fold(known, block, name))
        return self

    def rows(self, count: int, watermark: str | None = None) -> "Chain":
        """Add one slice of `count` rows (0: none) and a watermark."""
        known = self.state
        start = known.next_offset
        return self.add(
            AddData(
                prev_offset=known.last_offset,
                new_data=None if count == 0 else slice_of(start, start + count - 1),
                new_watermark=known.watermark if watermark is None else Timestamp.parse(watermark),
            )
        )


def dataset_id(name: str) -> DatasetId:
    """Return an id that is made from a name."""
    return DatasetId(sha3_256(name.encode()).digest)


def slice_of(start: int, end: int) -> DataSlice:
    """Return the description of a slice that no file is behind."""
    name = sha3_256(f"{start}-{end}".encode())
    return DataSlice(
        logical_hash=Multihash(0x300016, name.digest),
        physical_hash=name,
        offset_interval=OffsetInterval(start, end),
        size=100,
    )


def schema(*columns: str) -> SetDataSchema:
    """Return a schema of DDL columns after the system columns."""
    system = ("offset BIGINT NOT NULL", "op INT NOT NULL", "system_time TIMESTAMP NOT NULL")
    whole = [*system, "event_time TIMESTAMP NOT NULL", *columns]
    return SetDataSchema(raw_arrow_schema=arrow_bytes(parse_ddl(whole)))


def polling(path: str = "data/*.csv") -> SetPollingSource:
    """Return a source of CSV files."""
    return SetPollingSource(
        fetch=FetchStepFilesGlob(path=path),
        read=ReadStepCsv(ddl_schema=("a BIGINT",), header=True),
        merge=MergeStrategyAppend(),
    )


def sql(query: str) -> TransformSql:
    """Return a one-step Spark query."""
    return TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))


def root(name: str, *events: MetadataEvent) -> Declared:
    """Declare a root dataset."""
    return declare(name, DatasetKind.ROOT, events or (polling(),))


def derivative(name: str, *inputs: str, query: str | None = None) -> Declared:
    """Declare a derivative dataset; by default it copies its first input."""
    refs = tuple(TransformInput(DatasetAlias.parse(each), each) for each in inputs)
    event = SetTransform(inputs=refs, transform=sql(query or f"select * from `{inputs[0]}`"))
    return declare(name, DatasetKind.DERIVATIVE, (event,))


def declare(name: str, kind: DatasetKind, events: Sequence[MetadataEvent]) -> Declared:
    """Declare a dataset as if its file had been read."""
    snapshot = DatasetSnapshot(DatasetAlias.parse(name), kind, tuple(events))
    return Declared(
        alias=snapshot.name,
        snapshot=snapshot,
        written=snapshot,
        file="d.yaml",
        document=0,
        places=Places(),
    )
