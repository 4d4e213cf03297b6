"""Generators: the entries of `generate`, by which one template makes many datasets.

They are read and checked here, and expanded elsewhere: rows of a file are not known yet.
"""

from collections.abc import Mapping
from dataclasses import field

from odfbuild.errors import SourceSpan
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.config.variables import is_word, printed
from odfbuild.project.yaml import Value
from odfbuild.project.yaml.places import KeyPath, PlaceFinder
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_KEYS = ("template", "for_each", "matrix", "from", "key", "exclude", "name")
_SOURCES = ("for_each", "matrix", "from")
_TEMPLATES = (".yaml.j2", ".yml.j2")
_TABLES = (".csv", ".yaml", ".yml")
_ONE = "a template needs one list of datasets to make"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorEntry:
    """One entry of `generate`: a template, what to make of it, and how the datasets are called.

    Exactly one of `for_each` (values by their keys), `matrix` (values by axis) and `source` (a CSV
    or YAML file with rows, called by their column `key`) is given.  `exclude` holds combinations of
    the matrix, by some or all of its axes.  `dataset_name` is text with {{ }} in it; None leaves
    the name to the template.
    """

    name: str
    template: str
    dataset_name: str | None = None
    for_each: Mapping[str, Value] | None = None
    matrix: Mapping[str, tuple[Value, ...]] | None = None
    source: str | None = None
    key: str | None = None
    exclude: tuple[Mapping[str, Value], ...] = ()
    span: SourceSpan
    places: PlaceFinder = field(compare=False, repr=False)

    def at(self, *path: str | int) -> SourceSpan:
        """Return where a part of the entry is written, such as `at("template")`."""
        return self.places.value(("generate", self.name, *path))


def read_generators(
    reading: SettingsReader, value: Value, variables: Mapping[str, object]
) -> tuple[GeneratorEntry, ...]:
    """Return the generators that are right; an axis may not be called as a variable is."""
    found = (
        _generator(reading.section(entry, path, _KEYS, ("template",)), variables)
        for name, entry in reading.any_mapping(value, ("generate",)).items()
        for path in [("generate", name)]
    )
    return tuple(each for each in found if each is not None)


def _generator(entry: Section, variables: Mapping[str, object]) -> GeneratorEntry | None:
    before = len(entry.reading.found)
    template = entry.path_inside("template", _TEMPLATES)
    dataset_name = entry.text("name")
    _check_sources(entry)
    for_each = _for_each(entry) if "for_each" in entry.entries else None
    matrix = _matrix(entry, variables) if "matrix" in entry.entries else None
    source = entry.path_inside("from", _TABLES)
    key = entry.text("key")
    exclude = _exclude(entry, matrix)
    if template is None or len(entry.reading.found) > before:
        return None
    return GeneratorEntry(
        name=str(entry.path[-1]),
        template=template,
        dataset_name=dataset_name,
        for_each=for_each,
        matrix=matrix,
        source=source,
        key=None if source is None else key,
        exclude=exclude,
        span=entry.span(),
        places=entry.reading.places,
    )


def _check_sources(entry: Section) -> None:
    given = [key for key in _SOURCES if key in entry.entries]
    if not given:
        what = f"{entry.reading.called(entry.path)} lists no datasets to make"
        fix = "add one of: for_each, matrix, from"
        entry.reading.refuse(entry.path, what, _ONE, fix, key=True)
    for extra in given[1:]:
        what = f"'{extra}' does not go with '{given[0]}'"
        entry.wrong(extra, what, _ONE, "keep one of the two", at_key=True)
    keyed = "from" in given or isinstance(entry.entries.get("for_each"), list)
    if keyed and "key" not in entry.entries:
        entry.reading.refuse(
            entry.at("from" if "from" in given else "for_each"),
            "there is no 'key'",
            "each row needs a value that identifies it, whatever its position",
            "add: key: NAME, the column that identifies rows",
        )
    if not keyed and "key" in entry.entries:
        entry.wrong(
            "key",
            "'key' goes with rows only",
            "items and combinations identify themselves",
            "remove it",
            at_key=True,
        )


def _for_each(entry: Section) -> dict[str, Value]:
    """Return items by key; those of a list are called by their column `key`."""
    value = entry.entries["for_each"]
    if isinstance(value, list):
        return _items_by_key(entry, value)
    items = entry.reading.any_mapping(value, entry.at("for_each"))
    if not items and isinstance(value, dict | None):
        _nothing(entry, "for_each")
    return items


