"""Few new rows against a long history: what they touch of it is found first.

Both sides of a plain join are sorted by key, the history too, however little of it matters.  Keys
of new rows that fit into memory are sent to all tasks instead, which then read the history once, in
any order, and pass over the files and pages whose keys lie outside of those.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from odfbuild.executors.spark.merge_parts import Narrowing
from odfbuild.executors.spark.sqltypes import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["joins", "narrowing", "stored_once"]

_MOST_ROWS: Final = 2_000_000  # new rows whose keys are sent to all tasks
_MOST_BYTES: Final = 64 << 20  # of texts in these keys
_LONGEST_BOUND: Final = 200
_ORDERED: Final = frozenset({"byte", "short", "integer", "long", "date", "string", "decimal"})
_FIXED: Final = frozenset({*_ORDERED, "boolean", "float", "double", "timestamp"}) - {"string"}
_TEXTS: Final = frozenset({"string", "binary"})
_SETTINGS: Final = MappingProxyType(
    {
        # the size of a file says little about its rows: only what was counted is sent to all
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.optimizer.disableHints": "false",
        "spark.sql.broadcastTimeout": "86400",
    }
)


@contextmanager
def joins(session: "SparkSession") -> Iterator[None]:
    """Let joins be done as the statements within say; queries of users are read before."""
    before = {name: session.conf.get(name) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            session.conf.set(name, str(old))


def stored_once(frame: "DataFrame", staging: Path) -> "DataFrame":
    """Return the rows as files that can be read several times, where they are costly to make."""
    folder = staging / f"new-{uuid4().hex}"
    frame.write.option("compression", "snappy").parquet(folder.as_uri())
    return frame.sparkSession.read.schema(frame.schema).parquet(folder.as_uri())


def narrowing(
    session: "SparkSession", new: str, key: Sequence[str], kinds: Mapping[str, Any]
) -> Narrowing | None:
    """Look at the keys of the new rows; return None if they are too many, or of unknown size."""
    names = {name: kinds[name].typeName() for name in key}
    if not set(names.values()) <= _FIXED | _TEXTS:
        return None
    texts = [f"octet_length({quoted(n)})" for n, kind in names.items() if kind in _TEXTS]
    size = " + ".join(f"coalesce({each}, 0)" for each in texts) or "0"
    first = quoted(key[0])
    if names[key[0]] not in _ORDERED:
        first = "CAST(NULL AS STRING)"
    found = session.sql(
        f"SELECT count(*) AS rows, coalesce(sum({size}), 0) AS size, "
        f"CAST(min({first}) AS STRING) AS low, CAST(max({first}) AS STRING) AS high FROM {new}"
    ).toArrow()
    (seen,) = found.to_pylist()
    if seen["rows"] > _MOST_ROWS or seen["size"] > _MOST_BYTES:
        return None
    kind = kinds[key[0]].simpleString()
    low, high = (_bound(seen[end], kind) for end in ("low", "high"))
    return Narrowing(low, high) if low and high else Narrowing(None, None)


def _bound(value: str | None, kind: str) -> str | None:
    if value is None or len(value) > _LONGEST_BOUND:
        return None
    return f"CAST({literal(value)} AS {kind})"
