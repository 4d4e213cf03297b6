"""OpenLineage listener of an apply: events into a file, events posted to a server."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.engine.quick_columns import QuickColumns
from odfbuild.executors.runs.openlineage.model import (
    EventType,
    Job,
    LineageDataset,
    Moment,
    NamespacedName,
    Run,
    run_event,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Append, Ingest, Move, Pull, Step, Transform
from odfbuild.project.config.openlineage import endpoint_of
from odfbuild.project.opened import Opened
from odfbuild.texts.redaction import without_secrets
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import Round
    from odfbuild.executors.runs.openlineage.sinks import Sink
    from odfbuild.executors.runs.openlineage.subjects import Subjects
    from odfbuild.executors.runs.report import Outcome
    from odfbuild.executors.runs.scheduler import Progress


_PATIENCE, _HASTE = 10.0, 3.0  # seconds that the end of an apply waits for a server
_KINDS = {
    Append: "DEFINITION",
    Move: "RENAME",
    Ingest: "INGEST",
    Transform: "TRANSFORM",
    Pull: "PULL",
}


@dataclass(frozen=True, slots=True)
class _Started:
    run: Run
    job: Job
    before: Multihash | None


@dataclass(slots=True)
class RunListener:
    """What watches a run; once it is over, `notes` has what could not be told."""

    progress: "Progress"
    notes: tuple[Diagnostic, ...] = ()


class LineageListener:
    """Watches a run and makes events of it, from whatever thread it is told.

    A step that cannot be described is told with its name alone; nothing here fails an apply.
    """

    def __init__(
        self,
        subjects: "Subjects",
        namespace: str,
        sinks: "tuple[Sink, ...]",
        watched: "Progress",
        *,
        new_id: Callable[[], UUID] = uuid4,
        clock: Callable[[], int] = time_ns,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._subjects = subjects
        self._namespace = namespace
        self._sinks = sinks
        self._watched = watched
        self._new_id = new_id
        self._clock = clock
        self._env = env
        self._guard = threading.Lock()
        self._started: dict[str, tuple[Step, _Started]] = {}
        self._failed = False
        self._job = Job(named=NamespacedName(namespace, "apply"), kind="APPLY")
        self._run = Run(new_id(), self._job.named)
        self._send(run_event(self._moment(EventType.START), self._run, self._job))

    def started(self, step: Step) -> None:
        job = Job(named=NamespacedName(self._namespace, step.id), kind=_KINDS[type(step.work)])
        before = None
        with suppress(OdfBuildError, OSError):
            before = self._subjects.head(step)
        begun = _Started(Run(self._new_id(), job.named), job, before)
        with self._guard:
            self._started[step.id] = step, begun
        self._emit(self._moment(EventType.START), step, begun)
        self._watched.started(step)

    def advanced(self, step: Step, done: "Round") -> None:
        self._watched.advanced(step, done)

    def finished(self, step: Step, outcome: "Outcome") -> None:
        from odfbuild.executors.runs.report import Failed, Interrupted

        with self._guard:
            _, begun = self._started.pop(step.id, (step, None))
            self._failed |= isinstance(outcome, Failed)
        if begun is not None:  # it was not skipped
            if isinstance(outcome, Failed):
                moment = self._moment(EventType.FAIL, self._said(step, outcome.error))
            elif isinstance(outcome, Interrupted):
                moment = self._moment(EventType.ABORT)
            else:
                moment = self._moment(EventType.COMPLETE)
            self._emit(moment, step, begun)
        self._watched.finished(step, outcome)

    def close(self, *, whole: bool) -> tuple[Diagnostic, ...]:
        """End every run that did not end, and return what could not be told; not `whole`: aborted.

        Waits for a slow server, some seconds at most.
        """
        for step, begun in tuple(self._started.values()):
            self._emit(self._moment(EventType.ABORT), step, begun)
        end = EventType.FAIL if self._failed else EventType.COMPLETE
        error = "some steps failed" if whole and self._failed else None
        moment = self._moment(end if whole else EventType.ABORT, error)
        self._send(run_event(moment, self._run, self._job))
        lost = [sink.close(_PATIENCE if whole else _HASTE) for sink in self._sinks]
        return tuple(each for each in lost if each is not None)

    def _moment(self, type: EventType, error: str | None = None) -> Moment:
        return Moment(type, Timestamp.from_millis(self._clock() // 1_000_000), error)

    def _said(self, step: Step, error: OdfBuildError) -> str:
        said = "\n".join(f"{each.what}: {each.why}" for each in error.diagnostics())
        try:
            secrets = self._subjects.secrets(step, self._env)
        except (OdfBuildError, OSError):
            return type(error).__name__
        return without_secrets(said, secrets)

    def _emit(self, moment: Moment, step: Step, begun: _Started) -> None:
        """Send an event of a step with all that is known of it."""
        subjects, ended = self._subjects, moment.type is not EventType.START
        job = begun.job
        inputs: tuple[LineageDataset, ...] = ()
        outputs: tuple[LineageDataset, ...] = ()
        with suppress(OdfBuildError, OSError):
            job = Job(named=job.named, kind=job.kind, query=subjects.query(step))
            inputs = subjects.inputs(step)
            outputs = (subjects.output(step, ended=ended, before=begun.before),)
        self._send(
            run_event(moment, begun.run, job, parent=self._run, inputs=inputs, outputs=outputs)
        )

    def _send(self, event: Mapping[str, object]) -> None:
        line = json.dumps(event, ensure_ascii=False).encode("utf-8", "backslashreplace")
        for sink in self._sinks:
            sink.put(line)


@contextmanager
def openlineage_events(
    project: Opened, watched: "Progress", file: Path | None
) -> Iterator[RunListener]:
    """Tell of the apply in the block: in a file, to the server of the settings, or nobody.

    Raises EventsFileError before the block.
    """
    named = project.config.openlineage.token_env
    if named is not None and not os.environ.get("OPENLINEAGE_URL"):
        project.permissions.check_source_env((named,), "openlineage in odfbuild.yaml")
    endpoint = endpoint_of(project.config.openlineage, os.environ)
    if file is None and endpoint is None:
        yield RunListener(watched)
        return
    from odfbuild.executors.runs.openlineage.sinks import FileSink, ServerSink, Sink
    from odfbuild.executors.runs.openlineage.subjects import Subjects

    sinks: list[Sink] = [] if file is None else [FileSink(file)]
    sinks += [] if endpoint is None else [ServerSink(endpoint)]
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or project.config.openlineage.namespace
    namespace = namespace or f"odf://{project.config.name}/{project.target}"
    subjects = Subjects(project.workspace, namespace, _homes(project), QuickColumns(project))
    told = RunListener(made := LineageListener(subjects, namespace, tuple(sinks), watched))
    whole = False
    try:
        yield told
        whole = True
    finally:
        told.notes = made.close(whole=whole)


def _homes(project: Opened) -> dict[UUID, str]:
    from odfbuild.executors.runs.lineage import lineage_of

    try:
        store = lineage_of(project.workspace)
    except OdfBuildError:
        return {}
    try:
        return dict(store.get_all_homes())
    except OdfBuildError:
        return {}
    finally:
        store.close()