def _items_by_key(entry: Section, rows: list[Value]) -> dict[str, Value]:
    key, items = entry.entries.get("key"), dict[str, Value]()
    if not rows:
        _nothing(entry, "for_each")
    for at, row in enumerate(rows if isinstance(key, str) else ()):
        path = (*entry.at("for_each"), at)
        cell = row.get(str(key)) if isinstance(row, dict) else None
        if not _is_scalar(cell):
            entry.reading.refuse(
                path,
                f"an item does not give its '{key}'",
                "it is identified by that value, whatever its position",
                f"write it as a mapping with: {key}: VALUE",
            )
        elif printed(cell) in items:
            _twice(entry, (*path, str(key)), printed(cell), "for_each")
        else:
            items[printed(cell)] = row
    return items


def _matrix(entry: Section, variables: Mapping[str, object]) -> dict[str, tuple[Value, ...]]:
    axes = entry.reading.any_mapping(entry.entries["matrix"], entry.at("matrix"))
    if not axes and isinstance(entry.entries["matrix"], dict | None):
        _nothing(entry, "matrix")
    for axis in axes:
        if not is_word(axis) or axis in variables:
            entry.reading.refuse(
                (*entry.at("matrix"), axis),
                f"'{axis}' is not a name for an axis",
                "it names a variable" if axis in variables else "templates use it as a name",
                "give it another name, of letters, digits and '_'",
                key=True,
            )
    return {axis: _axis(entry, axis, value) for axis, value in axes.items()}


def _axis(entry: Section, axis: str, value: Value) -> tuple[Value, ...]:
    path = (*entry.at("matrix"), axis)
    kept: dict[str, Value] = {}
    items = entry.reading.items(value, path)
    if not items and isinstance(value, list | None):
        entry.reading.refuse(path, f"the axis '{axis}' is empty", _EMPTY, "list its values")
    for at, each in enumerate(items):
        if not _is_scalar(each):
            entry.reading.refuse(
                (*path, at),
                f"a value of the axis '{axis}' is not a text, a number, true or false",
                "datasets are identified by their values",
                "write one value; use for_each for items with several",
            )
        elif printed(each) in kept:
            _twice(entry, (*path, at), printed(each), axis)
        else:
            kept[printed(each)] = each
    return tuple(kept.values())


def _exclude(
    entry: Section, matrix: Mapping[str, tuple[Value, ...]] | None
) -> tuple[Mapping[str, Value], ...]:
    if "exclude" not in entry.entries:
        return ()
    if matrix is None:
        why = "it removes combinations from a matrix"
        entry.wrong("exclude", "'exclude' goes with 'matrix' only", why, "remove it", at_key=True)
        return ()
    items = entry.reading.items(entry.entries["exclude"], entry.at("exclude"))
    return tuple(
        _combination(entry, (*entry.at("exclude"), at), each, matrix)
        for at, each in enumerate(items)
    )


def _combination(
    entry: Section, path: KeyPath, value: Value, matrix: Mapping[str, tuple[Value, ...]]
) -> Mapping[str, Value]:
    given = entry.reading.mapping(value, path, tuple(matrix))
    if value in ({}, None):
        what = "an entry of 'exclude' is empty"
        fix = "name at least one axis and its value"
        entry.reading.refuse(path, what, "it would remove all combinations", fix)
    for axis, each in given.items():
        known = [printed(value) for value in matrix[axis]]
        if known and printed(each) not in known:
            entry.reading.refuse(
                (*path, axis),
                f"'{printed(each)}' is not on the axis '{axis}'",
                "only existing values can be excluded",
                did_you_mean(printed(each), known),
            )
    return given


_EMPTY = "no dataset would be made"


def _nothing(entry: Section, key: str) -> None:
    entry.wrong(key, f"'{key}' is empty", _EMPTY, "add to it, or remove the generator")


def _twice(entry: Section, path: KeyPath, text: str, where: str) -> None:
    what = f"'{text}' occurs twice in '{where}'"
    entry.reading.refuse(path, what, "each makes one dataset", "remove one of the two")


def _is_scalar(value: Value) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(value.strip()))
