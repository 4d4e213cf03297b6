"""Contexts of DataFusion: what a query sees there, what it may use, and errors in our words.

A context has the rows that it is given and nothing else: no files, network, settings or schema of
its own, and, for a query that has to give the same rows again, no clock and no random numbers.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from odfbuild.errors import EngineFailedError, InvalidQueryError, OdfBuildError
from odfbuild.executors.data.fine_times import noting_column
from odfbuild.executors.engine.analysis import EngineFaultError
from odfbuild.executors.engine.arrow.stored import conformed, stored
from odfbuild.executors.engine.datafusion import ethereum, json_functions
from odfbuild.executors.engine.datafusion.members import check_members, with_null_members
from odfbuild.executors.engine.datafusion.unions import check_united_groups, check_united_sums
from odfbuild.sql.datafusion import ENVIRONMENT, VOLATILE
from odfbuild.sql.datafusion.extremes import ordered_extremes
from odfbuild.sql.datafusion.json_calls import as_written, with_fixed_arguments
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    import datafusion

MEMORY: Final = 2 << 30
"""Bytes that a query may take beside the rows that it is given."""

_PINNED: Final = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.dialect": "generic",
    "datafusion.execution.collect_statistics": "true",
    "datafusion.execution.parquet.schema_force_view_types": "false",
    "datafusion.optimizer.repartition_sorts": "false",
    "datafusion.catalog.information_schema": "false",
    # it loses the names of columns, and of a sound query no plan can be made
    "datafusion.optimizer.enable_leaf_expression_pushdown": "false",
}
_REORDERS_JOINS: Final = "datafusion.optimizer.join_reordering"
_SUBQUERIES_FIRST: Final = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
BATCH_SIZE: Final = "datafusion.execution.batch_size"
_BATCH: Final = 8192
_ADVICE: Final = re.compile(r" Column names are case sensitive\. You can use .*? configuration\.")
"""Of DataFusion, about a setting that nobody can change here."""
_ETHEREUM: Final = re.compile(r"Invalid function '(eth_(?:try_)?(?:decode_event|event_selector))'")
_JSON: Final = (
    (
        "Invalid function 'json_get'",
        "the query uses json_get() without a cast to boolean, bigint, double or varchar",
        "a column holds values of one type, and json_get() gives any",
        "write a cast, as in json_get(document, 'key')::bigint, or json_as_text(document, 'key')",
    ),
    *(
        (
            f"Operator {sign} is not yet supported",
            f"the query uses the operator {sign}",
            "DataFusion has it for JSON only with an addition in Rust, which Python cannot load",
            f"write {instead}(document, 'key'){end}",
        )
        for sign, instead, end in (
            ("->>", "json_as_text", ""),
            ("->", "json_get", "::bigint, or another type"),
        )
    ),
)
"""Signs in errors of DataFusion, and how the query can be written."""
_EXTREME: Final = re.compile(r"\b(?:min|max)\(")
_NODE: Final = re.compile(r"(?<=\])\n(?= *[A-Z])")
"""Between two operators of a plan, each with its columns last; texts may have line breaks too."""
_FLOATING: Final = re.compile(r":Float(?:16|32|64)\b")
_COUNTS_BY_GROUPS: Final = "single_distinct_aggregation_to_group_by"
"""A rule that adds up sums of smaller groups: those of decimals are then of another type."""
_DECIMAL_SUM: Final = re.compile(r"\bsum\((?:(?!\):)[^\[\]])*\):Decimal")
_FLOATING_SUM: Final = re.compile(r"\bsum\((?:(?!\):)[^\[\]])*\):Float")
_SORTS: Final = 64  # the part of the memory that each sort keeps to merge what it spilled


@contextmanager
def session_context(
    memory: int,
    *,
    spill: Path | None,
    reorders_joins: bool = True,
    joins_subqueries: bool = False,
) -> "Iterator[datafusion.SessionContext]":
    """Open a context of one partition, in which rows keep their order, with its own memory.

    What does not fit into that goes to a folder in `spill`, which is gone at the end: an error
    that is kept keeps the context, and what DataFusion would delete with it.  The smaller side of a
    join is read first, or with `reorders_joins` False the left one.  With `joins_subqueries` a
    plan has each subquery as a join, also those that are computed first.
    """
    settings = {_REORDERS_JOINS: reorders_joins, _SUBQUERIES_FIRST: not joins_subqueries}
    if spill is None:
        yield _session(memory, None, settings)
        return
    folder = spill / f"spill-{uuid4().hex}"
    folder.mkdir()
    try:
        yield _session(memory, folder, settings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _session(
    memory: int, spill: Path | None, switches: Mapping[str, bool]
) -> "datafusion.SessionContext":
    import datafusion

    runtime = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(memory)
    if spill is None:
        runtime = runtime.with_disk_manager_disabled()
    else:
        runtime = runtime.with_disk_manager_specified(str(spill))
    by_memory = {
        "datafusion.execution.sort_spill_reservation_bytes": str(memory // _SORTS),
        BATCH_SIZE: str(batch_rows(memory)),
    }
    switched = {name: str(value).lower() for name, value in switches.items()}
    config = datafusion.SessionConfig({**_PINNED, **by_memory, **switched}).with_target_partitions(
        1
    )
    config = config.with_default_catalog_and_schema("odf", "odf")
    return datafusion.SessionContext(config, runtime)


def batch_rows(memory: int, row_bytes: int = 0) -> int:
    """Return how many rows a batch may have: several are in memory while files are merged."""
    most = max(512, min(_BATCH, memory >> 15))
    return most if not row_bytes else max(1, min(most, batch_bytes(memory) // row_bytes))


def batch_bytes(memory: int) -> int:
    """Return how many bytes the rows of a batch may have."""
    return memory // _SORTS


@contextmanager
def query_context(
    *,
    spill: Path | None,
    clock: bool,
    memory: int = MEMORY,
    reorders_joins: bool = True,
    joins_subqueries: bool = False,
) -> "Iterator[QueryContext]":
    """Open a context for queries.

    With `spill` what does not fit into memory goes to files of that folder, by which the order of
    rows within groups may change; without it such a query fails.  With `clock` it may ask for the
    time.
    """
    with session_context(
        memory, spill=spill, reorders_joins=reorders_joins, joins_subqueries=joins_subqueries
    ) as session:
        yield QueryContext(session, spill=spill, clock=clock)


class QueryContext:
    """One context; a query reads the tables that are added to it, by their exact names."""

    def __init__(
        self, session: "datafusion.SessionContext", *, spill: Path | None, clock: bool
    ) -> None:
        import datafusion

        self._context = session
        self._spill, self._clock = spill, clock
        self._tables: dict[str, pa.Table] = {}
        self._mixes_sums = False
        self._options = datafusion.SQLOptions()
        self._options = self._options.with_allow_ddl(False).with_allow_dml(False)
        self._options = self._options.with_allow_statements(False)
        for name in sorted(ENVIRONMENT if clock else ENVIRONMENT | VOLATILE):
            self._context.deregister_udf(name)
        logs = ethereum.functions() if ethereum.is_installed() else ()
        for name, call, arguments, kind in chain(json_functions.functions(), logs):
            self._context.register_udf(datafusion.udf(call, arguments, kind, "immutable", name))

    def add(self, name: str, rows: pa.Table) -> None:
        """Make rows readable by a name."""
        self._tables[name] = rows
        columns = [with_null_members(each) for each in rows.columns]
        rows = pa.Table.from_arrays(columns, schema=rows.schema)
        batches = [each for each in rows.to_batches(max_chunksize=_BATCH) if each.num_rows]
        empty = pa.RecordBatch.from_arrays(
            [pa.array([], each.type) for each in rows.schema], schema=rows.schema
        )
        quoted = _quoted(name)
        self._context.deregister_table(quoted)
        self._context.register_record_batches(quoted, [batches or [empty]])

    @contextmanager
    def joining(self) -> "Iterator[QueryContext]":
        """Open a context with the same rows, in which plans have each subquery as a join."""
        with query_context(spill=self._spill, clock=self._clock, joins_subqueries=True) as other:
            for name, rows in self._tables.items():
                other.add(name, rows)
            yield other

    def frame_of(self, plan: Any) -> "datafusion.DataFrame":
        """Return what a part of a plan gives, not run."""
        return self._context.create_dataframe_from_logical_plan(plan)

    def name(self, name: str, frame: "datafusion.DataFrame") -> None:
        """Make what a query gives readable by a name."""
        quoted = _quoted(name)
        self._context.deregister_table(quoted)
        self._context.register_view(quoted, frame)

    def query(self, text: str) -> "datafusion.DataFrame":
        """Return a query, analysed but not run.  Raises InvalidQueryError."""
        written = text
        with suppress(SqlTextError):  # the engine says what is wrong with such a text
            text = with_fixed_arguments(text)
        with engine_errors("read the query"):
            frame = self._context.sql_with_options(text, self._options)
            decimals, floats = _distinct_sums(frame)
            self._mixes_sums = self._mixes_sums or (decimals and floats)
            if decimals and not floats:  # else the rule decides the order in which floats add up
                self._context.remove_optimizer_rule(_COUNTS_BY_GROUPS)
                frame = self._context.sql_with_options(text, self._options)
            has_extremes = _has_floating_extremes(frame)
            if text == written and not has_extremes:
                return frame
            names = [as_written(each) for each in frame.schema().names]
            return _renamed(self._ordered(text) if has_extremes else frame, names)

    def last(self, text: str) -> "datafusion.DataFrame":
        """Return a query that none reads, like `query`.

        Where sums of decimals and of floating-point numbers are beside distinct values, the former
        have the type of the query only without the rule that decides the order of the latter: it
        is left out where the query cannot be computed otherwise.
        """
        frame = self.query(text)
        with engine_errors("read the query"):
            if not self._mixes_sums or not _has_other_types(frame):
                return frame
        self._context.remove_optimizer_rule(_COUNTS_BY_GROUPS)
        return self.query(text)

    def _ordered(self, text: str) -> "datafusion.DataFrame":
        """Return a query whose least and greatest values do not go by the order of rows."""
        try:
            return self._context.sql_with_options(ordered_extremes(text), self._options)
        except Exception as error:  # the text as it was written is sound
            raise InvalidQueryError(
                what="the query names a least or greatest value by its text: "
                f"{_plain(' '.join(str(error).split()))}",
                why="min() and max() of floating-point numbers are asked for as first_value(), "
                "since DataFusion's own go by the order of rows where one is NaN",
                fix="give each of them a name, as in max(x) as most, and use that; write no ORDER "
                "BY in its brackets",
            ) from None


def _has_floating_extremes(frame: "datafusion.DataFrame") -> bool:
    """Tell whether groups of a query may have a least or greatest floating-point number."""
    return any(_EXTREME.search(each) and _FLOATING.search(each) for each in _groups(frame))


def _distinct_sums(frame: "datafusion.DataFrame") -> tuple[bool, bool]:
    """Tell whether a query sums up decimals, and floating-point numbers, beside distinct values.

    DataFusion may give those of decimals another type than the query has.
    """
    found = [each for each in _groups(frame) if "(DISTINCT " in each]
    return any(map(_DECIMAL_SUM.search, found)), any(map(_FLOATING_SUM.search, found))


def _has_other_types(frame: "datafusion.DataFrame") -> bool:
    """Tell whether the rows of a query have other types than its text says."""
    of_all = schema_of(frame.optimized_logical_plan())
    return not _as_stored(frame.schema()).equals(_as_stored(of_all))


def _groups(frame: "datafusion.DataFrame") -> Iterator[str]:
    """Yield each group of a plan: its keys, aggregates, and columns with their types."""
    nodes = _NODE.split(frame.logical_plan().display_indent_schema())
    return (each for each in nodes if each.lstrip().startswith("Aggregate: groupBy=[["))


def _renamed(frame: "datafusion.DataFrame", names: Sequence[str]) -> "datafusion.DataFrame":
    """Return a query with other names of its columns."""
    from datafusion import col

    old = frame.schema().names
    if old == names:
        return frame
    return frame.select(
        *(col(_quoted(was)).alias(name) for was, name in zip(old, names, strict=True))
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def columns(frame: "datafusion.DataFrame") -> pa.Schema:
    """Return the columns of a query as they are stored, all nullable.

    Raises InvalidQueryError where branches of different types make a column: the schema of
    the query as it is written is that of the first branch, its rows are of the type of all; where
    a member is read of a struct that has none, see `check_members`; and of groups that come out
    divided, see `check_united_groups`.
    """
    with engine_errors("read the query"):
        found = frame.schema()
        plan = frame.optimized_logical_plan()
        of_all = schema_of(plan)
        check_united_groups(frame.logical_plan(), plan)
    check_members(plan, schema_of)
    written, computed = _as_stored(found), _as_stored(of_all)
    if written != computed:
        raise _mixed_types_error(f"the columns {_types(written)}", _types(computed))
    return written


def check_sums(frame: "datafusion.DataFrame") -> None:
    """Raise InvalidQueryError of sums of rows in no order; see `check_united_sums`."""
    with engine_errors("plan the query"):
        plans = frame.logical_plan(), frame.optimized_logical_plan()
        check_united_sums(schema_of, *plans)


def plan_text(frame: "datafusion.DataFrame") -> str:
    """Return the text of the plan of a query, in which texts of the user are, too."""
    with engine_errors("plan the query"):
        return str(frame.optimized_logical_plan().display_indent())


def check_plan(frame: "datafusion.DataFrame") -> None:
    """Raise InvalidQueryError where DataFusion reads a query over no rows and cannot run it."""
    try:
        with engine_errors("plan the query"):
            for _ in frame.execute_stream():
                pass
    except EngineFaultError as error:
        raise impossible(error) from None


def impossible(error: OdfBuildError) -> InvalidQueryError:
    """Return the error for a query with which DataFusion fails whatever its rows are."""
    return InvalidQueryError(
        what=error.what,
        why="DataFusion cannot run the query, whatever its rows are",
        fix="write the query in another way",
    )


def _as_stored(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(each.name, stored(each.name, each.type)) for each in schema])


def rows_of(frame: "datafusion.DataFrame") -> pa.Table:
    """Run a query and return its rows, as they are stored."""
    schema = columns(frame)
    batches: list[pa.RecordBatch] = []
    size = 0
    for each in batches_of(frame, schema):
        batches.append(each)
        size += each.nbytes
        if size > MEMORY:
            raise too_large("run the query")
    return pa.Table.from_batches(batches, schema)


def batches_of(frame: "datafusion.DataFrame", schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Run a query and yield its rows, as they are stored in columns of a schema."""
    with engine_errors("run the query"):
        for each in frame.execute_stream():
            yield _as(each.to_pyarrow(), schema)


