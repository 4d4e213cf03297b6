"""Listings: the datasets that a caller may read, as tables, and facts of the server.

All datasets are tables of one catalog and one schema, "odf"."odf", which a query may leave out.
The columns of each listing are those of FlightSql.proto of Apache Arrow.
"""

from collections.abc import Sequence
from typing import Any, Final, assert_never

import pyarrow as pa

from odfbuild import __version__
from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.serve.access import Caller
from odfbuild.serve.files.place import check_outage
from odfbuild.serve.flight import messages as msg
from odfbuild.serve.query.flight_data import schema_bytes
from odfbuild.serve.query.qualified_names import FOLDER
from odfbuild.serve.served import Served
from odfbuild.state.chain.dataset import Dataset

TYPE: Final = "TABLE"

_OPTIONAL = [(pa.field("catalog_name", pa.string())), pa.field("db_schema_name", pa.string())]


def _required(name: str, of: pa.DataType) -> pa.Field:
    return pa.field(name, of, nullable=False)


def _key(kind: str) -> list[pa.Field]:
    return [
        pa.field(f"{kind}_catalog_name", pa.string()),
        pa.field(f"{kind}_db_schema_name", pa.string()),
        _required(f"{kind}_table_name", pa.string()),
        _required(f"{kind}_column_name", pa.string()),
    ]


_VALUES: Final = (
    ("string_value", pa.string()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", pa.list_(pa.string())),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
_TEXT, _BOOLEAN, _NUMBER = 0, 1, 3
_INFO: Final[tuple[tuple[int, int, Any], ...]] = (
    (0, _TEXT, "odfbuild"),
    (1, _TEXT, __version__),
    (2, _TEXT, pa.__version__),
    (3, _BOOLEAN, True),  # it is only read
    (4, _BOOLEAN, True),  # takes SQL
    (5, _BOOLEAN, False),  # takes Substrait
    (8, _NUMBER, 0),  # transactions: none
    (9, _BOOLEAN, False),  # cancels by a message: a call that is ended is cancelled
    (500, _BOOLEAN, False),  # makes catalogs
    (501, _BOOLEAN, False),  # makes schemas
    (502, _BOOLEAN, False),  # makes tables
    (503, _NUMBER, 1),  # names: without regard to case
    (504, _TEXT, '"'),  # quotes around names
    (505, _NUMBER, 1),  # names in quotes: without regard to case
)
_SQL_INFO = pa.schema(
    [
        _required("info_name", pa.uint32()),
        _required("value", pa.dense_union([pa.field(*each) for each in _VALUES])),
    ]
)
_CATALOGS = pa.schema([_required("catalog_name", pa.string())])
_DB_SCHEMAS = pa.schema([_OPTIONAL[0], _required("db_schema_name", pa.string())])
_TABLE_TYPES = pa.schema([_required("table_type", pa.string())])
_TABLES = pa.schema(
    [*_OPTIONAL, _required("table_name", pa.string()), _required("table_type", pa.string())]
)
_TABLES_WITH_COLUMNS = _TABLES.append(_required("table_schema", pa.binary()))
_PRIMARY_KEYS = pa.schema(
    [
        *_OPTIONAL,
        _required("table_name", pa.string()),
        _required("column_name", pa.string()),
        pa.field("key_name", pa.string()),
        _required("key_sequence", pa.int32()),
    ]
)
_FOREIGN_KEYS = pa.schema(
    [
        *_key("pk"),
        *_key("fk"),
        _required("key_sequence", pa.int32()),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        _required("update_rule", pa.uint8()),
        _required("delete_rule", pa.uint8()),
    ]
)


def columns_of(listing: msg.Listing) -> pa.Schema:
    """Return the columns of a listing."""
    match listing:
        case msg.SqlInfo():
            return _SQL_INFO
        case msg.Catalogs():
            return _CATALOGS
        case msg.DbSchemas():
            return _DB_SCHEMAS
        case msg.Tables(has_columns=has_columns):
            return _TABLES_WITH_COLUMNS if has_columns else _TABLES
        case msg.TableTypes():
            return _TABLE_TYPES
        case msg.PrimaryKeys():
            return _PRIMARY_KEYS
        case msg.ForeignKeys():
            return _FOREIGN_KEYS
    assert_never(listing)


def listing_rows(listing: msg.Listing, served: Served, caller: Caller) -> pa.Table:
    """Return the rows of a listing."""
    columns, rows = columns_of(listing), list[Sequence[Any]]()
    match listing:
        case msg.SqlInfo(wanted=wanted):
            return _sql_info(wanted)
        case msg.Catalogs():
            rows = [(FOLDER,)]
        case msg.DbSchemas(catalog=catalog, name=name):
            rows = [(FOLDER, FOLDER)] if _fits_folders(catalog, name) else []
        case msg.Tables():
            rows = _tables(listing, served, caller)
        case msg.TableTypes():
            rows = [(TYPE,)]
        case msg.PrimaryKeys() | msg.ForeignKeys():
            pass
    by_column = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [pa.array(each, of.type) for each, of in zip(by_column, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=columns)


def _sql_info(wanted: Sequence[int]) -> pa.Table:
    known = [each for each in _INFO if not wanted or each[0] in wanted]
    offsets = [sum(e[1] == each[1] for e in known[:at]) for at, each in enumerate(known)]
    children = [
        pa.array([each[2] for each in known if each[1] == number], of)
        for number, (_, of) in enumerate(_VALUES)
    ]
    union = pa.UnionArray.from_dense(
        pa.array([each[1] for each in known], pa.int8()),
        pa.array(offsets, pa.int32()),
        children,
        [name for name, _ in _VALUES],
    )
    numbers = pa.array([each[0] for each in known], pa.uint32())
    return pa.Table.from_arrays([numbers, union], schema=_SQL_INFO)


def _tables(listing: msg.Tables, served: Served, caller: Caller) -> list[Sequence[Any]]:
    is_kind = not listing.types or TYPE in listing.types
    if not is_kind or not _fits_folders(listing.catalog, listing.schema):
        return []
    found = [
        (alias, id)
        for alias, id in served.workspace.names().items()
        if fits(listing.name, str(alias)) and served.shows(caller, alias, id)
    ]
    rows: list[Sequence[Any]] = []
    for alias, id in sorted(found):
        row = (FOLDER, FOLDER, str(alias), TYPE)
        if not listing.has_columns:
            rows.append(row)
        elif (columns := _columns(served.workspace.dataset(id))) is not None:
            rows.append((*row, columns))
    return rows


def _columns(dataset: Dataset) -> bytes | None:
    """Return the columns of a dataset, possibly none; None if it is damaged."""
    try:
        state = dataset.state()
        schema = None if state is None else schema_in_force(state)
        return schema_bytes(pa.schema([]) if schema is None else to_arrow(schema))
    except OdfBuildError as error:
        check_outage(error)
        return None
    except OSError:
        return None


def _fits_folders(catalog: str | None, schema: str | None) -> bool:
    """Return whether the arguments match the one catalog and the one schema."""
    return catalog in (None, FOLDER) and fits(schema, FOLDER)


def fits(pattern: str | None, text: str) -> bool:
    """Return whether a text matches a pattern: `%` is anything, `_` one character; None fits all.

    The time is at most proportional to the product of the lengths: after a `%`, the first match of
    the next characters is as good as any other.
    """
    if pattern is None:
        return True
    at = place = 0
    star, resumed = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "%":
            star, resumed = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("_", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resumed += 1
            at, place = resumed, star + 1
        else:
            return False
    return set(pattern[place:]) <= {"%"}
