"""A workspace with a source folder, an engine without a JVM, and a clock that tests set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.runs.report import Outcome, RunReport
from odfbuild.executors.runs.scheduler import run
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategyLedger,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.make_plan import make_plan
from odfbuild.planner.plan import Plan, Step
from odfbuild.planner.steps import SourceLook, ToAsk
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.planner.builders import declare
from tests.support.engines import FakeEngine

__all__ = ["Watcher", "Workshop", "ledger"]

ENGINES = {"spark": "4.3.0+odfbuild.5"}


@dataclass
class Watcher:
    """Progress that remembers."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def started(self, step: Step) -> None:
        self.lines.append((step.id, "started"))

    def advanced(self, step: Step, done: Round) -> None:
        self.lines.append((step.id, done.source))

    def finished(self, step: Step, outcome: Outcome) -> None:
        self.lines.append((step.id, type(outcome).__name__))


class Workshop:
    """Plans and applies declared datasets in a folder of the test."""

    def __init__(
        self, folder: Path, engine: FakeEngine | None = None, disk: Disk | None = None
    ) -> None:
        self.folder = folder
        self.engine = engine or FakeEngine()
        self.workspace = Workspace(folder / "workspace", disk=disk)
        self.watcher = Watcher()
        self.now = Timestamp.parse("2025-01-01T00:00:00Z")
        self.env: Mapping[str, str] = {}

    def file(self, name: str, *rows: str, header: str = "t,k,v") -> None:
        """Put a CSV file of day, key and value into the source folder."""
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([header, *rows]) + "\n", "utf-8")

    def plan(self, declared: Sequence[Declared]) -> Plan:
        """Plan against the workspace; every source has to be checked."""
        looks: dict[DatasetAlias, SourceLook] = {
            each.alias: ToAsk("its source") for each in declared
        }
        return make_plan(
            declared,
            current=self.workspace.states(),
            sources=looks,
            engines=ENGINES,
            project_hash="",
        )

    def apply(self, declared: Sequence[Declared], jobs: int = 2) -> RunReport:
        """Plan and run."""
        return run(self.plan(declared), self.site(), jobs=jobs, progress=self.watcher)

    def site(self) -> Site:
        return Site(
            workspace=self.workspace,
            engine=self.engine,
            clock=lambda: self.now,
            project_dir=self.folder,
            env=self.env,
        )

    def dataset(self, name: str) -> Dataset:
        found = self.workspace.open(DatasetAlias.parse(name))
        assert found is not None
        return found

    def rows(self, name: str) -> list[tuple[object, ...]]:
        """Return offset, op and the data columns of all rows."""
        pieces = [pq.read_table(path) for _, path in self.dataset(name).slices()]
        if not pieces:
            return []
        table = pa.concat_tables(pieces).drop_columns(["system_time", "t"])
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def kinds(self, name: str) -> list[str]:
        """Return the kinds of the events of a chain, oldest first."""
        return [type(block.event).__name__ for _, block in self.dataset(name).blocks()]


def ledger(name: str = "src", *columns: str) -> Declared:
    """Declare a ledger of the CSV files in data/, keyed by k, event time in t."""
    ddl = columns or ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT")
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=ddl, header=True),
        merge=MergeStrategyLedger(primary_key=("k",)),
    )
    return declare(name, DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))
