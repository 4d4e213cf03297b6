"""Members of a struct that is null are null, whatever an array has there."""

from random import Random
from typing import Any

import pyarrow as pa

from odfbuild.executors.engine.datafusion.members import with_null_members
from odfbuild.executors.engine.datafusion.session import columns, query_context, rows_of
from tests.support.effort import examples

LEAVES = ((pa.int64(), (0, 7)), (pa.string(), ("", "p")))


def drawn_array(draw: Random, size: int, depth: int = 3) -> pa.Array:
    """Return an array with structs, lists and members of any kind; below nulls are values."""
    form = draw.randrange(3) if depth else 2
    gone = pa.array([draw.random() < 0.4 for _ in range(size)], pa.bool_())
    if form == 0:
        members = [drawn_array(draw, size, depth - 1) for _ in range(draw.randint(1, 2))]
        fields = [
            pa.field(f"m{number}", each.type, each.null_count > 0)
            for number, each in enumerate(members)
        ]
        return pa.StructArray.from_arrays(members, fields=fields, mask=gone)
    if form == 1:
        starts = [0]
        for _ in range(size):
            starts.append(starts[-1] + draw.randrange(3))
        items = drawn_array(draw, starts[-1], depth - 1)
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items, mask=gone)
    kind, values = draw.choice(LEAVES)
    found = pa.array([draw.choice(values) for _ in range(size)], kind)
    return found if draw.random() < 0.5 else pa.array(found.to_pylist(), kind, mask=gone)


def paths(kind: pa.DataType, text: str = "z") -> list[tuple[str, tuple[Any, ...]]]:
    """Return what names each part of a value in SQL, and the steps to it."""
    found: list[tuple[str, tuple[Any, ...]]] = [(text, ())]
    if pa.types.is_struct(kind):
        for each in kind:
            for inner, steps in paths(each.type, f"{text}['{each.name}']"):
                found.append((inner, (each.name, *steps)))
    elif pa.types.is_list(kind):
        found += [
            (inner, (0, *steps))
            for inner, steps in paths(kind.value_type, f"array_element({text}, 1)")
        ]
    return found


def at(value: Any, steps: tuple[Any, ...]) -> Any:
    for each in steps:
        if value is None or (each == 0 and value == []):
            return None
        value = value[each]
    return value


def test_a_part_of_what_is_null_is_null() -> None:
    for seed in range(examples(150, 5_000)):
        draw = Random(f"members {seed}")
        array = drawn_array(draw, 6)
        array = array.slice(draw.randrange(3), draw.randint(1, 4))
        found = paths(array.type)
        items = ", ".join(f"{text} as c{number}" for number, (text, _) in enumerate(found))
        with query_context(spill=None, clock=False) as context:
            context.add("t", pa.table({"z": array}))
            rows = rows_of(context.query(f"select {items} from t")).to_pylist()
        for value, row in zip(array.to_pylist(), rows, strict=True):
            assert list(row.values()) == [at(value, steps) for _, steps in found], (seed, items)


def test_types_and_values_stay() -> None:
    for seed in range(examples(150, 5_000)):
        draw = Random(f"types {seed}")
        array = drawn_array(draw, 5).slice(draw.randrange(3))
        found = with_null_members(pa.chunked_array([array]))
        assert found.type == array.type
        assert found.to_pylist() == array.to_pylist()


def test_a_long_text_of_words_of_a_case_is_read_through_once() -> None:
    """A query is as long as whoever wrote it likes: to look at each word again took minutes."""
    long = "CASE " * 100_000
    query = f"select named_struct('a', '{long}') as y, z.k as k from t"
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"z": [{"k": 1}]}))
        assert columns(context.query(query)).names == ["y", "k"]
