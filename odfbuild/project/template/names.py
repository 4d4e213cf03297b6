"""Names that templates read: variables, the environment, the item at hand; and their printing."""

from collections.abc import Callable, Iterator, Mapping

from odfbuild.project.config.variables import printed
from odfbuild.project.yaml import Value


class UnprintableError(Exception):
    """A value has no form in YAML, or one that would differ from run to run."""

    def __init__(self, value: object) -> None:
        super().__init__(type(value).__name__)
        self.value = value


class TemplateNames(Mapping[str, object]):
    """Values by name, under one name of their own, such as `vars`.

    In templates `row.items` is the value `items`, if there is one, and never a method that hides
    it; so nothing here has a name that a template could read.
    """

    __slots__ = ("_absent", "_label", "_values")

    def __init__(
        self, label: str, values: Mapping[str, object], absent: tuple[str, ...] = ()
    ) -> None:
        self._label = label
        self._values = values
        self._absent = absent

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class LazyNames(TemplateNames):
    """Names whose values are made when they are first asked for."""

    __slots__ = ("_made", "_make")

    def __init__(self, label: str, known: tuple[str, ...], make: Callable[[str], object]) -> None:
        super().__init__(label, dict.fromkeys(known))
        self._make = make
        self._made: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        if name not in self._values:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]


def label_of(names: TemplateNames) -> str:
    """Return what some names are called together, such as `vars`."""
    return names._label


def absent_of(names: TemplateNames) -> tuple[str, ...]:
    """Return the names that would be known if a value had been given for them."""
    return names._absent


def shown(value: object) -> str:
    """Return how a value is written into YAML: texts as they are, the rest in YAML's words.

    Raises UnprintableError of what is neither text, number, truth, null, list nor mapping.
    """
    return value if type(value) is str else printed(plain(value))


def plain(value: object) -> Value:
    """Return a value made of plain types only; UnprintableError if it is not one."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return str(value)
        case list() | tuple():
            return [plain(each) for each in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {str(key): plain(each) for key, each in value.items()}
        case _:
            raise UnprintableError(value)
