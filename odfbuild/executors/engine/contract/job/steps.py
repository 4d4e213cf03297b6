"""Steps of our own engines that jobs carry out: which they are, and what carries them out.

The block of such a step is what it would be if it ran here: rows do not depend on the place.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from odfbuild.planner.plan.places import EnginePlace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.config.outside_engines import OutsideEngine
    from odfbuild.project.opened import Opened

_ROWS: Final = "rows.parquet"
_CHECKPOINT: Final = "checkpoint.parquet"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The datasets whose steps an engine carries out: all steps, or only large ones.

    `large` is None where that is so of each dataset.
    """

    always: frozenset[DatasetAlias]
    large: frozenset[DatasetAlias] | None = None


TagsOf = Callable[[], Mapping[DatasetAlias, Collection[str]]]
"""What gives the tags of datasets; it is called once, if at all."""
AssignedOf = Callable[[], Mapping[str, Assigned]]
"""What gives the datasets of engines, by their names; it is called once, if at all."""


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

    def __init__(
        self, project: "Opened", engines: Iterable["OutsideEngine"], assigned: AssignedOf
    ) -> None:
        root, folder = project.workspace.root, project.root
        clients = ((each, JobClient(each, root, folder)) for each in engines)
        self._engines = tuple(
            _JobEngine(each, client, StepJobs(client), IngestJobs(client, each.engine))
            for each, client in clients
        )
        self._assigned_of = assigned
        self._assigned: Mapping[str, Assigned] | None = None

    def place(self, target: DatasetAlias, work: TransformWork) -> tuple[str, StepJobs] | None:
        """Return the engine that is to carry out a step, with its name; None if that is done here.

        The first engine counts that has all steps of the dataset, or steps over so many bytes.
        """
        transform = work.query.transform
        for each in self._engines:
            engine = each.engine
            if engine.engine == transform.engine.lower() and (
                self._has_all(target, engine) or _is_large(work, self._least(target, engine))
            ):
                return engine.name, each.steps
        return None

    def place_ingest(
        self, target: DatasetAlias, source: SetPollingSource, size: int
    ) -> tuple[str, IngestJobs] | None:
        """Return the engine that is to read and merge new files of a source; None if that is here.

        `size` is how many bytes they have.  The first engine counts that can run the query of the
        source, and that has all files of the dataset, or takes so much.
        """
        for each in self._engines:
            engine = each.engine
            least = self._least(target, engine)
            takes = self._has_all(target, engine) or (least is not None and size >= least)
            if takes and engine.runs_query(source.preprocess):
                return engine.name, each.ingests
        return None

    def takes_source(self, target: DatasetAlias, source: SetPollingSource) -> bool:
        """Tell whether all files of a source are read and merged elsewhere, however large."""
        return any(
            each.engine.runs_query(source.preprocess) and self._has_all(target, each.engine)
            for each in self._engines
        )

    def takes(self, target: DatasetAlias, transform: TransformSql) -> bool:
        """Tell whether all steps of a dataset are carried out elsewhere, however large."""
        name = transform.engine.lower()
        return any(
            each.engine.engine == name and self._has_all(target, each.engine)
            for each in self._engines
        )

    def cancel(self) -> None:
        """End all that runs elsewhere."""
        for each in self._engines:
            each.client.cancel()

    def _has_all(self, target: DatasetAlias, engine: "OutsideEngine") -> bool:
        found = self._known.get(engine.name)
        return found is not None and target in found.always

    def _least(self, target: DatasetAlias, engine: "OutsideEngine") -> int | None:
        """Return from how many bytes on an engine takes steps of a dataset; None if it does not."""
        found = self._known.get(engine.name)
        if engine.steps is None or found is None:
            return None
        return engine.steps.least if found.large is None or target in found.large else None

    @property
    def _known(self) -> Mapping[str, Assigned]:
        if self._assigned is None:
            self._assigned = self._assigned_of()
        return self._assigned


def placement_of(project: "Opened", tags: TagsOf) -> Placement | None:
    """Return where steps are carried out, None if all are here.

    Raises EngineNotPermittedError, StoreNotPermittedError.
    """
    engines = [
        each
        for each in project.config.engines.values()
        if each.steps is not None and each.steps.counts_in(project.target)
    ]

    def assigned() -> Mapping[str, Assigned]:
        known = tags()
        return {
            each.name: Assigned(
                frozenset(
                    name
                    for name, found in known.items()
                    if each.steps is not None and not {*found}.isdisjoint(each.steps.tags)
                )
            )
            for each in engines
        }

    return _permitted(project, engines, assigned)


def placement_of_plan(project: "Opened", places: Sequence[EnginePlace]) -> Placement | None:
    """Return where the steps of a plan are carried out, None if all are here.

    The engines have to be those of the plan.  Raises as `placement_of` does.
    """
    engines = [project.config.engines[each.engine] for each in places]
    assigned = {
        each.engine: Assigned(frozenset(each.datasets), frozenset(each.large)) for each in places
    }
    return _permitted(project, [each for each in engines if each.steps], lambda: assigned)


def _permitted(
    project: "Opened", engines: Sequence["OutsideEngine"], assigned: AssignedOf
) -> Placement | None:
    for each in engines:
        check_permitted(project, each.name)
    return Placement(project, engines, assigned) if engines else None


def _is_large(work: TransformWork, least: int | None) -> bool:
    """Tell whether the files that a step may read are as large as an engine takes."""
    if least is None:
        return False
    stored = work.stored
    return (
        sum(stored[path].size if path in stored else path.stat().st_size for path in files_of(work))
        >= least
    )
