"""Dataclasses whose methods cost the start of a command next to nothing.

The decorator of the standard library compiles half a dozen methods for every class, half a
millisecond each and a third of the time that a plan takes.  Of these classes only `__init__` is
compiled, once a few values were made: of most classes there are no more.  The rest are closures
over the names of the fields.
"""

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from operator import attrgetter, ge, gt, le, lt
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["dataclass"]

_Values: TypeAlias = Callable[[Any], Any]
_GIVEN_LATER = object()  # the default of a parameter whose field has a factory
_FEW = 4  # values, which are sooner made than a method is compiled


def _dataclass(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    repr: bool = True,
    order: bool = False,
) -> Any:
    """Make a dataclass, as the decorator of the standard library does."""

    def made(cls: type[Any]) -> type[Any]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the signature is worked out for it
        own = dict(cls.__dict__)
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        if slots:
            cls = _with_slots(cls)
        fields = dataclasses.fields(cls)
        methods: dict[str, Any] = {"__init__": _LateInit(cls, frozen=frozen)}
        if repr:
            methods["__repr__"] = _repr([each.name for each in fields if each.repr])
        if eq:
            values = _values_of([each.name for each in fields if each.compare])
            methods |= _equality(values, hashed=frozen)
            methods |= _order(values) if order else {}
        if frozen:
            methods |= _frozen(cls, frozenset(each.name for each in fields))
        if frozen and slots:
            methods |= _state([each.name for each in fields])
        if own.get("__hash__") is None and "__eq__" in own:
            own.pop("__hash__", None)  # the language's, of a class that says what equals
        for name, method in methods.items():
            if name not in own:
                setattr(cls, name, method)
        return cls

    return made if cls is None else made(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _with_slots(cls: type[Any]) -> type[Any]:
    """Make the class again, with slots for its own fields."""
    names = [each.name for each in dataclasses.fields(cls)]
    above = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in {"__dict__", "__weakref__", *names}
    }
    namespace["__slots__"] = tuple(name for name in names if name not in above)
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


class _LateInit:
    """Stand for `__init__` while the first few values are made, and be replaced by it then."""

    __slots__ = ("_cls", "_frozen", "_left")

    def __init__(self, cls: type[Any], *, frozen: bool) -> None:
        self._cls, self._frozen, self._left = cls, frozen, _FEW

    def __get__(self, value: object, owner: type[Any]) -> Callable[..., None]:
        if value is None:
            return self._compiled()
        if not self._left:
            return MethodType(self._compiled(), value)
        self._left -= 1
        return partial(self._fill, value)

    def _compiled(self) -> Callable[..., None]:
        init = _compiled_init(self._cls, frozen=self._frozen)
        type.__setattr__(self._cls, "__init__", init)
        return init

    def _fill(self, value: Any, /, *places: object, **names: object) -> None:
        """Do what the method does; that itself says what is wrong with arguments."""
        fields = dataclasses.fields(self._cls)
        order = [each.name for each in fields if each.init and not each.kw_only]
        given = {**dict(zip(order, places, strict=False)), **names}
        known = {each.name for each in fields if each.init}
        needed = {e.name for e in fields if e.default is MISSING and e.default_factory is MISSING}
        whole = len(given) == len(places) + len(names)
        if not (whole and given.keys() <= known and needed & known <= given.keys()):
            return self._compiled()(value, *places, **names)
        put = object.__setattr__ if self._frozen else setattr
        for each in fields:
            if each.name in given:
                put(value, each.name, given[each.name])
            elif each.default_factory is not MISSING:
                put(value, each.name, each.default_factory())
            elif each.default is not MISSING:
                put(value, each.name, each.default)
        if hasattr(self._cls, "__post_init__"):
            value.__post_init__()
        return None


def _compiled_init(cls: type[Any], *, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_set": object.__setattr__, "_given_later": _GIVEN_LATER}
    places, keywords, body = ["self"], list[str](), list[str]()
    for each in dataclasses.fields(cls):
        parameter = value = name = each.name
        if each.default_factory is not MISSING:
            names[f"_make_{name}"] = each.default_factory
            parameter = f"{name}=_given_later"
            value = f"_make_{name}()"
            if each.init:
                value = f"{value} if {name} is _given_later else {name}"
        elif each.default is not MISSING:
            names[f"_default_{name}"] = each.default
            parameter = f"{name}=_default_{name}"
            value = name if each.init else f"_default_{name}"
        elif not each.init:
            continue  # __post_init__ gives it
        if each.init:
            (keywords if each.kw_only else places).append(parameter)
        body.append(f" _set(self, '{name}', {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join([*places, *(["*", *keywords] if keywords else [])])
    lines = [f"def __init__({parameters}):", *body, " return None"]
    text = "\n ".join([f"def made({', '.join(names)}):", *lines, "return __init__"])
    found: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), found)  # noqa: S102
    init: FunctionType = found["made"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    types = {each.name: each.type for each in dataclasses.fields(cls) if each.init}
    init.__annotations__ = {**types, "return": None}
    return init


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _values_of(names: list[str]) -> _Values:
    return attrgetter(*names) if names else lambda _: ()


def _equality(values: _Values, *, hashed: bool) -> dict[str, Any]:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if hashed else None}


def _order(values: _Values) -> dict[str, Any]:
    def method(compare: Callable[[Any, Any], Any]) -> Callable[[Any, object], Any]:
        def compared(self: Any, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compare(values(self), values(other))

        return compared

    return {f"__{each.__name__}__": method(each) for each in (lt, le, gt, ge)}


def _frozen(cls: type[Any], names: frozenset[str]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(names: list[str]) -> dict[str, Any]:
    """Return what pickles and copies values whose fields cannot be assigned."""

    def __getstate__(self: Any) -> list[object]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[object]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
