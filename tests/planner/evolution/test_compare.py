"""Differences of schemas, to any depth."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import inner, optional, spelled_out
from odfbuild.planner.evolution.columns.compare import (
    compare_schemas,
    is_widening,
    type_text,
)
from odfbuild.planner.plan.changes import ColumnChange


def compare(before: str, after: str) -> list[tuple[str, str]]:
    """Return the kinds and paths of changes between two schemas in DDL."""
    found = compare_schemas(parse_ddl(before), parse_ddl(after))
    return [(each.kind, each.path) for each in found]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("a INT, b INT", "a INT", [("removed", "b")]),
        ("a INT", "a INT, b INT", [("added", "b")]),
        ("a INT", "a STRING", [("retyped", "a")]),
        ("a INT", "a BIGINT", [("widened", "a")]),
        ("a INT", "a INT NOT NULL", [("required", "a")]),
        ("a INT NOT NULL", "a INT", [("optional", "a")]),
        ("a INT, b INT", "b INT, a INT", [("reordered", "")]),
        ("a INT, b INT", "a INT, x INT, b INT", [("added", "x")]),
        ("amount INT", "amounts INT", [("renamed", "amount")]),
        ("amount INT, b INT", "b INT, amounts INT", [("renamed", "amount")]),
        ("amount INT", "zone INT", [("removed", "amount"), ("added", "zone")]),
        ("amount INT", "amounts BIGINT", [("removed", "amount"), ("added", "amounts")]),
        ("a INT", "a BIGINT NOT NULL", [("required", "a"), ("widened", "a")]),
        ("s STRUCT<x INT, y INT>", "s STRUCT<x INT>", [("removed", "s.y")]),
        ("s STRUCT<x INT>", "s STRUCT<x INT, y INT>", [("added", "s.y")]),
        ("s STRUCT<x INT>", "s STRUCT<x INT NOT NULL>", [("required", "s.x")]),
        ("s STRUCT<x INT, y INT>", "s STRUCT<y INT, x INT>", [("reordered", "s")]),
        ("s STRUCT<name INT>", "s STRUCT<names INT>", [("renamed", "s.name")]),
        ("t ARRAY<STRUCT<n STRING>>", "t ARRAY<STRUCT<n INT>>", [("retyped", "t[].n")]),
        ("t ARRAY<INT>", "t ARRAY<INT NOT NULL>", [("required", "t[]")]),
        ("t ARRAY<INT>", "t STRUCT<x INT>", [("retyped", "t")]),
        (
            "a STRUCT<b ARRAY<STRUCT<c STRUCT<d INT, e INT>>>>",
            "a STRUCT<b ARRAY<STRUCT<c STRUCT<d BIGINT>>>>",
            [("widened", "a.b[].c.d"), ("removed", "a.b[].c.e")],
        ),
    ],
)
def test_a_change_is_named_with_its_path(
    before: str, after: str, changes: list[tuple[str, str]]
) -> None:
    assert compare(before, after) == changes


def test_a_struct_in_a_list_in_a_map_is_looked_into() -> None:
    def schema(*members: str) -> DataSchema:
        item = parse_ddl(", ".join(members)).fields
        values = DataTypeOption(DataTypeList(DataTypeStruct(item)))
        return DataSchema((DataField("m", DataTypeMap(DataTypeString(), values)),))

    found = compare_schemas(schema("a INT", "b INT"), schema("a BIGINT"))
    assert [(each.kind, each.path) for each in found] == [
        ("widened", "m.value[].a"),
        ("removed", "m.value[].b"),
    ]
    assert [each.is_nested for each in found] == [True, True]
    assert [each.column for each in found] == ["m", "m"]


def test_changes_tell_the_types_before_and_after() -> None:
    (change,) = compare_schemas(parse_ddl("fee DECIMAL(18,2)"), parse_ddl("fee STRING"))
    assert (change.before, change.after) == ("DECIMAL(18,2)", "STRING")
    (change,) = compare_schemas(parse_ddl("fees INT"), parse_ddl("fee INT"))
    assert (change.path, change.before, change.after) == ("fees", "fees", "fee")
    (change,) = compare_schemas(parse_ddl("a INT, b INT, c INT"), parse_ddl("c INT, a INT, x INT"))[
        -1:
    ]
    assert (change.before, change.after) == ("a, c", "c, a")


def test_two_candidates_are_no_new_name() -> None:
    assert compare("amount INT", "amount1 INT, amount2 INT") == [
        ("removed", "amount"),
        ("added", "amount1"),
        ("added", "amount2"),
    ]


def test_what_columns_are_made_of_decides_on_new_names_where_it_is_known() -> None:
    before, after = parse_ddl("a INT, b INT"), parse_ddl("x INT, y INT")
    made_of = {"a": frozenset({1}), "b": frozenset({2}), "x": frozenset({2}), "y": frozenset({3})}
    found = compare_schemas(before, after, sources_before=made_of, sources_after=made_of)
    assert [(each.kind, each.path) for each in found] == [
        ("removed", "a"),
        ("renamed", "b"),
        ("added", "y"),
    ]
    nothing: dict[str, frozenset[object]] = {}
    found = compare_schemas(
        parse_ddl("amount INT"),
        parse_ddl("amounts INT"),
        sources_before=nothing,
        sources_after=nothing,
    )
    assert [each.kind for each in found] == ["removed", "added"]


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (DataTypeOption(DataTypeInt32()), "INT"),
        (DataTypeInt32(), "INT NOT NULL"),
        (DataTypeOption(DataTypeNull()), "?"),
        (DataTypeTime(), "Time(Millisecond) NOT NULL"),
        (DataTypeOption(DataTypeTime()), "Time(Millisecond)"),
        (DataTypeMap(DataTypeString(), DataTypeOption(DataTypeInt64())), None),
        (DataTypeOption(DataTypeMap(DataTypeString(), DataTypeOption(DataTypeBool()))), None),
    ],
)
def test_types_are_written_as_people_write_them(of: DataType, text: str | None) -> None:
    expected = (
        text
        or {
            True: "MAP<STRING NOT NULL, BOOLEAN>",
            False: "MAP<STRING NOT NULL, BIGINT> NOT NULL",
        }[isinstance(of, DataTypeOption)]
    )
    assert type_text(of) == expected


SECOND, MILLI, MICRO, NANO = (
    TimeUnit.SECOND,
    TimeUnit.MILLISECOND,
    TimeUnit.MICROSECOND,
    TimeUnit.NANOSECOND,
)


@pytest.mark.parametrize(
    ("old", "new", "widens"),
    [
        (DataTypeInt8(), DataTypeInt16(), True),
        (DataTypeInt32(), DataTypeInt64(), True),
        (DataTypeInt64(), DataTypeInt32(), False),
        (DataTypeUInt8(), DataTypeInt16(), True),
        (DataTypeUInt32(), DataTypeUInt64(), True),
        (DataTypeUInt64(), DataTypeInt64(), False),
        (DataTypeInt32(), DataTypeUInt64(), False),
        (DataTypeInt8(), DataTypeFloat16(), True),
        (DataTypeInt16(), DataTypeFloat16(), False),
        (DataTypeInt16(), DataTypeFloat32(), True),
        (DataTypeInt32(), DataTypeFloat32(), False),
        (DataTypeInt32(), DataTypeFloat64(), True),
        (DataTypeInt64(), DataTypeFloat64(), False),
        (DataTypeFloat16(), DataTypeFloat64(), True),
        (DataTypeFloat64(), DataTypeFloat32(), False),
        (DataTypeInt32(), DataTypeDecimal(10, 0), True),
        (DataTypeInt32(), DataTypeDecimal(10, 1), False),
        (DataTypeInt64(), DataTypeDecimal(19, 0), True),
        (DataTypeInt64(), DataTypeDecimal(18, 0), False),
        (DataTypeUInt64(), DataTypeDecimal(20, 0), True),
        (DataTypeUInt64(), DataTypeDecimal(19, 0), False),
        (DataTypeDecimal(18, 2), DataTypeDecimal(20, 4), True),
        (DataTypeDecimal(18, 2), DataTypeDecimal(18, 4), False),
        (DataTypeDecimal(18, 2), DataTypeDecimal(20, 1), False),
        (DataTypeDecimal(9, 0), DataTypeInt64(), False),
        (DataTypeTimestamp(SECOND), DataTypeTimestamp(MICRO), True),
        (DataTypeTimestamp(MILLI), DataTypeTimestamp(NANO), False),
        (DataTypeTimestamp(SECOND, "UTC"), DataTypeTimestamp(MILLI, "CET"), False),
        (DataTypeTime(SECOND), DataTypeTime(MILLI), True),
        (DataTypeDuration(MILLI), DataTypeDuration(SECOND), False),
        (DataTypeDate(), DataTypeTimestamp(), False),
        (DataTypeBinary(8), DataTypeBinary(), True),
        (DataTypeBinary(), DataTypeBinary(8), False),
        (DataTypeList(DataTypeBool(), 3), DataTypeList(DataTypeBool()), True),
        (DataTypeList(DataTypeBool(), 3), DataTypeList(DataTypeString()), False),
        (DataTypeInt32(), DataTypeString(), False),
        (DataTypeString(), DataTypeInt32(), False),
        (DataTypeBool(), DataTypeInt32(), False),
    ],
)
def test_the_widening_table(old: DataType, new: DataType, widens: bool) -> None:
    assert is_widening(old, new) is widens


# Laws

_SIMPLE: Sequence[DataType] = (
    DataTypeBool(),
    DataTypeInt32(),
    DataTypeInt64(),
    DataTypeFloat64(),
    DataTypeString(),
    DataTypeDate(),
    DataTypeDecimal(10, 2),
    DataTypeDecimal(12, 2),
)
_NAMES = ("a", "amount", "amounts", "b", "fee", "note", "zone")


def _nested(inside: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    member = inside | inside.map(optional)
    return (
        st.builds(DataTypeList, member)
        | st.builds(DataTypeMap, st.just(DataTypeString()), member)
        | fields_of(member).map(DataTypeStruct)
    )


def fields_of(of: st.SearchStrategy[DataType]) -> st.SearchStrategy[tuple[DataField, ...]]:
    return st.lists(st.sampled_from(_NAMES), unique=True, min_size=1, max_size=4).flatmap(
        lambda names: st.tuples(*(st.builds(DataField, st.just(name), of) for name in names))
    )


_types = st.recursive(st.sampled_from(_SIMPLE), _nested, max_leaves=5)
_columns = _types | _types.map(optional)
schemas = fields_of(_columns).map(DataSchema)


@given(schemas)
def test_a_schema_does_not_differ_from_itself(schema: DataSchema) -> None:
    assert compare_schemas(schema, schema) == ()


@given(schemas, schemas)
def test_applying_the_changes_to_before_gives_after(before: DataSchema, after: DataSchema) -> None:
    changes = compare_schemas(before, after)
    made = _apply(before, changes, after)
    assert _unordered(made) == _unordered(after)
    ordered = not any(each.kind == "reordered" and each.path == "" for each in changes)
    kept = {each.name for each in made.fields} - {
        each.path if each.kind == "added" else each.after
        for each in changes
        if each.kind in ("added", "renamed") and not each.is_nested
    }
    assert ordered == (
        [each.name for each in made.fields if each.name in kept]
        == [each.name for each in after.fields if each.name in kept]
    )


@given(schemas, schemas)
def test_there_is_no_change_only_between_equal_schemas(
    before: DataSchema, after: DataSchema
) -> None:
    assert (compare_schemas(before, after) == ()) == (before == after)


@given(schemas, schemas)
def test_no_path_is_told_twice_in_the_same_way(before: DataSchema, after: DataSchema) -> None:
    told = [(each.kind, each.path) for each in compare_schemas(before, after)]
    assert len(told) == len(set(told))


def _apply(before: DataSchema, changes: Sequence[ColumnChange], after: DataSchema) -> DataSchema:
    """Do what the changes say, one after the other; types come from `after`, by their paths."""
    table: DataType = DataTypeStruct(before.fields)
    target = DataTypeStruct(after.fields)
    renamed: dict[str, str] = {}
    for change in changes:
        path = _parts(change.path)
        match change.kind:
            case "removed":
                table = _in_struct(table, path[:-1], _without(path[-1]))
            case "renamed":
                table = _in_struct(table, path[:-1], _renaming(path[-1], str(change.after)))
                renamed[change.path] = str(change.after)
            case "added":
                new = DataField(path[-1], _at(target, path))
                assert change.after == type_text(new.type)
                table = _in_struct(table, path[:-1], _with(new))
            case "required":
                table = _in_type(table, path, inner)
            case "optional":
                table = _in_type(table, path, DataTypeOption)
            case "retyped" | "widened":
                table = _in_type(table, path, _becoming(inner(_at(target, path))))
    assert isinstance(table, DataTypeStruct)
    return DataSchema(table.fields)


_Parts = tuple[str, ...]


def _parts(path: str) -> _Parts:
    return tuple(path.replace("[]", ".[]").split("."))


def _same(old: DataType, value: DataType) -> DataType:
    return DataTypeOption(value) if isinstance(old, DataTypeOption) else value


def _at(of: DataType, path: _Parts) -> DataType:
    for part in path:
        match inner(of):
            case DataTypeStruct(fields=fields):
                of = next(each.type for each in fields if each.name == part)
            case DataTypeList(item_type=item):
                of = item
            case DataTypeMap(key_type=key, value_type=value):
                of = key if part == "key" else value
    return of


def _in_type(of: DataType, path: _Parts, change: Callable[[DataType], DataType]) -> DataType:
    if not path:
        return change(of)
    value = inner(of)
    match value:
        case DataTypeStruct(fields=fields):
            made: DataType = DataTypeStruct(
                tuple(
                    replace(each, type=_in_type(each.type, path[1:], change))
                    if each.name == path[0]
                    else each
                    for each in fields
                )
            )
        case DataTypeList(item_type=item):
            made = replace(value, item_type=_in_type(item, path[1:], change))
        case DataTypeMap(key_type=key) if path[0] == "key":
            made = replace(value, key_type=_in_type(key, path[1:], change))
        case DataTypeMap(value_type=held):
            made = replace(value, value_type=_in_type(held, path[1:], change))
        case _:
            raise AssertionError(path)
    return _same(of, made)


def _becoming(value: DataType) -> Callable[[DataType], DataType]:
    return lambda old: _same(old, value)


_Fields = tuple[DataField, ...]


def _in_struct(of: DataType, path: _Parts, change: Callable[[_Fields], _Fields]) -> DataType:
    def inside(old: DataType) -> DataType:
        value = inner(old)
        assert isinstance(value, DataTypeStruct)
        return _same(old, DataTypeStruct(change(value.fields)))

    return _in_type(of, path, inside)


def _without(name: str) -> Callable[[_Fields], _Fields]:
    return lambda fields: tuple(each for each in fields if each.name != name)


def _renaming(old: str, new: str) -> Callable[[_Fields], _Fields]:
    return lambda fields: tuple(
        replace(each, name=new) if each.name == old else each for each in fields
    )


def _with(field: DataField) -> Callable[[_Fields], _Fields]:
    return lambda fields: (*fields, field)


def _unordered(schema: DataSchema) -> object:
    return _plain(DataTypeStruct(schema.fields))


def _plain(of: DataType) -> object:
    match of:
        case DataTypeOption(inner=value):
            return ("optional", _plain(value))
        case DataTypeStruct(fields=fields):
            return frozenset((each.name, _plain(each.type)) for each in fields)
        case DataTypeList(item_type=item):
            return ("list", _plain(item))
        case DataTypeMap(key_type=key, value_type=value):
            return ("map", _plain(key), _plain(value))
        case _:
            return spelled_out(of)
