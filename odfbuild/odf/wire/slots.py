"""Terms of `layout`: the form of a value class in a FlatBuffers table and in a mapping."""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from odfbuild.odf.record import Record

_K = TypeVar("_K")
_V = TypeVar("_V")

Kind: TypeAlias = Literal[
    "bool", "u8", "u16", "u32", "u64", "i16", "i32", "i64", "enum",
    "timestamp", "multihash", "did", "alias", "ref", "text", "bytes", "json",
    "table", "union", "texts", "tables", "unions",
]  # fmt: skip


class Slot(NamedTuple):
    """One field; `of` is the class of a table or enum, the name of a union, else None.

    A union takes this slot for its tag and the next one for its value.  `own` is a second name in
    mappings, of a field that shares its `json` name with a newer one.
    """

    name: str
    json: str
    slot: int
    kind: Kind
    of: object = None
    optional: bool = False
    default: object = None
    own: str | None = None


class Table(NamedTuple):
    """The fields of a class in wire order.

    A `transparent` table is stood for by the value of its only field in mappings; of the fields
    named in `either` one must be there.
    """

    slots: tuple[Slot, ...]
    transparent: bool = False
    either: tuple[str, ...] = ()


class Union(NamedTuple):
    """The kinds of a union, their tag being the place from 1, and the classes in the same order."""

    kinds: tuple[str, ...]
    members: tuple[type[Record], ...]


class LazyMap(dict[_K, _V]):
    """What is made of a class or a name when it is first asked for, such as its decoder."""

    def __init__(self, make: Callable[[_K], _V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: _K) -> _V:
        made = self[key] = self._make(key)
        return made
