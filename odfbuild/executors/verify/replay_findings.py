"""Findings of a replay: the recorded schema and rows of a step against those of its replay."""

from collections.abc import Iterator, Mapping

from odfbuild.odf.events import DataSchema, DataSlice
from odfbuild.odf.schema.arrow import to_arrow


def schema_findings(recorded: DataSchema | None, computed: DataSchema) -> Iterator[str]:
    """Say which columns came out otherwise; whether they may be null is no part of their hash."""
    if recorded is None:
        return
    was, now = _columns(recorded), _columns(computed)
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            one, other = (each.get(name, "not there") for each in (was, now))
            yield f"the column {name!r} is {one}, and came out as {other}"
    if was == now and list(was) != list(now):
        yield f"the columns came out in another order: {', '.join(now)}"


def _columns(schema: DataSchema) -> Mapping[str, str]:
    return {field.name: str(field.type) for field in to_arrow(schema)}


def row_findings(recorded: DataSlice | None, computed: DataSlice | None) -> Iterator[str]:
    one, other = _offsets(recorded), _offsets(computed)
    if one != other:
        yield f"the block has {one}, and {other} came out"
    elif recorded and computed and recorded.logical_hash != computed.logical_hash:
        yield (
            f"the rows of {one} have the logical hash {recorded.logical_hash}, and those that "
            f"came out have {computed.logical_hash}"
        )


def _offsets(piece: DataSlice | None) -> str:
    if piece is None:
        return "no rows"
    return f"offsets {piece.offset_interval.start}..{piece.offset_interval.end}"
