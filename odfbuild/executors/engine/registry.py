"""Registry of engines: those of a project, as one; each query goes to the engine that it names.

Sources are merged by the engine that the project says, questions answered by the default one.  None
is imported, nor started, before it is needed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import Analyser, QueryAnalyser
from odfbuild.executors.engine.protocol import (
    CondenseRequest,
    Engine,
    IngestRequest,
    RawQueryWork,
    ReplayEngine,
    TransformWork,
    offering,
)
from odfbuild.host.permissions import NotPermittedError
from odfbuild.odf.events import MergeStrategy, Transform, TransformSql
from odfbuild.project.config.engines import DEFAULT_ENGINE, ENGINES
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from odfbuild.executors.engine.analysis import Analysis
    from odfbuild.executors.engine.protocol import Inputs
    from odfbuild.executors.engine.provenance.derive import OriginEngine
    from odfbuild.executors.engine.querier import QueryRequest

_ARROW: Final = "datafusion.merging"
_AUTO: Final = "auto"

Item = TypeVar("Item")
Result = TypeVar("Result")


class QueryEngine(ReplayEngine, Analyser, Protocol):
    """What is asked of an engine for its own queries; see `Engine`."""

    def query(self, request: "QueryRequest") -> Frame:
        """Answer a question; see `Querier`."""

    def raw_query(self, work: RawQueryWork) -> Frame: ...

    def transform(self, work: TransformWork) -> Frame: ...

    def validate(self, work: TransformWork) -> "pa.Schema": ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Merger(Protocol):
    """What is asked of an engine for the rows of sources; see `Engine`."""

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int: ...

    def ingest(self, request: IngestRequest) -> Frame: ...

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]: ...

    def condense(self, request: CondenseRequest) -> "tuple[Path, ...]": ...

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class DefaultEngine(Engine, ReplayEngine, Analyser, Protocol):
    """What is asked of the engine of all that is not a query for another."""

    def query(self, request: "QueryRequest") -> Frame: ...

    def prepare(self, planned_bytes: int | None = None) -> None:
        """Start without waiting for it; `planned_bytes` is how much will be read."""


CLUSTER_STORE: Final = "files for a cluster are in"


def check_master(project: Opened) -> None:
    """Raise NotPermittedError of a cluster that may not be used, or of the store of its files."""
    spark = project.spark
    try:
        project.permissions.check_master(spark.master)
        if spark.objects is not None:
            project.permissions.check_store(spark.objects, CLUSTER_STORE)
    except NotPermittedError as error:
        error.span = project.config.places.get(f"master {project.target}")
        raise


def engine_of(project: Opened) -> "EnginesByName":
    """Return the engines, none started yet.  Raises MasterNotPermittedError."""
    check_master(project)
    return EnginesByName(project)


class QuickEngines(QueryAnalyser):
    """Engines that start at once, and engines elsewhere, each asked about queries for it alone.

    Raises NotPermittedError of an engine elsewhere that may not be used.
    """

    def __init__(
        self, project: Opened, names: Collection[str], elsewhere: Collection[str] = ()
    ) -> None:
        self._engines: dict[str, QueryAnalyser] = {
            name: _open_engine(project, name) for name in names
        }
        for name in elsewhere:
            from odfbuild.executors.engine.contract.outside import open_for_questions

            self._engines[name] = open_for_questions(project, name)

    def analyse(self, question: "Analysis") -> "pa.Schema":
        return self._engines[question.steps[0].engine.lower()].analyse(question)

    def close(self) -> None:
        for each in self._engines.values():
            each.close()


class EnginesByName:
    """An Engine made of those of `ENGINES`; as a context, it is closed at the end."""

    def __init__(self, project: Opened) -> None:
        self._project = project
        self._opened: DefaultEngine | None = None
        self._opening = Lock()
        self._cancelled = False
        self._others: dict[str, QueryEngine] = {}
        self._arrow: Merger | None = None
        self._merges_by_default = project.engine.ingest == DEFAULT_ENGINE

    def prepare(
        self,
        planned_bytes: int | None = None,
        queries: Collection[str] = (),
        *,
        merges: bool = True,
    ) -> None:
        """Start the default engine without waiting for it, if the work at hand needs it.

        `queries` are the engines that its queries name; without `merges` no source is merged.
        Raises NotPermittedError of an engine elsewhere that may not be used.
        """
        for name in sorted(self._project.config.engines.keys() & {*queries}):
            from odfbuild.executors.engine.contract.permission import check_permitted

            check_permitted(self._project, name)
        if self._project.engine.ingest == _AUTO:
            self._merges_by_default |= DEFAULT_ENGINE in queries
        if DEFAULT_ENGINE in queries or (merges and self._merges_by_default):
            self._default.prepare(planned_bytes)

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int:
        return self._merger.held(merge, preprocess)

    def ingest(self, request: IngestRequest) -> Frame:
        query, merger = request.preprocess, self._merger
        if query is None or (self._merges_by_default and not self._is_other(query.engine)):
            return merger.ingest(request)
        rows = self._preprocess(request, request.source, query)
        return offering(merger.ingest(replace(self._merging(request), source=rows)), rows)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        query, merger = request.preprocess, self._merger
        if query is None or (self._merges_by_default and not self._is_other(query.engine)):
            return merger.ingest_together(request, sources)
        done = [self._preprocess(request, each, query) for each in sources]
        found = merger.ingest_together(self._merging(request), done)
        return tuple(offering(each, rows) for each, rows in zip(found, done, strict=True))

    def _preprocess(self, request: IngestRequest, source: Frame, query: TransformSql) -> Frame:
        work = RawQueryWork(source=source, query=query, staging=request.staging)
        return self._of(query.engine).raw_query(work)

    def condense(self, request: CondenseRequest) -> "tuple[Path, ...]":
        return self._merger.condense(request)

    def raw_query(self, work: RawQueryWork) -> Frame:
        return self._of(work.query.engine).raw_query(work)

    def transform(self, work: TransformWork) -> Frame:
        return self._of(work.query.transform.engine).transform(work)

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with their positions; see `ReplayEngine`."""
        return self._of(work.query.transform.engine).positions(work)

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "Sequence[pa.Table]":
        """Return what the query of a step gives of selections of rows; see `ReplayEngine`."""
        return self._of(work.query.transform.engine).results(work, many)

    def origins(
        self, work: TransformWork, current: "Inputs", row: "pa.Table"
    ) -> "Mapping[str, Collection[int]]":
        """Return what an engine elsewhere says that a row was made of; see `OriginEngine`."""
        name = work.query.transform.engine
        if name not in self._project.config.engines:
            raise ValueError(f"rows of {name} are found by running its query")
        self._of(name)
        engine: OriginEngine = self._others[name]  # type: ignore[assignment]
        return engine.origins(work, current, row)

    def validate(self, work: TransformWork) -> "pa.Schema":
        return self._of(work.query.transform.engine).validate(work)

    def analyse(self, question: "Analysis") -> "pa.Schema":
        """Return the columns that a query gives, whether or not a step could compute it."""
        return self._of(question.steps[0].engine).analyse(question)

    def query(self, request: "QueryRequest") -> Frame:
        """Return the rows of the answer to a question; see `Querier`."""
        return self._of(request.engine).query(request)

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        return self._merger.spread(function, items)

    def cancel(self) -> None:
        self._cancelled = True
        for each in self._engines():
            each.cancel()

    def close(self) -> None:
        for each in self._engines():
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _engines(self) -> Iterator["Merger | QueryEngine"]:
        yield from self._others.values()
        for each in (self._opened, self._arrow):
            if each is not None:
                yield each

    @property
    def _default(self) -> DefaultEngine:
        """Return the engine of all that names no other; its modules are loaded when it is used."""
        with self._opening:
            if self._opened is None:
                self._opened = self._as_others(_open_engine(self._project, DEFAULT_ENGINE))
            return self._opened

    @property
    def _merger(self) -> "DefaultEngine | Merger":
        """Return what merges sources."""
        if self._merges_by_default:
            return self._default
        with self._opening:
            if self._arrow is None:
                self._arrow = self._as_others(_load_engine(_ARROW, self._project))
            return self._arrow

    def _merging(self, request: IngestRequest) -> IngestRequest:
        """Return the request to merge what a query has made, which Spark would run itself."""
        if self._merges_by_default:
            return replace(request, preprocess=None, infer=False)
        return request

    def _of(self, name: str) -> "DefaultEngine | QueryEngine":
        if name.lower() == DEFAULT_ENGINE:
            return self._default
        if not self._is_other(name):
            raise EngineFailedError(
                what=f"the engine '{name}' is not installed",
                why="a query is only run by the engine for which it was written",
                fix="name its address in `engines` of odfbuild.yaml",
            )
        if name not in self._others:
            self._others.setdefault(name, self._as_others(self._other(name)))
        return self._others[name]

    def _as_others(self, engine: Any) -> Any:
        """Return an engine that is new; one of a run that was cancelled begins nothing."""
        if self._cancelled:
            engine.cancel()
        return engine

    def _other(self, name: str) -> Any:
        if name in ENGINES:
            return _open_engine(self._project, name)
        from odfbuild.executors.engine.contract.outside import open_outside

        return open_outside(self._project, name)

    def _is_other(self, name: str) -> bool:
        known = name in ENGINES or name in self._project.config.engines
        return name != DEFAULT_ENGINE and known


def _open_engine(project: Opened, name: str) -> Any:
    return _load_engine(ENGINES[name].module, project)


def _load_engine(module: str, project: Opened) -> Any:
    return import_module(f"odfbuild.executors.engine.{module}").open_engine(project)


def query_engines(*definitions: object) -> frozenset[str]:
    """Return the engines that the queries of sources and transforms name; None has no query."""
    queries = (getattr(d, "preprocess", None) or getattr(d, "transform", None) for d in definitions)
    return frozenset(q.engine for q in queries if isinstance(q, TransformSql))
