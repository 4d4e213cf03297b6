"""Decide which field of a CSV record is which declared column."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfbuild.executors.readers.columns import infer
from odfbuild.executors.readers.drift import Drift
from odfbuild.executors.readers.fitting import fits
from odfbuild.executors.readers.problems import InvalidSourceError, counted, quoted
from odfbuild.executors.readers.quoting import Record
from odfbuild.executors.readers.values import Formats, expected

__all__ = [
    "Binding",
    "bind",
    "check_header",
    "check_is_header",
    "check_is_record",
    "difference",
    "drift_of",
    "listed",
    "unbound",
]

_LISTED = 10
_BY_NAME = "or `columns: by-name` in the defaults of odfbuild.yaml, if columns come and go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """For each column of the schema the position of its field, None if the file lacks it.

    `width` is how many fields each record must have.
    """

    schema: pa.Schema
    positions: tuple[int | None, ...]
    width: int


def bind(
    name: str,
    declared: pa.Schema,
    header: Sequence[str] | None,
    width: int,
    *,
    by_name: bool = False,
) -> Binding:
    """Bind by name if one set of names contains the other, else by position.

    `header` None: the file has no header, `width` counts its first record.  With `by_name`, names
    that are on one side only matter not, as long as there are others.  Raises InvalidSourceError
    if no way works.
    """
    if header is None:
        return _by_position(name, declared, width, None)
    names = [field.strip() for field in header]
    ours, theirs = set(declared.names), set(names)
    if by_name and not ours & theirs:
        raise InvalidSourceError(
            what=f"{name}: the header has no column of the schema",
            why=f"it names {listed(names)}, and the columns are bound by name",
            fix="correct `header` or `separator` in `read`, or the names in `schema`",
        )
    if not by_name and not (ours <= theirs or theirs <= ours):
        return _by_position(name, declared, len(names), names)
    twice = sorted(n for n in ours if names.count(n) > 1)
    if twice:
        raise InvalidSourceError(
            what=f"{name}: the header names {quoted(twice[0])} {names.count(twice[0])} times",
            why="columns are bound by name, so each name must be one column",
            fix="rename the columns in the file, or skip the header and bind by position",
        )
    lacking = [f.name for f in declared if not f.nullable and f.name not in theirs]
    if lacking:
        raise InvalidSourceError(
            what=f"{name}: the header lacks the required column {lacking[0]}",
            why=f"it names {listed(names)}",
            fix="correct the name, or make the column optional",
        )
    positions = tuple(names.index(n) if n in theirs else None for n in declared.names)
    return Binding(schema=declared, positions=positions, width=len(names))


def check_is_header(
    name: str, declared: pa.Schema, header: Sequence[str], formats: Formats, null_value: str
) -> None:
    """Refuse a first line that looks like a record, where the columns bind by position.

    It does if it has no name of the schema, and each value for a column that is not of text has the
    type of that column.
    """
    names = [field.strip() for field in header]
    if len(names) != len(declared) or set(names) & set(declared.names):
        return
    typed = [
        (text, column)
        for text, column in zip(header, declared, strict=True)
        if not pa.types.is_string(column.type) and text.strip() not in ("", null_value)
    ]
    if typed and all(fits(text, column.type, formats) for text, column in typed):
        text, column = typed[0]
        raise InvalidSourceError(
            what=f"{name}: the first line looks like a record, not like a header:"
            f" {listed([quoted(each) for each in header])}",
            why=f"`header: true` skips it, and {quoted(text)} is {expected(column.type, formats)} "
            f"for {column.name}; no name of the schema is in it",
            fix="write `header: false` in `read`; if it is a header, use its names in `schema`",
        )


def check_is_record(name: str, declared: pa.Schema, first: Sequence[str]) -> None:
    """Refuse a first record that is a header: it names the columns, in their order."""
    if len(declared) > 1 and [field.strip() for field in first] == declared.names:
        raise InvalidSourceError(
            what=f"{name}: the first line is a header: {listed(declared.names)}",
            why="`header` is false, so it would become a record",
            fix="write `header: true` in `read`",
        )


def check_header(name: str, header: Sequence[str]) -> None:
    """Refuse a header that is not all text, before its names are used."""
    for at, field in enumerate(header, start=1):
        if any("\udc80" <= sign <= "\udcff" for sign in field):
            shown = quoted(field.encode("utf-8", "surrogateescape").decode("latin-1"))
            raise InvalidSourceError(
                what=f"{name}: field {at} of the header has bytes that are not UTF-8: {shown}",
                why="columns are known by name, so a name must be text",
                fix="correct the file, or set `encoding` in `read`",
            )


def unbound(
    name: str,
    header: Sequence[str] | None,
    sample: Sequence[Sequence[str]],
    width: int,
    *,
    formats: Formats | None,
    null_value: str,
) -> Binding:
    """Make a schema from the header, and with `formats` types from a sample; all optional."""
    names = [f.strip() or f"column_{i}" for i, f in enumerate(header or [""] * width, start=1)]
    twice = sorted(n for n in set(names) if names.count(n) > 1)
    if twice:
        raise InvalidSourceError(
            what=f"{name}: the header names {quoted(twice[0])} {names.count(twice[0])} times",
            why="without a schema the header gives the columns their names",
            fix="declare `schema` in `read`; columns then bind by position if names differ",
        )
    types = [pa.string()] * width
    if formats is not None:
        types = [_shown_type(sample, at, formats, null_value) for at in range(width)]
    fields = [pa.field(n, t) for n, t in zip(names, types, strict=True)]
    return Binding(schema=pa.schema(fields), positions=tuple(range(width)), width=width)


def drift_of(
    binding: Binding,
    header: Sequence[str] | None,
    records: Iterable[Record],
    formats: Formats,
    null_value: str,
) -> Drift:
    """Return how the header differs from the schema; `records` show types, if that is needed."""
    if header is None:
        return Drift()
    names, ours = [field.strip() for field in header], binding.schema.names
    if None not in binding.positions and len(names) == len(ours) and set(names) != set(ours):
        pairs = zip(names, ours, strict=True)
        return Drift(renamed=tuple(pair for pair in pairs if pair[0] != pair[1]))
    added = [at for at, name in enumerate(names) if name and name not in ours]
    sample = [record.fields for record in records] if added else []
    return Drift(
        added=tuple(
            pa.field(names[at], _shown_type(sample, at, formats, null_value)) for at in added
        ),
        missing=tuple(name for name in ours if name not in names),
    )


def _shown_type(
    sample: Sequence[Sequence[str]], at: int, formats: Formats, null_value: str
) -> pa.DataType:
    """Return the type that the cells of a column have in a sample."""
    nothing = {"", null_value}
    cells = [row[at] for row in sample if at < len(row)]
    try:
        return infer(pa.array([None if c in nothing else c for c in cells], pa.string()), formats)
    except UnicodeEncodeError:  # bytes that are not UTF-8: reading the rows says so
        return pa.string()


def _by_position(
    name: str, declared: pa.Schema, width: int, names: Sequence[str] | None
) -> Binding:
    if len(declared) != width:
        raise InvalidSourceError(
            what=f"{name}: {counted(width, 'column')} in the file, {len(declared)} in the schema",
            why="without a header columns bind by position, which needs equal counts"
            if names is None
            else f"{difference(names, declared.names)}; neither contains the other, and binding by "
            "position needs equal counts",
            fix=_way_out(names),
        )
    there = declared.names if names is None else names
    pairs = zip(declared.names, there, strict=True)
    moved = [each for each, other in pairs if each != other and each in there]
    if moved:
        raise _crossed(name, declared, there, moved[0])
    return Binding(schema=declared, positions=tuple(range(width)), width=width)


def _crossed(
    name: str, declared: pa.Schema, names: Sequence[str], moved: str
) -> InvalidSourceError:
    ours = sorted(set(declared.names) - set(names))
    theirs = sorted(set(names) - set(declared.names))
    return InvalidSourceError(
        what=f"{name}: the header has no {listed(ours)}, and {listed(theirs)} instead",
        why=f"columns would bind by position, but {moved} is in another place than in the schema",
        fix=f"correct the names in `read.schema`, or put its columns in the order of the file; "
        f"{_BY_NAME}",
    )


def difference(names: Sequence[str], ours: Sequence[str]) -> str:
    """Return what is in one of two lists of names only, in words."""
    there = [name for name in names if name not in ours]
    here = [name for name in ours if name not in names]
    words = [f"only the file has {listed(there)}"] if there else []
    words += [f"only the schema has {listed(here)}"] if here else []
    return "; ".join(words) or "they are in another order"


def _way_out(names: Sequence[str] | None) -> str:
    if names is None:
        return "declare every column of the file, in its order"
    other = [sign for sign in ";\t|," if len(names) == 1 and sign in names[0]]
    if other:
        return f"set `separator: {other[0]!r}` in `read`"
    return f"correct the names in `read.schema`, or declare every column in order; {_BY_NAME}"


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"
