"""A dataset that was built, as an object: what it is, its rows, its blocks, its picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from odfbuild.app.inspection import arguments
from odfbuild.app.inspection.views import NoDataError, ViewOptions, view_of
from odfbuild.errors import OdfBuildError, UsageRefusedError
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.project.opened import Opened, find_dataset, find_name
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from odfbuild.app.inspection.arguments import BlockOrMoment, Moment
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.state.chain.dataset import Dataset


_SHOWN: Final = 5  # rows in a notebook


@dataclass(frozen=True)
class BuiltDataset:
    """A dataset of a workspace; each question is answered as of its head at that time."""

    project: Opened
    name: str

    @classmethod
    def of(cls, project: Opened, name: str) -> BuiltDataset:
        """Return a dataset by its name.  Raises StateError when there is none."""
        find_dataset(project, arguments.text("name", name))
        return cls(project, str(find_name(project, name)))

    @property
    def _chain(self) -> Dataset:
        return find_dataset(self.project, self.name)

    @property
    def _state(self) -> ChainState:
        state = self._chain.state()
        if state is None:
            raise NoDataError(
                what=f"the dataset '{self.name}' has no blocks yet",
                why="its first apply did not complete",
                fix="odfbuild apply builds it",
            )
        return state

    @property
    def id(self) -> str:
        """The dataset's id, a did:odf."""
        return str(self._chain.id)

    @property
    def kind(self) -> str:
        """`Root` or `Derivative`."""
        return self._state.kind.value

    @property
    def head(self) -> str:
        """The hash of the last block."""
        return str(self._state.head)

    @property
    def records(self) -> int:
        """How many records the changelog has; corrections are two."""
        return self._state.next_offset

    @property
    def watermark(self) -> datetime | None:
        """The event time up to which the dataset is complete."""
        found = self._state.watermark
        return None if found is None else found.to_datetime()

    @property
    def description(self) -> str | None:
        """What the dataset is about, as its definition says."""
        info = self._state.info
        return None if info is None else info.description

    @property
    def schema(self) -> pa.Schema:
        """The columns of the current rows; none before the first rows."""
        import pyarrow as pa

        from odfbuild.executors.data.views import DatasetView

        state = self._state
        schema = schema_in_force(state)
        if schema is None:
            return pa.schema([])
        return DatasetView(paths=(), schema=schema, vocab=state.vocab).columns()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The datasets that it is made of, by name, or by id where they have none here."""
        return tuple(_inputs(self._chain, _names_by_id(self.project)))

    @property
    def readers(self) -> tuple[str, ...]:
        """The datasets that are made of it, by name."""
        edges = edges_of(self.project)
        return tuple(name for name, inputs in edges.items() if self.name in inputs)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        as_at: BlockOrMoment = None,
        as_of: Moment = None,
        key: Sequence[str] = (),
        current: bool = True,
    ) -> pa.Table:
        """Return rows as a table; see `scan`."""
        return self.scan(
            columns, where, as_at=as_at, as_of=as_of, key=key, current=current
        ).read_all()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        as_at: BlockOrMoment = None,
        as_of: Moment = None,
        key: Sequence[str] = (),
        current: bool = True,
    ) -> pa.RecordBatchReader:
        """Return rows a batch at a time, in the order in which they came.

        What is asked for is as of `odfbuild.read`.  Raises NoDataError before the first rows,
        UsageRefusedError for a time that is none or a column that is not there, DamagedDataError,
        LostDataError and FaultyRowsError where the rows are not what the chain records, and, while
        it is read, DeletedDataError when another process deletes files.
        """
        import pyarrow as pa

        from odfbuild.app.inspection.uuids import with_uuids_in_batches

        asked = arguments.view_options(as_at=as_at, as_of=as_of, key=key, current=current)
        chosen = None if columns is None else arguments.names("columns", columns)
        view = view_of(self.project, self.name, asked)
        check_columns(self.name, chosen or (), view.columns().names)
        condition = arguments.condition(where, view.columns())
        reader = view.reader(chosen, condition)
        rows = reader if condition is None else evaluated(reader)
        schema, batches = with_uuids_in_batches(reader.schema, rows, view.uuids, as_text=False)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def last(self, rows: int = 10) -> pa.Table:
        """Return the last of the current rows, in the order in which they came."""
        view = view_of(self.project, self.name, ViewOptions())
        return view.last(arguments.count("rows", rows))

    def history(self) -> pa.Table:
        """Return the blocks, oldest first: number, hash, time, event, records and watermark."""
        import pyarrow as pa

        rows = []
        for hash, block in self._chain.blocks():
            event = block.event
            data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
            mark = getattr(event, "new_watermark", None)
            offsets = None if data is None else data.offset_interval
            rows.append(
                {
                    "sequence": block.sequence_number,
                    "block": str(hash),
                    "system_time": block.system_time.to_datetime(),
                    "event": type(event).__name__,
                    "records": 0 if offsets is None else offsets.end - offsets.start + 1,
                    "watermark": None if mark is None else mark.to_datetime(),
                }
            )
        time = pa.timestamp("ms", "UTC")
        return pa.Table.from_pylist(
            rows,
            pa.schema(
                [
                    ("sequence", pa.uint64()),
                    ("block", pa.string()),
                    ("system_time", time),
                    ("event", pa.string()),
                    ("records", pa.uint64()),
                    ("watermark", time),
                ]
            ),
        )

    def __repr__(self) -> str:
        return f"<{self.kind} dataset {self.name}, {self.records:,} records>"

    def _repr_html_(self) -> str:
        """Return the dataset as a notebook shows it: facts, columns, last rows, neighbours."""
        from odfbuild.app.inspection.notebook import DatasetPage
        from odfbuild.executors.data.python_values import python_rows

        schema, mark = self.schema, self.watermark
        facts = [
            f"{self.kind.lower()} dataset",
            f"{self.records:,} records",
            f"head {self._state.head.short()}",
            *([] if mark is None else [f"complete up to {mark:%Y-%m-%d %H:%M:%S} UTC"]),
        ]
        return DatasetPage(
            name=self.name,
            facts=facts,
            description=self.description,
            columns={each.name: str(each.type) for each in schema},
            rows=python_rows(self.last(_SHOWN)) if schema.names else [],
            edges=edges_of(self.project, for_picture=True),
        ).html()


def edges_of(project: Opened, *, for_picture: bool = False) -> dict[str, tuple[str, ...]]:
    """Return of each dataset the inputs, by name, or by id where they have none here.

    Of a damaged one there are none in a picture.
    """
    chains = _chains(project)
    names = {each.id: name for name, each in chains.items()}
    edges: dict[str, tuple[str, ...]] = dict.fromkeys(chains, ())
    for name, each in chains.items():
        with suppress(*([OdfBuildError] if for_picture else [])):
            edges[name] = tuple(_inputs(each, names))
    return edges


def _chains(project: Opened) -> dict[str, Dataset]:
    workspace = project.workspace
    found = {str(alias): workspace.open(alias) for alias in sorted(workspace.names())}
    return {name: each for name, each in found.items() if each is not None}


def _names_by_id(project: Opened) -> dict[DatasetId, str]:
    return {each.id: name for name, each in _chains(project).items()}


def _inputs(chain: Dataset, names: Mapping[DatasetId, str]) -> Iterator[str]:
    state = chain.state()
    if state is None or state.transform is None:
        return
    for each in state.transform.inputs:
        ref = each.dataset_ref
        yield names.get(ref, str(ref)) if isinstance(ref, DatasetId) else str(ref)


def check_columns(name: str, asked: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageRefusedError for a column that the rows do not have."""
    lacking = next((each for each in asked if each not in known), None)
    if lacking is not None:
        raise UsageRefusedError(
            what=f"'{name}' has no column '{lacking}'",
            why="only columns of its rows can be read",
            fix=did_you_mean(lacking, known) or f"it has {', '.join(known)}",
        )


def evaluated(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows; what a condition makes of one that it cannot look at is an error of its own."""
    import pyarrow as pa

    try:
        yield from rows
    except pa.ArrowException as error:
        raise UsageRefusedError(
            what=f"where: {str(error).splitlines()[0]}",
            why="the condition was evaluated for each row, and failed for one of them",
            fix="exclude rows for which it cannot be evaluated, or read without it",
        ) from None
