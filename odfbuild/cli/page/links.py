"""Which columns on a page lead to which, by numbers.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odfbuild.cli.page.graph import Box, Graph, Ref

__all__ = ["ROWS", "UNKNOWN", "VALUE", "WHOLE", "Link", "links"]

VALUE, ROWS, UNKNOWN = 0, 1, 2
WHOLE = -1


class Link(NamedTuple):
    """A column that another one is made of, each by dataset and column; WHOLE is all of them.

    `use` is VALUE; ROWS where it decides on the rows of the other; UNKNOWN where that it is used
    cannot be ruled out.
    """

    source: int
    source_column: int
    derived: int
    derived_column: int
    use: int


def links(graph: Graph) -> list[Link]:
    """Return the links between the columns that are on the page, each once."""
    numbers = {box.name.lower(): number for number, box in enumerate(graph.boxes)}
    columns = [_numbers(box) for box in graph.boxes]
    inputs: list[list[int]] = [[] for _ in graph.boxes]
    for edge in graph.edges:
        inputs[edge.derived].append(edge.source)
    found = dict.fromkeys(
        each
        for number, box in enumerate(graph.boxes)
        for each in _links_of(number, box, inputs[number], numbers, columns)
    )
    return list(found)


def _numbers(box: Box) -> dict[str, int]:
    made = () if box.made is None else box.made.columns or ()
    return {each.name.lower(): number for number, each in enumerate(made)}


def _links_of(
    number: int,
    box: Box,
    inputs: Sequence[int],
    numbers: Mapping[str, int],
    columns: Sequence[Mapping[str, int]],
) -> Iterator[Link]:
    if box.made is None:
        return
    for place, column in enumerate(box.made.columns or ()):
        for at, which in _located(column.sources, numbers, columns):
            yield Link(at, which, number, place, VALUE)
    for at, which in _located(box.made.rows or (), numbers, columns):
        yield Link(at, which, number, WHOLE, ROWS)
    if box.made.columns is None or box.made.rows is None:
        yield from (Link(each, WHOLE, number, WHOLE, UNKNOWN) for each in inputs)


def _located(
    refs: Sequence[Ref], numbers: Mapping[str, int], columns: Sequence[Mapping[str, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the refs that are on the page; a member of a column is that column."""
    for dataset, column in refs:
        at, name = numbers.get(dataset.lower()), column.lower()
        if at is not None:
            yield at, columns[at].get(name, columns[at].get(name.partition(".")[0], WHOLE))
