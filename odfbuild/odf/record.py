"""Record: the base of generated value classes, which act as frozen dataclasses with slots.

The dataclass decorator compiles half a dozen methods for every class, half a millisecond each; a
hundred classes would cost the start of every command 50 ms.  So the generated text spells out slots
and `__init__`, the rest is inherited from here, and the decorator only registers the fields, for
`dataclasses.replace`, `fields` and `match`.
"""

from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError, dataclass
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """An immutable value: equal to another of its class with equal fields, hashable, printable."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _values: ClassVar["attrgetter[Any]"]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)
        names: tuple[str, ...] = cls.__dict__["__slots__"]
        cls._values = attrgetter(*names) if names else attrgetter("__class__")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(self._values(self) == self._values(other))

    def __hash__(self) -> int:
        return hash((self.__class__, self._values(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__name__}({shown})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Callable[..., "Record"], tuple[object, ...]]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return _restore, (self.__class__, values)


def _restore(cls: type[Record], values: dict[str, Any]) -> Record:
    return cls(**values)
