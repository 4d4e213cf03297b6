"""Reserved names: those of the columns and tables that steps of transforms add.  Pure.

They are fixed, as states of queries are stored under some of them.  Ingests choose theirs, so that
a source may have columns of any name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from odfbuild.odf.events import DataField, DatasetVocabulary
from odfbuild.odf.schema.value_paths import leaves
from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.shape import TextPlace

if TYPE_CHECKING:
    from odfbuild.sql.text.statement import Statement
    from odfbuild.sql.text.steps import QueryStep

RESERVED: Final = "__odf_"


def may_be_reserved(steps: Iterable[QueryStep]) -> bool:
    """Tell whether some text says a reserved name, be it in a comment."""
    return any(map(_is_in, (f"{step.alias} {step.text}" for step in steps)))


def reserved_words(number: int, statement: Statement) -> Iterator[QueryFinding]:
    """Yield the words of a step that are such names, or strings that hold one: of fields."""
    for token in statement.tokens if _is_in(statement.text) else ():
        if _is_in(token.text) if "STRING" in token.kind else is_reserved(token.text):
            what = f"the query uses the reserved name {token.text!r}"
            yield QueryFinding(Reason.RESERVED, what, number, token.place)


def reserved_tables(names: Iterable[str], number: int) -> Iterator[QueryFinding]:
    """Yield the inputs and steps of such names."""
    for name in filter(is_reserved, names):
        what = f"an input or step of the query has the reserved name {name!r}"
        yield QueryFinding(Reason.RESERVED, what, number, TextPlace(0, 1, 1, 1))


def reserved_columns(
    alias: str, fields: Sequence[DataField], vocab: DatasetVocabulary | None = None
) -> Iterator[QueryFinding]:
    """Yield the columns of an input, and the fields in them, of such names."""
    system = () if vocab is None else _system_names(vocab)
    names = [part.removeprefix(".") for path, _ in leaves(fields) for part in path]
    for name in dict.fromkeys(filter(is_reserved, (*names, *system))):
        what = f"the input {alias!r} has a column of the reserved name {name!r}"
        yield QueryFinding(Reason.RESERVED, what, 0, TextPlace(0, 1, 1, 1))


def _system_names(vocab: DatasetVocabulary) -> tuple[str, ...]:
    return (
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    )


def is_reserved(name: str) -> bool:
    """Tell whether steps may add a column or table of this name, or one that SQL takes for it."""
    return name.casefold().startswith(RESERVED)


def _is_in(text: str) -> bool:
    return RESERVED in text.casefold()
