"""Requirements on the columns of a result: storable, named once, with an event time."""

import re
from typing import TYPE_CHECKING, Any

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.arrow.requirements import check_names
from odfbuild.executors.engine.spark.frames import POSITION, check_storable
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.odf.events import DatasetVocabulary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


OPERATION = "__odf_op"
_STORABLE = re.compile(
    "boolean|byte|short|integer|long|float|double|decimal|string|binary|date|timestamp|"
    "timestamp_ntz|time|array|map|struct"
)


def hidden(*, raw: bool) -> tuple[str, ...]:
    """Return the columns that are carried through a query."""
    return (POSITION,) if raw else (OPERATION, POSITION)


def check_columns(frame: "DataFrame", vocab: DatasetVocabulary, *, raw: bool) -> None:
    check_storable(frame)
    fields = {f.name: f.dataType for f in frame.schema.fields}
    names = [name for name in frame.columns if name not in hidden(raw=raw)]
    check_names(names, vocab, raw=raw)
    for name in names:
        _check_storable(name, name, fields[name])
    _check_event_time({name: fields[name] for name in names}, vocab)
    op = fields.get(vocab.operation_type_column)
    if raw and op is not None and op.typeName() not in {"byte", "short", "integer", "long"}:
        raise InvalidQueryError(
            what=f"{vocab.operation_type_column!r} is {op.simpleString()} in the query's result",
            why="operations are the numbers 0 to 3",
            fix="pass the op of the input through unchanged",
        )


def _check_storable(column: str, part: str, kind: Any) -> None:
    name = kind.typeName()
    if not _STORABLE.fullmatch(name):
        raise InvalidQueryError(
            what=f"column {part!r} has the type {kind.simpleString()}, which cannot be stored",
            why="a slice can store numbers, texts, bytes, dates, times, timestamps and nested "
            "types of them",
            fix=f"give it a type: CAST(... AS STRING) AS {quoted(column)}",
        )
    if name == "array":
        _check_storable(column, f"{part}[]", kind.elementType)
    elif name == "map":
        _check_storable(column, f"{part}.key", kind.keyType)
        _check_storable(column, f"{part}.value", kind.valueType)
    elif name == "struct":
        for field in kind.fields:
            _check_storable(column, f"{part}.{field.name}", field.dataType)


def _check_event_time(fields: dict[str, Any], vocab: DatasetVocabulary) -> None:
    name, times = vocab.event_time_column, {"date", "timestamp", "timestamp_ntz"}
    kind = fields.get(name)
    if kind is not None and kind.typeName() in times:
        return
    could = [other for other, each in fields.items() if each.typeName() in times]
    what = (
        f"the query has no result column {name!r}"
        if kind is None
        else f"{name!r} is {kind.simpleString()} in the query's result, not DATE or TIMESTAMP"
    )
    fix = (
        f"select {' or '.join(could)} AS {name}, or name that column in SetVocab"
        if could
        else f"select the {name} of the input as well"
    )
    raise InvalidQueryError(what, "every record of a dataset has an event time", fix)
