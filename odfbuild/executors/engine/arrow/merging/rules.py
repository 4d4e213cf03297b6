"""Rules of merge strategies: columns that they need, and definitions and sources that they refuse.

Types are texts, as Spark SQL writes them (`plain.type_text`).
"""

# ruff: noqa: S608 - what looks like SQL is a proposal to people

import difflib
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from odfbuild.errors import EngineError
from odfbuild.odf.events import DatasetVocabulary, MergeStrategy
from odfbuild.odf.merge_strategies import (
    History,
    compared_columns,
    key_of,
    name_of,
    only_adds,
    reads_operations,
    records_operations,
    traits_of,
)
from odfbuild.planner.queries import PREPROCESS_INPUT

OPERATIONS = "operations are 0 (append), 1 (retract), 2 and 3 (correct from, to)"
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


class MergeInputError(EngineError):
    """The source rows do not fit the merge strategy or the dataset; `columns` names which."""

    code = "merge-input"

    def __init__(self, what: str, why: str, fix: str, columns: Sequence[str] = ()) -> None:
        super().__init__(what, why, fix)
        self.columns = tuple(columns)


def needed_history(
    strategy: MergeStrategy, vocab: DatasetVocabulary, new: Collection[str]
) -> tuple[str, ...]:
    """Return the columns of the history that a strategy looks at, given those of the source.

    Event times are looked up only where the source has none.
    """
    system = (vocab.offset_column, vocab.operation_type_column, vocab.event_time_column)
    key = key_of(strategy)
    match traits_of(strategy).history:
        case History.KEYS:
            return key
        case History.ROWS:
            return (*system, *(name for name in new if name not in system))
        case History.TIMES if vocab.event_time_column not in new:
            return (*system, *(name for name in key if name not in system))
        case _:
            return ()


def history_schema(
    needed: Collection[str], in_force: pa.Schema, new: Mapping[str, pa.DataType]
) -> pa.Schema:
    """Return the schema of what is read of the history: a column that only came now is null."""
    fields = []
    for name in needed:
        if name in in_force.names:
            fields.append(in_force.field(name))
        elif name in new:
            fields.append(pa.field(name, new[name]))
    return pa.schema(fields)


def result_columns(
    strategy: MergeStrategy,
    vocab: DatasetVocabulary,
    new: Collection[str],
    old: Collection[str] | None,
) -> tuple[str, ...]:
    """Return the columns of the result after the operation: event time first if there is one."""
    time = vocab.event_time_column
    known = time in new or (not only_adds(strategy) and time in (old or ()))
    return (*((time,) if known else ()), *(name for name in new if name != time))


def check_names(names: Collection[str], strategy: MergeStrategy, vocab: DatasetVocabulary) -> None:
    """Check that no column of a source is a system column.  Raises MergeInputError."""
    reserved = {vocab.offset_column, vocab.system_time_column}
    reserved |= set() if reads_operations(strategy) else {vocab.operation_type_column}
    for name in names:
        if name in reserved:
            raise MergeInputError(
                what=f"the source has a column named {name!r}",
                why="that is a system column of the dataset, which odfbuild writes",
                fix=f"rename it in `preprocess`, or give the system column another name in "
                f"SetVocab: SELECT {_quoted(name)} AS ... FROM {PREPROCESS_INPUT}",
                columns=(name,),
            )


def check_columns(
    strategy: MergeStrategy,
    vocab: DatasetVocabulary,
    new: Mapping[str, str],
    old: Mapping[str, str] | None,
    operation: str | None,
) -> None:
    """Check the columns of a source, and their types, against strategy and history.

    `new` is without the column of operations, whose type `operation` is.  Raises MergeInputError.
    """
    _check_types(new, old or {})
    check_known(key_of(strategy), new, "primary key")
    check_known(compared_columns(strategy), new, "compared")
    if reads_operations(strategy):
        _check_operation(vocab.operation_type_column, operation, strategy)


def check_known(names: Sequence[str], columns: Collection[str], role: str) -> None:
    """Check that the columns that a strategy names are there.  Raises MergeInputError."""
    for name in names:
        if name not in columns:
            closest = difflib.get_close_matches(name, columns, n=1)
            guess = f"did you mean {closest[0]!r}? " if closest else ""
            raise MergeInputError(
                what=f"unknown {role} column {name!r}",
                why=f"the rows to merge have the columns {', '.join(columns)}",
                fix=f"{guess}Correct the merge strategy, or select the column in `preprocess`",
                columns=(name,),
            )


def _check_types(news: Mapping[str, str], olds: Mapping[str, str]) -> None:
    """Check that columns have the types that they have in the history.  Raises MergeInputError."""
    for name, kind in olds.items():
        new = news.get(name)
        if new is not None and new != kind:
            raise MergeInputError(
                what=f"column {name!r} is {new} now and {kind} in the dataset",
                why="a column keeps its type, as old and new rows are compared",
                fix=f"cast it in `preprocess`: CAST({_quoted(name)} AS {kind})",
                columns=(name,),
            )


def _check_operation(name: str, kind: str | None, strategy: MergeStrategy) -> None:
    """Check the type of the operations that a source gives.  Raises MergeInputError."""
    if kind is None:
        if records_operations(strategy):
            raise MergeInputError(
                what=f"the source has no column {name!r}",
                why=f"{name_of(type(strategy))} reads from it what each row does: {OPERATIONS}",
                fix="add the column to the source or in `preprocess`; if all rows are newest "
                "values, use UpsertStream, which needs none",
                columns=(name,),
            )
        return
    if kind not in _WHOLE and not (kind.startswith("decimal") and kind.endswith(",0)")):
        raise MergeInputError(
            what=f"the operation column {name!r} is {kind}",
            why=OPERATIONS,
            fix=f"declare it as INT, or convert it in `preprocess`: CASE {name} WHEN 'd' THEN 1 "
            f"ELSE 0 END AS {name}",
            columns=(name,),
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
