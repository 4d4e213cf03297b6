"""Union members of a newer version of the format: kept and shown, never understood or written.

A union says by number what it holds.  A number that we do not know is no reason to refuse the whole
chain: reading puts an Opaque in the place of the value.  Only the number is kept, as the texts and
vectors of a table lie anywhere in its buffer, to be found only by who knows its fields; the bytes
of the block, which are what chains are made of, are copied as they are.

The aliases of unions in `events` name what this version can make.  Whoever acts on a value that was
read asks `is_opaque` or `refuse_opaque` first.
"""

from collections.abc import Iterator
from typing import TypeGuard

from odfbuild.errors import ProtocolError
from odfbuild.odf.record import Record


class UnsupportedVariantError(ProtocolError):
    """A union or enum holds a variant of a newer version of the format."""

    code = "unsupported-variant"

    def __init__(self, type_name: str, tag: int) -> None:
        super().__init__(
            what=f"{type_name} has no variant number {tag}",
            why="the bytes were written by a newer version of the format, or are damaged",
            fix="update odfbuild, or fetch the object again",
        )
        self.type_name = type_name
        self.tag = tag


class Opaque(Record):
    """A value of a union that this version does not know, by its number in that union."""

    __slots__ = ("tag", "union")

    union: str
    tag: int

    def __init__(self, union: str, tag: int) -> None:
        put = object.__setattr__
        put(self, "union", union)
        put(self, "tag", tag)


def is_opaque(value: object) -> TypeGuard[Opaque]:
    """Say whether a value of a union is of a kind that this version does not know."""
    return value.__class__ is Opaque


def opaque_parts(value: object) -> Iterator[Opaque]:
    """Yield the unknown union members in a value, itself included."""
    if isinstance(value, Opaque):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from opaque_parts(each)
    elif isinstance(value, Record):
        for name in value.__slots__:
            yield from opaque_parts(getattr(value, name))


def refuse_opaque(value: object) -> None:
    """Raise UnsupportedVariantError if there is an unknown union member in a value."""
    for each in opaque_parts(value):
        raise UnsupportedVariantError(each.union, each.tag)
