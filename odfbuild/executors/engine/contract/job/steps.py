"""Steps of our own engines that jobs carry out: which they are, and what carries them out.

The block of such a step is what it would be if it ran here: rows do not depend on the place.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odfbuild.executors.data.checkpoints import checkpoint_fault
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.contract.job.client import JobClient
from odfbuild.executors.engine.contract.job.ingests import IngestJobs
from odfbuild.executors.engine.contract.job.rows import check_rows
from odfbuild.executors.engine.contract.permission import check_permitted
from odfbuild.executors.engine.messages.dataset_step import files_of, rows_of_step, step_request
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.events import SetPollingSource, TransformSql
from odfbuild.odf.refs import DatasetAlias
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.config.outside_engines import OutsideEngine
    from odfbuild.project.opened import Opened

_ROWS: Final = "rows.parquet"
_CHECKPOINT: Final = "checkpoint.parquet"

TagsOf = Callable[[], Mapping[DatasetAlias, Collection[str]]]
"""What gives the tags of datasets; it is called once, if at all."""


class StepJobs:
    """Carries out steps as jobs of one engine."""

    def __init__(self, client: JobClient) -> None:
        self._client = client

    @property
    def reads_store(self) -> bool:
        """Tell whether steps get their files from an object store."""
        return self._client.reads_store

    def transform(self, work: TransformWork) -> Frame:
        """Run one step of a transform; see `Engine`."""
        with TemporaryDirectory(
            prefix="engine-", dir=work.staging, ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            given = [work.stored.get(path, path) for path in files_of(work)]
            request = step_request(work, lambda path: path.name, _ROWS, _CHECKPOINT)
            answer = self._client.ask_of_datasets("ExecuteStep", request, given, folder)
            rows = work.staging / _ROWS
            self._take(folder / _ROWS, rows)
            if answer.new_checkpoint and work.new_checkpoint is not None:
                self._take(folder / _CHECKPOINT, work.new_checkpoint)
                fault = checkpoint_fault(work.new_checkpoint)
                if fault is not None:
                    raise self._client.wrong(f"wrote a checkpoint that {fault}")
        try:
            frame = rows_of_step(answer, rows)
        except (pa.ArrowException, OSError) as error:
            raise self._client.wrong(f"wrote rows that cannot be read: {error}") from None
        if frame.rows != answer.num_records:
            said = f"says that it wrote {answer.num_records:,} rows"
            raise self._client.wrong(f"{said}, and {frame.rows:,} are there")
        check_rows(frame, work.vocab, self._client.wrong)
        return frame

    def _take(self, path: Path, into: Path) -> None:
        try:
            os.replace(path, into)  # noqa: PTH105 - its error names both
        except FileNotFoundError:
            raise self._client.wrong(f"wrote no {path.name}") from None


@dataclass(frozen=True, slots=True)
class _JobEngine:
    """An engine that takes jobs, and what has steps and ingests carried out by it."""

    engine: "OutsideEngine"
    client: JobClient
    steps: StepJobs
    ingests: IngestJobs


class Placement:
    """Where the steps of a project's target are carried out, by the `steps` of its engines."""

    def __init__(self, project: "Opened", engines: Iterable["OutsideEngine"], tags: TagsOf) -> None:
        root, folder = project.workspace.root, project.root
        clients = ((each, JobClient(each, root, folder)) for each in engines)
        self._engines = tuple(
            _JobEngine(each, client, StepJobs(client), IngestJobs(client, each.engine))
            for each, client in clients
        )
        self._tags_of = tags
        self._tags: Mapping[DatasetAlias, frozenset[str]] | None = None

    def place(self, target: DatasetAlias, work: TransformWork) -> tuple[str, StepJobs] | None:
        """Return the engine that is to carry out a step, with its name; None if that is done here.

        The first engine counts that a tag of the dataset asks for, or that takes steps over so
        many bytes.
        """
        transform = work.query.transform
        for each in self._engines:
            engine = each.engine
            if engine.engine == transform.engine.lower() and (
                self._is_tagged(target, engine) or _is_large(work, engine)
            ):
                return engine.name, each.steps
        return None

    def place_ingest(
        self, target: DatasetAlias, source: SetPollingSource, size: int
    ) -> tuple[str, IngestJobs] | None:
        """Return the engine that is to read and merge new files of a source; None if that is here.

        `size` is how many bytes they have.  The first engine counts that can run the query of the
        source, and that a tag of the dataset asks for, or that takes so much.
        """
        tags = self._known.get(target, frozenset())
        for each in self._engines:
            engine = each.engine
            if engine.runs_query(source.preprocess) and engine.why_ingest(tags, size) is not None:
                return engine.name, each.ingests
        return None

    def takes_source(self, target: DatasetAlias, source: SetPollingSource) -> bool:
        """Tell whether all files of a source are read and merged elsewhere, however large."""
        return any(
            each.engine.runs_query(source.preprocess) and self._is_tagged(target, each.engine)
            for each in self._engines
        )

    def takes(self, target: DatasetAlias, transform: TransformSql) -> bool:
        """Tell whether all steps of a dataset are carried out elsewhere, however large."""
        name = transform.engine.lower()
        return any(
            each.engine.engine == name and self._is_tagged(target, each.engine)
            for each in self._engines
        )

    def cancel(self) -> None:
        """End all that runs elsewhere."""
        for each in self._engines:
            each.client.cancel()

    def _is_tagged(self, target: DatasetAlias, engine: "OutsideEngine") -> bool:
        tags = self._known.get(target, frozenset())
        return engine.steps is not None and not tags.isdisjoint(engine.steps.tags)

    @property
    def _known(self) -> Mapping[DatasetAlias, frozenset[str]]:
        if self._tags is None:
            self._tags = {name: frozenset(tags) for name, tags in self._tags_of().items()}
        return self._tags


def placement_of(project: "Opened", tags: TagsOf) -> Placement | None:
    """Return where steps are carried out, None if all are here.

    Raises EngineNotPermittedError, StoreNotPermittedError.
    """
    engines = [
        each
        for each in project.config.engines.values()
        if each.steps is not None and each.steps.counts_in(project.target)
    ]
    for each in engines:
        check_permitted(project, each.name)
    return Placement(project, engines, tags) if engines else None


def _is_large(work: TransformWork, engine: "OutsideEngine") -> bool:
    """Tell whether the files that a step may read are as large as an engine takes."""
    least = None if engine.steps is None else engine.steps.least
    if least is None:
        return False
    stored = work.stored
    return (
        sum(stored[path].size if path in stored else path.stat().st_size for path in files_of(work))
        >= least
    )
