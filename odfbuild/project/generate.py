"""Expand generators: which items each has, and what a template can read of each.

An item is known by its key, never by its place in a list: adding one changes no other.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.project.generators import Generator
from odfbuild.project.places import Source
from odfbuild.project.rows import read_rows
from odfbuild.project.template_names import Names
from odfbuild.project.variables import printed
from odfbuild.project.yaml import Value

__all__ = ["MAX_ITEMS", "Item", "NameText", "expand", "name_of"]

MAX_ITEMS = 100_000


@dataclass(frozen=True, slots=True)
class Item:
    """One dataset to make: what it is called in messages, and what its template can read."""

    instance: str
    names: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NameText(Source):
    """The name that a generator gives, as a template whose places are in the project file."""

    within: Callable[[int, int], SourceSpan] | None = None

    def span(self, start: int, end: int) -> SourceSpan:
        assert self.within is not None  # noqa: S101 - given by name_of
        return self.within(start, end - start)


def name_of(generator: Generator) -> NameText | None:
    """Return the name that a generator gives to its datasets, to be rendered for each item."""
    text, path = generator.dataset_name, ("generate", generator.name, "name")
    if text is None:
        return None
    return NameText(
        f"name of {generator.name}",
        text,
        within=lambda start, length: generator.places.inside(path, text, start, length),
    )


def expand(generator: Generator, read: Callable[[str], Source]) -> tuple[Item, ...]:
    """Return the items of a generator; `read` gives the file that its rows are in.

    Raises ProjectErrors with what is wrong with them.
    """
    if generator.for_each is not None:
        values = generator.for_each
        _check_number(generator, "for_each", len(values))
        return tuple(_item(generator.name, key, value) for key, value in values.items())
    if generator.matrix is not None:
        _check_number(generator, "matrix", prod(map(len, generator.matrix.values())))
        return tuple(_combinations(generator.matrix, generator.exclude))
    assert generator.source is not None  # noqa: S101 - one of the three is given
    assert generator.key is not None  # noqa: S101 - it goes with rows
    rows = read_rows(read(generator.source), generator.key)
    _check_number(generator, "from", len(rows))
    return tuple(_row(generator.name, row.key, row.values) for row in rows)


def _item(name: str, key: str, value: Value) -> Item:
    return Item(f"{name}={key}", {"each": Names("each", {"key": key, "value": value})})


def _row(name: str, key: str, values: Mapping[str, Value]) -> Item:
    row = Names("row", values)
    return Item(f"{name}={key}", {"each": Names("each", {"key": key, "value": row}), "row": row})


def _combinations(
    matrix: Mapping[str, tuple[Value, ...]], exclude: tuple[Mapping[str, Value], ...]
) -> Iterator[Item]:
    left_out = [{axis: printed(value) for axis, value in each.items()} for each in exclude]
    for values in product(*matrix.values()):
        axes = dict(zip(matrix, values, strict=True))
        texts = {axis: printed(value) for axis, value in axes.items()}
        if any(each.items() <= texts.items() for each in left_out):
            continue
        key = ", ".join(f"{axis}={text}" for axis, text in texts.items())
        yield Item(key, {**axes, "each": Names("each", {"key": key, "value": Names("each", axes)})})


def _check_number(generator: Generator, key: str, number: int) -> None:
    if number > MAX_ITEMS:
        found = Diagnostic(
            code="generate-items",
            what=f"the generator '{generator.name}' has {number:,} items",
            why=f"the most is {MAX_ITEMS:,}: more is likely a slip",
            fix="make fewer, or write several generators",
            span=generator.at(key),
        )
        raise ProjectErrors([found])