def _types(schema: pa.Schema) -> str:
    """Return names and types of columns."""
    return ", ".join(f"{each.name}: {each.type}" for each in schema)


def schema_of(plan: Any) -> pa.Schema:
    """Return the columns of a plan; its text has them too, among those of the user's."""
    return _plain_context().create_dataframe_from_logical_plan(plan).schema()


@lru_cache(maxsize=1)
def _plain_context() -> "datafusion.SessionContext":
    """Return a context without rows, which plans are looked at in."""
    import datafusion

    return datafusion.SessionContext()


def _mixed_types_error(written: str, computed: str) -> InvalidQueryError:
    return InvalidQueryError(
        what=f"the query returns values of several types: {written} become {computed}",
        why="a column has one type, which must be known before there are rows",
        fix="give the branches of CASE and UNION, and the operands of arithmetic, one type: "
        "cast(... as double), or of an unsigned number such as row_number() cast(... as bigint)",
    )


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    found = []
    for column, field in zip(batch.columns, schema, strict=True):
        if stored(field.name, column.type) != field.type:
            raise _mixed_types_error(f"{field.name} {field.type}", str(column.type))
        noting_column(field.name)
        found.append(conformed(column, field.type))
    return pa.RecordBatch.from_arrays(found, schema=schema)


@contextmanager
def engine_errors(doing: str, advice: str | None = None) -> Iterator[None]:
    """Raise errors of DataFusion as errors of this program.

    What it refuses is a fault of the user's text, unless there is `advice`: then the text is not
    the user's, and the engine failed.
    """
    try:
        yield
    except OdfBuildError:
        raise
    except BaseException as error:  # DataFusion raises Exception, and for a panic no Exception
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        error.__traceback__ = None  # it holds the rows, and contextlib's frame that holds it
        raise _named_error(error, doing, advice) from None


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"  # of Rust


