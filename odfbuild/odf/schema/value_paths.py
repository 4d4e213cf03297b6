"""Paths to values: the column, then what leads into its structs, lists and maps.  Pure.

Steps are `.name` for a member, and `[]`, `<key>` and `<value>` for the parts of lists and maps.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)

ValuePath: TypeAlias = tuple[str, ...]

ITEM: Final = "[]"
KEY: Final = "<key>"
VALUE: Final = "<value>"


def member(name: str) -> str:
    """Return the step to a member of a struct."""
    return f".{name}"


def below(paths: Iterable[ValuePath], step: str) -> frozenset[ValuePath]:
    """Return what is left of the paths that begin with a step."""
    return frozenset(path[1:] for path in paths if path[:1] == (step,))


def leaves(fields: Iterable[DataField]) -> Iterator[tuple[ValuePath, DataType]]:
    """Yield the paths to values that have no parts, and the types of those that are not null."""
    for each in fields:
        yield from _leaves(each.type, (each.name,))


def _leaves(of: DataType, path: ValuePath) -> Iterator[tuple[ValuePath, DataType]]:
    match of:
        case DataTypeOption(inner=value):
            yield from _leaves(value, path)
        case DataTypeStruct(fields=fields):
            for each in fields:
                yield from _leaves(each.type, (*path, member(each.name)))
        case DataTypeList(item_type=item):
            yield from _leaves(item, (*path, ITEM))
        case DataTypeMap(key_type=key, value_type=value):
            yield from _leaves(key, (*path, KEY))
            yield from _leaves(value, (*path, VALUE))
        case _:
            yield path, of
