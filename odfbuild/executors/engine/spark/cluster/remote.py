"""Sessions of Spark Connect: what `driver` does in Java, asked of the plugin of a server.

A frame of Spark Connect is a description that the server reads again each time: the names of views
in it would mean what they mean by then.  So what reads views becomes a view of its own at once,
which holds the plan as it was analysed, until the step is over.

A question is a relation that the server asks its plugin for (AdmissionPlugin.java); the answer is a
row of texts, or the plan of a query.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from odfbuild.executors.engine.spark.sql_text import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TYPE: Final = "odfbuild/"
_HELD: Final = "__odf_held"
_FEW: Final = 2  # tasks at a time, at least


def answer(session: Any, word: str, about: Any = "") -> tuple[str | None, ...]:
    """Return what the plugin says; `about` is a text, or a frame."""
    (row,) = question(session, word, about).toArrow().to_pylist()
    return tuple(row.values())


def question(session: Any, word: str, about: Any = "") -> "DataFrame":
    """Return the relation of a question, which nobody has asked yet."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Question(LogicalPlan):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(None)

        def plan(self, session: Any) -> Any:
            asked = self._create_proto_relation()
            asked.extension.type_url = f"{_TYPE}{word}"
            asked.extension.value = (
                about.encode()
                if isinstance(about, str)
                else about._plan.plan(session).SerializeToString()
            )
            return asked

    return DataFrame(Question(), session)


class _RemoteQuery:
    def __init__(self, session: Any, text: str) -> None:
        self._session = session
        self._text = text
        self._parts, self._constants = answer(session, "parsed", text)

    def parts(self) -> str:
        return str(self._parts)

    def constants(self) -> str:
        return str(self._constants)

    def analyse(self) -> None:
        (self._parts,) = answer(self._session, "analysed", self._text)

    def failures(self) -> str:
        _, found = answer(self._session, "failures", self._text)
        return str(found)

    def rows(self) -> "DataFrame":
        return _snapshot(question(self._session, "query", self._text))


class _OpenSteps:
    """The steps that are open in a session, and the views that hold their plans."""

    def __init__(self) -> None:
        self.depth = 0
        self.made = 0
        self.views: list[str] = []


_SETTINGS: WeakKeyDictionary[Any, Mapping[str, str]] = WeakKeyDictionary()
_ARCHIVES: WeakKeyDictionary[Any, Path] = WeakKeyDictionary()


def keep_for_tasks(session: Any, settings: Mapping[str, str], archive: Path) -> None:
    """Have settings of ours with a session, which the server does not know of.

    Its tasks import this package from the archive, which is sent before the first of them.
    """
    _SETTINGS[session] = settings
    _ARCHIVES[session] = archive


_OPEN: WeakKeyDictionary[Any, _OpenSteps] = WeakKeyDictionary()


def _open_steps(session: Any) -> _OpenSteps:
    return _OPEN.setdefault(session, _OpenSteps())


def has_open_step(session: Any) -> bool:
    """Tell whether a step runs in a session."""
    return _open_steps(session).depth > 0


def _snapshot(frame: Any) -> "DataFrame":
    """Return the rows of a frame as Spark reads it now."""
    session = frame.sparkSession
    steps = _open_steps(session)
    name = f"{_HELD}_{steps.made}"
    steps.made += 1
    frame.createOrReplaceTempView(name)
    steps.views.append(name)
    return session.table(name)


class _RemoteDriver:
    """The same calls of a session of Spark Connect."""

    def query_of(self, session: Any, text: str, _: Callable[[Any], Any], /) -> _RemoteQuery:
        return _RemoteQuery(session, text)

    def built(self, session: Any, text: str) -> "DataFrame":
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import SQL

        return _snapshot(DataFrame(SQL(text), session))

    def view_rows(self, session: Any, name: str) -> "DataFrame":
        return _snapshot(session.table(quoted(name)))

    def local_rows(self, session: Any, table: "pa.Table") -> "DataFrame":
        from pyspark.sql.pandas.types import from_arrow_schema

        kinds = None if table.num_rows else from_arrow_schema(table.schema)
        return session.createDataFrame(table, kinds)

    def analysed_text(self, frame: Any) -> str:
        return str(answer(frame.sparkSession, "plan", frame)[0])

    def is_deterministic(self, frame: Any) -> bool:
        return answer(frame.sparkSession, "plan", frame)[1] == "true"

    def local_batches(self, _: Any, /) -> "Iterator[pa.Table] | None":
        return None  # the server plans as it runs

    def arrow_table(self, frame: Any) -> "pa.Table":
        return frame._to_table()[0]

    def functions(self) -> Any:
        from pyspark.sql.connect import functions

        return functions

    def observation(self) -> Any:
        from pyspark.sql.connect.observation import Observation

        return Observation()

    def with_cache(self, frame: Any) -> "DataFrame":
        return frame

    def has_cache(self, _: Any, /) -> bool:
        return False

    def described_view(self, _: Any, __: str, /) -> None:
        """Return None: there is no way to a view but by a command."""

    def replace_view(self, name: str, frame: Any, _: Any, /) -> None:
        frame.createOrReplaceTempView(quoted(name))

    def drop_view(self, session: Any, name: str) -> None:
        session.catalog.dropTempView(name)

    def begin_step(self, session: Any) -> None:
        _open_steps(session).depth += 1

    def end_step(self, session: Any) -> None:
        steps = _open_steps(session)
        steps.depth -= 1
        if not steps.depth:
            names, steps.views = steps.views, []
            for name in names:
                session.catalog.dropTempView(name)

    def has_python(self, _: Any, /) -> bool:
        return False

    def has_files_here(self, _: Any, /) -> bool:
        return False

    def setting(self, session: Any, name: str) -> str | None:
        return _SETTINGS.get(session, {}).get(name)

    def task_rows(self, session: Any, tasks: Sequence[bytes]) -> "DataFrame":
        """Let Spark put rows into partitions, in order: as many as there are processors."""
        import pyarrow as pa

        return self.local_rows(session, pa.table({"task": pa.array(tasks, pa.binary())}))

    def mapped(self, frame: Any, function: Any, schema: Any) -> "DataFrame":
        session = frame.sparkSession
        archive = _ARCHIVES.pop(session, None)
        if archive is not None:
            session.addArtifacts(str(archive), pyfile=True)
        return frame.mapInArrow(function, schema)

    def parallelism(self, session: Any) -> int:
        """Count executors: how many processors one has is not known."""
        ids, _ = answer(session, "executors")
        return max(_FEW, len(str(ids).split(",")))


REMOTE = _RemoteDriver()