def _named_error(error: BaseException, doing: str, advice: str | None) -> OdfBuildError:
    """Return an error of DataFusion as one of this program."""
    if isinstance(error, MemoryError | OSError):
        return _failure(doing, str(error), advice)
    if _is_panic(error):
        return _failure(doing, str(error), advice, EngineFaultError)
    text = " ".join(str(error).split())
    if advice is not None:
        return _failure(doing, text, advice)
    if "Resources exhausted" in text:
        return too_large(doing)
    if not ethereum.is_installed() and (asked := _ETHEREUM.search(text)):
        return InvalidQueryError(
            what=f"the query uses {asked[1]}(), which needs eth-abi, and that is not installed",
            why="few queries decode logs of Ethereum, so a plain install is without it",
            fix="install it: pip install 'odfbuild[ethereum]'",
        )
    for sign, what, why, fix in _JSON:
        if sign in text:
            return InvalidQueryError(what=what, why=why, fix=fix)
    return InvalidQueryError(
        what=f"could not {doing}: {_plain(text)}",
        why="DataFusion refuses the query, or fails with these rows; names are case-sensitive",
        fix="correct the query",
    )


def too_large(doing: str) -> EngineFailedError:
    """Return the error for rows that are more than memory may hold."""
    return EngineFailedError(
        what=f"could not {doing}: it needs more than {MEMORY >> 20} MB of memory",
        why="a query over all rows is computed in memory, so that its result is the same on every "
        "machine",
        fix="read fewer rows or columns, in a separate dataset, or write the query for `engine: "
        "spark`",
    )


def _failure(
    doing: str,
    text: str,
    advice: str | None,
    kind: type[EngineFailedError] = EngineFailedError,
) -> EngineFailedError:
    what = f"could not {doing}: {_plain(text)}"
    if "No space left" in text:
        return kind(
            what=what,
            why="the disk of the workspace is full, where rows are sorted that memory cannot hold",
            fix="free some space there, then run again",
        )
    again = "run the command again; if it fails again, rewrite the query"
    return kind(what=what, why="DataFusion failed", fix=advice or again)


def _plain(text: str) -> str:
    for prefix in ("DataFusion error: ", "Error during planning: ", "Schema error: "):
        text = text.removeprefix(prefix)
    return excerpt(as_written(_ADVICE.sub("", text)), 500)


def last_of(context: QueryContext, texts: Sequence[tuple[str | None, str]]) -> Any:
    """Return the last of some steps, given by alias and text; each sees those before it."""
    *before, (alias, last) = texts
    for name, text in before:
        frame = context.query(text)
        if name is not None:
            context.name(name, frame)
    found = context.last(last)
    if alias is not None:
        context.name(alias, found)
    return found
