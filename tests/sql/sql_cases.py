"""Queries with what must be known of them, from `queries.txt` beside this module.

A case is a query, then a line for each output column (name, type, and the columns that its values
come from), then the columns that shape the result, and the incremental class with the clause.
`?` is a type that is not told, `-` a name that only the engine can tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from odfbuild.odf.events import DataField, DataSchema, DataTypeInt32, DataTypeMap, DataTypeString
from odfbuild.odf.events import DataTypeOption as Option
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import type_name
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.sql.columns.output import ColumnRef
from odfbuild.sql.text.steps import QueryStep

__all__ = ["CASES", "FILE", "INPUTS", "Case", "asked", "described"]

FILE = Path(__file__).parent / "queries.txt"
_TRADES = parse_ddl(
    "event_time TIMESTAMP NOT NULL, symbol STRING NOT NULL, price DECIMAL(10,2), qty INT, "
    "venue STRUCT<id INT NOT NULL, name STRING>, tags ARRAY<STRING>, "
    "fills ARRAY<STRUCT<qty INT, price DECIMAL(10,2)>>, note STRING, day DATE, weight DOUBLE"
)
_ATTRS = DataField("attrs", Option(DataTypeMap(DataTypeString(), Option(DataTypeInt32()))))
INPUTS = {
    "trades": DataSchema((*_TRADES.fields, _ATTRS)),
    "rates": parse_ddl(
        "event_time TIMESTAMP NOT NULL, symbol STRING NOT NULL, rate DOUBLE, day DATE, qty BIGINT"
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A query and the lines that describe it."""

    query: str
    expected: str

    @property
    def id(self) -> str:
        return self.query[:60]


def asked(query: str) -> QueryColumns:
    """Return what is known of a query over the two inputs of the cases."""
    return columns_of([QueryStep(None, query)], INPUTS)


def described(query: str) -> str:
    """Return the lines that describe a query."""
    return "\n".join(_lines(query))


def _lines(query: str) -> Iterator[str]:
    found = asked(query)
    for each in found.outputs or ():
        kind = "?" if each.type is None else type_name(each.type)
        yield f"  {each.name or '-'}: {kind}{_listed(' <- ', each.sources)}"
    if found.unknown:
        yield f"  unknown: {found.unknown}"
    if found.shaping:
        yield f"  shaping{_listed(' ', found.shaping)}"
    of = query_class([QueryStep(None, query)], INPUTS)
    yield f"  class {of.name}{f' ({of.because})' if of.because else ''}"


def _listed(before: str, refs: frozenset[ColumnRef]) -> str:
    return before + ", ".join(f"{ref.input}.{ref.column}" for ref in sorted(refs)) if refs else ""


def _cases() -> Iterator[Case]:
    for part in FILE.read_text("utf-8").strip().split("\n\n"):
        query, _, expected = part.partition("\n")
        yield Case(query, expected)


CASES = tuple(_cases()) if FILE.exists() else ()
