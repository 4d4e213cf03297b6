"""Objects of a saved plan, read strictly: what is missing or of another type is named by its path.

Keys that nobody asks for are not looked at, so a plan of a later minor version can be read.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from odfbuild.errors import OdfBuildError, PlanError

__all__ = ["DamagedPlanError", "NotAPlanError", "PlanObject", "PlanVersionError"]

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


class NotAPlanError(PlanError):
    """A file or document is not a saved plan."""

    code = "not-a-plan"


class PlanVersionError(PlanError):
    """A plan was saved by a version of the program whose plans this one cannot read."""

    code = "plan-version"


class DamagedPlanError(PlanError):
    """A saved plan lacks something, or is not as it was written; `path` says where."""

    code = "damaged-plan"

    def __init__(self, what: str, why: str, fix: str, *, path: str = "") -> None:
        super().__init__(what, why, fix)
        self.path = path

    @classmethod
    def at(cls, path: str, what: str) -> "DamagedPlanError":
        """Return the error about the value at a path."""
        return cls(
            what=f"the plan is damaged: {path}: {what}",
            why="a saved plan is carried out exactly as it was written, or not at all",
            fix="plan again: odfbuild plan --out FILE",
            path=path,
        )


class PlanObject:
    """A mapping of a saved plan, and where it stands."""

    __slots__ = ("_path", "_values")

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            raise DamagedPlanError.at(path, "expected an object")
        self._values: Mapping[str, Any] = value
        self._path = path

    def require(self, *keys: str) -> None:
        """Refuse an object that lacks keys, naming all of them."""
        missing = [key for key in keys if key not in self._values]
        if missing:
            raise DamagedPlanError.at(self._path or "the plan", f"it lacks {', '.join(missing)}")

    def path(self, key: str) -> str:
        """Return where the value of a key stands."""
        return f"{self._path}.{key}" if self._path else key

    def has(self, key: str) -> bool:
        """Tell whether a key is there; only for keys that a plan may leave out."""
        return key in self._values

    def raw(self, key: str) -> Any:
        """Return the value of a key as it is."""
        self.require(key)
        return self._values[key]

    def text(self, key: str) -> str:
        """Return the text of a key."""
        return self._typed(key, str, "a text")

    def maybe_text(self, key: str) -> str | None:
        """Return the text of a key, or None for null."""
        return self._unless_null(key, lambda: self.text(key))

    def number(self, key: str) -> int:
        """Return the whole number of a key."""
        found = self._typed(key, int, "a whole number")
        if isinstance(found, bool):
            raise DamagedPlanError.at(self.path(key), "expected a whole number")
        return found

    def flag(self, key: str) -> bool:
        """Return the truth value of a key."""
        return self._typed(key, bool, "true or false")

    def member(self, key: str, of: type[_E]) -> _E:
        """Return the value of a key as a member of an enumeration."""
        return self.parsed(key, of)

    def parsed(self, key: str, parse: Callable[[str], _T]) -> _T:
        """Return what a parser makes of the text of a key."""
        return self._made(self.path(key), parse, self.text(key))

    def maybe_parsed(self, key: str, parse: Callable[[str], _T]) -> _T | None:
        """Return what a parser makes of the text of a key, or None for null."""
        return self._unless_null(key, lambda: self.parsed(key, parse))

    def made(self, key: str, make: Callable[[Any], _T]) -> _T:
        """Return what a reader makes of the value of a key, whatever its type."""
        return self._made(self.path(key), make, self.raw(key))

    def child(self, key: str) -> "PlanObject":
        """Return the object of a key."""
        return PlanObject(self.raw(key), self.path(key))

    def maybe_child(self, key: str) -> "PlanObject | None":
        """Return the object of a key, or None for null."""
        return self._unless_null(key, lambda: self.child(key))

    def items(self, key: str) -> list[Any]:
        """Return the list of a key."""
        return self._typed(key, list, "a list")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts of a key."""
        return self.each_parsed(key, str)

    def each_parsed(self, key: str, parse: Callable[[str], _T]) -> tuple[_T, ...]:
        """Return what a parser makes of each text in the list of a key."""
        found: list[_T] = []
        for index, item in enumerate(self.items(key)):
            path = f"{self.path(key)}[{index}]"
            if not isinstance(item, str):
                raise DamagedPlanError.at(path, "expected a text")
            found.append(self._made(path, parse, item))
        return tuple(found)

    def each_made(self, key: str, make: Callable[[Any], _T]) -> tuple[_T, ...]:
        """Return what a reader makes of each value in the list of a key."""
        return tuple(
            self._made(f"{self.path(key)}[{index}]", make, item)
            for index, item in enumerate(self.items(key))
        )

    def children(self, key: str) -> Iterator["PlanObject"]:
        """Yield the objects in the list of a key."""
        for index, item in enumerate(self.items(key)):
            yield PlanObject(item, f"{self.path(key)}[{index}]")

    def _typed(self, key: str, of: type[_T], called: str) -> _T:
        found = self.raw(key)
        if not isinstance(found, of):
            raise DamagedPlanError.at(self.path(key), f"expected {called}")
        return found

    def _unless_null(self, key: str, read: Callable[[], _T]) -> _T | None:
        return None if self.raw(key) is None else read()

    @staticmethod
    def _made(path: str, make: Callable[[Any], _T], given: object) -> _T:
        try:
            return make(given)
        except OdfBuildError as error:
            raise DamagedPlanError.at(path, error.what) from error
        except ValueError as error:
            raise DamagedPlanError.at(path, str(error)) from error
