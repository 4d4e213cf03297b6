"""Rows pushed into root datasets, from Python and from the command line.

A process has one Spark, and its settings decide what queries mean.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import time_ns
from typing import IO, TYPE_CHECKING, Any, Final

from odfbuild.app.load_project import load
from odfbuild.errors import EngineError, EngineFailedError, OdfBuildError, ProjectErrors, StateError
from odfbuild.executors.engine.registry import engine_of
from odfbuild.executors.testing.gate_checks import gate_of
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.project.opened import Opened, find_dataset, find_name, open_project
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import ColumnDrift
    from odfbuild.executors.ingest.push.push import Pushed, Pushing


_PROGRAM = "from odfbuild.cli.main import program; program()"
_OF_SPARK = ("PYSPARK_", "_PYSPARK_", "SPARK_")


def push_elsewhere(project: Opened, alias: DatasetAlias, pushing: "Pushing") -> "Pushed":
    """Commit one input as `odfbuild ingest` does.  Raises EngineError with what that says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_SPARK)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, "ingest", *_arguments(project, alias, pushing)],
        cwd=project.root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        answer = parse_json(done.stdout)
        error = answer["error"]
        if error is None:
            return _push_result(pushing, answer, answer["inputs"][0])
    except (ValueError, LookupError, TypeError):
        raise EngineFailedError(
            what="odfbuild ingest ended without an answer",
            why=done.stderr.strip().rpartition("\n")[2] or f"its exit code was {done.returncode}",
            fix="write the rows to Parquet files, and push these with odfbuild ingest",
        ) from None
    raise EngineError(error["what"], error["why"], error["fix"])


def _arguments(project: Opened, alias: DatasetAlias, pushing: "Pushing") -> Iterator[str]:
    yield from (str(alias), str(pushing.path), "-C", str(project.root), "-t", project.target)
    yield from ("-o", "json", "--called", pushing.name)
    for name, value in (
        ("--source", pushing.source),
        ("--format", pushing.format),
        ("--event-time", pushing.event_time),
        ("--id", pushing.id),
    ):
        if value is not None:
            yield f"{name}={value}"
    for name, values in (("--var", project.given), ("--vars-file", project.vars_files)):
        for each in values:
            yield f"{name}={each}"


def _push_result(pushing: "Pushing", answer: Any, of: Any) -> "Pushed":
    from odfbuild.executors.engine.context import InputNotes
    from odfbuild.executors.ingest.push.push import Pushed

    return Pushed(
        name=pushing.name,
        source=of["source"],
        id=of["id"],
        blocks=of["blocks"],
        records=of["records"],
        head=Multihash.parse(answer["head"]),
        repeated=of["outcome"] == "repeated",
        notes=InputNotes(of["bad_rows"], of["bad_rows_file"], _column_drift(of["drift"])),
    )


def _column_drift(drift: Any) -> "ColumnDrift | None":
    from odfbuild.executors.engine.context import ColumnDrift

    if drift is None:
        return None
    return ColumnDrift(
        tuple(drift["added"]),
        tuple(drift["grown"]),
        tuple(drift["missing"]),
        tuple(map(tuple, drift["renamed"])),
    )


_ROWS: Final = "the data"
_STREAM: Final = "standard input"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PushRequest:
    """What was said of an input."""

    source: str | None
    format: str | None
    event_time: Timestamp | None
    id: str | None
    id_from_content: bool


@dataclass(frozen=True, slots=True)
class _Input:
    """A file to push, how it is called, and whether it holds the rows of a value."""

    name: str
    path: Path
    is_rows: bool = False
    is_copy: bool = False


def push(
    project: Opened | Path | str,
    name: str,
    data: object,
    *,
    source: str | None = None,
    format: str | None = None,
    event_time: datetime | str | None = None,
    id: str | None = None,
) -> "Pushed":
    """Push one input into a root dataset; see `Pusher.push`."""
    with Pusher(project) as pusher:
        return pusher.push(name, data, source=source, format=format, event_time=event_time, id=id)


