"""Selection methods: the properties of a dataset that selectors test.  Pure."""

from collections.abc import Callable, Mapping
from fnmatch import translate
from re import IGNORECASE, Pattern
from re import compile as pattern
from typing import TypeAlias

from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.select.tree import By, Method, StateFlag
from odfbuild.planner.select.url_schemes import SourceKind
from odfbuild.texts.suggest import Suggestions
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectable:
    """All that a dataset can be selected by; `file` is relative to the project."""

    alias: DatasetAlias
    kind: DatasetKind
    file: str = ""
    tags: tuple[str, ...] = ()
    owner: str | None = None
    package: str | None = None
    sources: frozenset[SourceKind] = frozenset()
    state: frozenset[StateFlag] = frozenset()
    change: ChangeClass | None = None


_Test: TypeAlias = Callable[[Selectable], bool]


def _by_tag(value: str) -> _Test:
    wanted = like(value)
    return lambda each: any(map(wanted.match, each.tags))


def _by_owner(value: str) -> _Test:
    wanted = like(value)
    return lambda each: each.owner is not None and wanted.match(each.owner) is not None


def _by_package(value: str) -> _Test:
    wanted = like(value)
    return lambda each: each.package is not None and wanted.match(each.package) is not None


def _by_path(value: str) -> _Test:
    wanted = like(value.removeprefix("./").rstrip("/"))
    return lambda each: any(map(wanted.match, _folders(each.file)))


def _by_file(value: str) -> _Test:
    wanted = like(value.removeprefix("./"))

    def test(each: Selectable) -> bool:
        name = each.file.rpartition("/")[2]
        return any(map(wanted.match, (each.file, name, name.partition(".")[0])))

    return test


TESTS: Mapping[Method, Callable[[str], _Test]] = {
    Method.TAG: _by_tag,
    Method.OWNER: _by_owner,
    Method.PACKAGE: _by_package,
    Method.PATH: _by_path,
    Method.FILE: _by_file,
    Method.KIND: lambda value: lambda each: each.kind.value.lower() == value,
    Method.STATE: lambda value: lambda each: StateFlag(value) in each.state,
    Method.CHANGE: lambda value: lambda each: each.change is ChangeClass(value),
    Method.SOURCE: lambda value: lambda each: SourceKind(value) in each.sources,
}


def _folders(file: str) -> list[str]:
    """Return a file and all folders that it is in, the project itself (`.`) included."""
    if not file:
        return []
    parts = file.split("/")
    return [".", *("/".join(parts[: n + 1]) for n in range(len(parts)))]


def like(text: str, *, ignore_case: bool = False) -> Pattern[str]:
    """Return the pattern of a glob: `*` takes any characters, dots and slashes too."""
    return pattern(translate(text), IGNORECASE if ignore_case else 0)


def value_advice(atom: By, datasets: Mapping[DatasetAlias, Selectable]) -> str:
    """Return the value that a mistyped one may have meant."""
    values: set[str] = set()
    for each in datasets.values():
        match atom.method:
            case Method.TAG:
                values.update(each.tags)
            case Method.OWNER | Method.PACKAGE:
                value = each.owner if atom.method is Method.OWNER else each.package
                values |= set() if value is None else {value}
            case Method.PATH:
                values.update(_folders(each.file)[1:])
            case Method.FILE:
                values.update((each.file, each.file.rpartition("/")[2]))
    guess = Suggestions(sorted(values)).nearest(atom.value)
    return "" if guess is None else f"did you mean '{atom.method.value}:{guess}'?"
