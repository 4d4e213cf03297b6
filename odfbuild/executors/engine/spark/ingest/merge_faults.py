"""Faulty rows of a merge: marked by their op, so that one run finds them too."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from odfbuild.executors.engine.spark.ingest.merge_parts import MergeInputError, Merging
from odfbuild.odf.events import DatasetVocabulary, MergeStrategy

FAULT = 8  # op codes from here on mark rows that must not be there
NO_KEY, TWICE, NO_OPERATION, NO_TIME = 8, 9, 10, 11
ASKED = "__odf_asked"  # the operation that the source gave, beside the rows of the result

_WHY_KEY = {
    "Snapshot": "Snapshot finds the row to compare with by its key, which must not be null",
    "UpsertStream": "UpsertStream finds the row to replace by its key, which must not be null",
    "ChangelogStream": "ChangelogStream tells by its key which row changes; it must not be null",
}
_OPERATIONS = "operations are 0 (append), 1 (retract), 2 and 3 (correct from, to)"


def fault_error(
    row: Mapping[str, Any],
    strategy: MergeStrategy,
    op: int,
    vocab: DatasetVocabulary,
    asked: object = None,
) -> MergeInputError:
    """Return the error for a row that came back marked; `asked` is the operation it came with."""
    key = tuple(getattr(strategy, "primary_key", ()))
    shown = ", ".join(f"{name} = {_shown(row.get(name))}" for name in key)
    match op:
        case _ if op == NO_KEY:
            return _no_key(row, strategy, key, shown)
        case _ if op == NO_OPERATION:
            return _no_operation(shown, vocab, asked)
        case _ if op == NO_TIME:
            return _no_time(shown, vocab)
    return MergeInputError(
        what=f"the key {shown} is in the source more than once",
        why="Snapshot takes the source as the state of each key, so a key stands for one row",
        fix="add a column to primaryKey, or keep one row of each key in `preprocess`",
        columns=key,
    )


def check_operation(merging: Merging, *, required: bool) -> None:
    """Check the type of the operations that a source gives.  Raises MergeInputError."""
    name = merging.vocab.operation_type_column
    if merging.operation is None:
        if required:
            raise MergeInputError(
                what=f"the source has no column {name!r}",
                why=f"ChangelogStream reads from it what each row does: {_OPERATIONS}",
                fix="give the column in the source or in `preprocess`; if rows are only ever "
                "newest values, use UpsertStream, which needs none",
                columns=(name,),
            )
        return
    kind = merging.operation.typeName()
    whole = kind == "decimal" and merging.operation.scale == 0
    if kind not in {"byte", "short", "integer", "long"} and not whole:
        raise MergeInputError(
            what=f"the operation column {name!r} is {merging.operation.simpleString()}",
            why=_OPERATIONS,
            fix=f"declare it as INT, or convert it in `preprocess`: CASE {name} WHEN 'd' THEN 1 "
            f"ELSE 0 END AS {name}",
            columns=(name,),
        )


def _no_key(
    row: Mapping[str, Any], strategy: MergeStrategy, key: tuple[str, ...], shown: str
) -> MergeInputError:
    others = [(k, v) for k, v in row.items() if v is not None][:4]
    seen = ", ".join(f"{name} = {_shown(value)}" for name, value in others) or "all columns null"
    return MergeInputError(
        what=f"a source row has no value in its primary key: {shown} (row with {seen})",
        why=_WHY_KEY[type(strategy).__name__.removeprefix("MergeStrategy")],
        fix="fill the key in `preprocess`, drop such rows there, or choose another primaryKey",
        columns=key,
    )


def _shown(value: object) -> str:
    """Return a value as people write it."""
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").replace("+00:00", "Z")
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _no_operation(shown: str, vocab: DatasetVocabulary, asked: object) -> MergeInputError:
    name = vocab.operation_type_column
    value = "is null" if asked is None else f"is {asked}"
    return MergeInputError(
        what=f"the operation {name!r} of a source row {value}: {shown}",
        why=_OPERATIONS,
        fix=f"convert it in `preprocess`, such as coalesce({name}, 0) AS {name}",
        columns=(name,),
    )


def _no_time(shown: str, vocab: DatasetVocabulary) -> MergeInputError:
    name = vocab.event_time_column
    return MergeInputError(
        what=f"a row that is taken back has no event time {name!r}: {shown}",
        why="what is taken back has to be repeated as it was recorded, with its event time",
        fix=f"give the time in `preprocess`; or leave {name!r} out of it, then times are looked "
        "up; or use UpsertStream, which looks up whole rows",
        columns=(name,),
    )