class Pusher:
    """Pushes into the datasets of one project, all through one engine, started when first needed.

    A context that stops the engine at its end; `project` is opened, or the folder of one.
    """

    def __init__(self, project: Opened | Path | str) -> None:
        self.project = project if isinstance(project, Opened) else open_project(Path(project))
        self._engine: Any = None
        self._is_started = False
        self._declared: Sequence[Declared] | None = None

    def __enter__(self) -> "Pusher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine, if it runs."""
        if self._engine is not None:
            self._engine.close()
        self._engine, self._is_started = None, False

    def push(
        self,
        name: str,
        data: object,
        *,
        source: str | None = None,
        format: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,
        id_from_content: bool = False,
        called: str | None = None,
    ) -> "Pushed":
        """Commit one input to a root dataset, and say what became of it.

        `data` is the path of a file, a file open for reading bytes, an Arrow table or reader of
        batches, or a DataFrame of pandas, Polars or Spark.  `source` names the push source where
        there are several; `format` is that of a file, as `odfbuild ingest --format` takes it.
        `event_time` is for rows without one, by default now.  A push with an `id` that the dataset
        has of this source already is recognised, and changes nothing; `id_from_content` takes the
        hash of a file's bytes.  `called` is how messages call the input.

        Raises OdfBuildError with the dataset as it was.
        """
        asked = _PushRequest(
            source=source,
            format=format,
            event_time=_instant(event_time),
            id=id,
            id_from_content=id_from_content,
        )
        alias, dataset = self._find(name)
        with self.project.workspace.staging() as staging:
            given = _file_of(data, staging)
            given = given if called is None else replace(given, name=called)
            try:
                return self._push(alias, dataset, given, asked)
            except OdfBuildError as error:
                if given.is_copy and not given.is_rows and given.path.stat().st_size:
                    _keep(
                        given, error, self.project.workspace.cache / "push" / dataset.id.multibase
                    )
                raise

    def _push(
        self, alias: DatasetAlias, dataset: Dataset, given: _Input, asked: _PushRequest
    ) -> "Pushed":
        from odfbuild.executors.engine.context import SLICE_ROWS, Site
        from odfbuild.executors.engine.spark.user_session import has_other_session
        from odfbuild.executors.ingest.push.push import push as take_in

        pushing = self._pushing(alias, dataset, given, asked)
        if has_other_session():
            return push_elsewhere(self.project, alias, pushing)
        site = Site(
            workspace=self.project.workspace,
            engine=self._started_engine(),
            clock=lambda: Timestamp.from_millis(time_ns() // 1_000_000),
            project_dir=self.project.root,
            env=os.environ,
            slice_rows=self.project.spark.slice_rows or SLICE_ROWS,
            gate=gate_of(self.project),
        )
        return take_in(site, dataset, pushing, called=str(alias), soon=self._soon)

    def _pushing(
        self, alias: DatasetAlias, dataset: Dataset, given: _Input, asked: _PushRequest
    ) -> "Pushing":
        from odfbuild.executors.ingest.media import PushFormat, parse_format
        from odfbuild.executors.ingest.push.push import Pushing
        from odfbuild.state.chain.objects import hash_file

        format = None if asked.format is None else parse_format(asked.format)
        if given.is_rows:
            self._check_rows(alias, dataset, given, asked)
            format = PushFormat.PARQUET
        return Pushing(
            name=given.name,
            path=given.path,
            source=asked.source,
            format=format,
            event_time=asked.event_time,
            id=str(hash_file(given.path)) if asked.id_from_content else asked.id,
            options=self._options(alias),
        )

    def _check_rows(
        self, alias: DatasetAlias, dataset: Dataset, given: _Input, asked: _PushRequest
    ) -> None:
        from odfbuild.executors.ingest.push.source import push_source
        from odfbuild.executors.ingest.push.spool import check_columns

        state = dataset.state()
        if state is not None:
            check_columns(given.path, push_source(state, asked.source, str(alias)), given.name)

    def _options(self, alias: DatasetAlias) -> IngestOptions:
        """Return what the project says of the dataset beyond its definition."""
        if self._declared is None:
            has_defaults = bool(self.project.config.defaults)
            self._declared = load(self.project).declared if has_defaults else ()
        found = (each.traits.ingest for each in self._declared if each.alias == alias)
        return next(found, AS_USUAL)

    def _find(self, name: str) -> tuple[DatasetAlias, Dataset]:
        try:
            return find_name(self.project, name), find_dataset(self.project, name)
        except StateError as error:
            if _is_declared(self.project, name):
                error.why = "it is declared, but was not applied yet"
                error.fix = f"odfbuild apply {name}"
            raise

    def _started_engine(self) -> Any:
        if self._engine is None:
            self._engine = engine_of(self.project)
        return self._engine

    def _soon(self, planned_bytes: int) -> None:
        """Let the engine start while the first input is read."""
        if not self._is_started:
            self._is_started = True
            self._started_engine().prepare(planned_bytes)


def _instant(given: datetime | str | None) -> Timestamp | None:
    if isinstance(given, str):
        return Timestamp.parse(given)
    return None if given is None else Timestamp.from_datetime(given)


def _is_declared(project: Opened, name: str) -> bool:
    try:
        wanted = DatasetAlias.parse(name)
        return any(each.alias == wanted for each in load(project).declared)
    except ProjectErrors:
        return False


def _file_of(data: object, staging: Path) -> _Input:
    """Return the file that holds an input; whatever is no whole file yet is written first."""
    from odfbuild.executors.ingest.push.spool import spool, spool_rows

    path = staging / "input"
    if isinstance(data, str | os.PathLike):
        given = Path(os.fspath(data))
        with _readable(given):
            if given.is_file():
                with given.open("rb"):
                    return _Input(given.name, given)
            with given.open("rb") as stream:
                spool(stream, path)
        return _Input(given.name, path, is_copy=True)
    if callable(getattr(data, "read", None)):
        spool(_bytes(data), path)
        return _Input(_name_of(data), path, is_copy=True)
    spool_rows(data, path)
    return _Input(_ROWS, path, is_rows=True, is_copy=True)


def _bytes(data: Any) -> IO[bytes]:
    stream: IO[bytes] = data
    return stream


def _name_of(stream: object) -> str:
    """Name a stream after its file, if it is one; what comes through a pipe has no such name."""
    name = getattr(stream, "name", None)
    return Path(name).name if isinstance(name, str) and not name.startswith("<") else _STREAM


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    from odfbuild.executors.ingest.push.push import BadPushError

    try:
        yield
    except OSError as error:
        raise BadPushError(
            what=f"{path} cannot be read",
            why=error.strerror or str(error),
            fix="correct the name, or the access rights of the file",
        ) from None


def _keep(given: _Input, error: OdfBuildError, folder: Path) -> None:
    """Keep what cannot be read a second time, in the place of what was kept before."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = given.path.rename(folder / "failed-input")
    error.fix += f"; stored for inspection: {kept}"
