"""Rows of fixtures in the types of their columns; what is wrong with them, each at its place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.events import DataSchema, DataType
from odfbuild.planner.names import did_you_mean
from odfbuild.project.testing.model import Rows
from odfbuild.project.testing.values import WrongValueError, of_text, typed

__all__ = ["OPERATIONS", "FileRow", "Typed", "from_file", "written_out"]

OPERATIONS: Final = ("+A", "-R", "-C", "+C")
"""The operations of records, by their numbers."""
Place: TypeAlias = Callable[[str | None, bool], SourceSpan]
"""Where a value of a row is written, or its column's name if the second is true; or the row."""


@dataclass(slots=True, kw_only=True)
class Typed:
    """Makes rows of values: of the columns of a schema, and of the operation if `op` names one.

    `whose` is how messages call the dataset.  With `partial`, columns may be left out that have to
    have values.  What is wrong is collected in `found`.
    """

    schema: DataSchema
    whose: str
    op: str
    partial: bool = False
    found: list[Diagnostic] = field(default_factory=list)

    def row(
        self,
        given: Mapping[str, Any],
        place: Place,
        convert: Callable[[Any, DataType], Any] = typed,
    ) -> dict[str, Any]:
        """Return a row with the columns that are given, or with all of them."""
        types = {each.name: each.type for each in self.schema.fields}
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name == self.op:
                made[name] = self._operation(value, place(name, False))
            elif name not in types:
                self._unknown(name, list(types), place(name, True))
            else:
                try:
                    made[name] = convert(value, types[name])
                except WrongValueError as error:
                    self._wrong(name, str(error), place(name, False))
        if not self.partial and given.keys() <= {*types, self.op}:
            for name, kind in types.items():
                if name not in given:
                    try:
                        made[name] = typed(None, kind)
                    except WrongValueError:
                        self._wrong(
                            name, "left out, and the column is required", place(None, False)
                        )
        return made

    def _operation(self, value: Any, span: SourceSpan) -> int:
        if isinstance(value, str) and value in OPERATIONS:
            return OPERATIONS.index(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 3:
            return value
        self._wrong(self.op, f"'{value}', which is none of {', '.join(OPERATIONS)}", span)
        return 0

    def _wrong(self, name: str, why: str, span: SourceSpan) -> None:
        self.found.append(
            Diagnostic(
                code="wrong-type",
                what=f"'{name}' is {why}",
                why=f"rows of {self.whose} have the types of its columns",
                fix="correct the value",
                span=span,
            )
        )

    def _unknown(self, name: str, known: Sequence[str], span: SourceSpan) -> None:
        self.found.append(
            Diagnostic(
                code="unknown-column",
                what=f"{self.whose} has no column '{name}'",
                why="rows have the columns of their dataset, letter case included",
                fix=did_you_mean(name, known) or "correct the name",
                span=span,
            )
        )


def written_out(rows: Rows, into: Typed) -> list[dict[str, Any]]:
    """Return rows that stand in the fixture itself."""

    def place(number: int) -> Place:
        def of(name: str | None, key: bool) -> SourceSpan:
            return rows.key(number, name) if key and name is not None else rows.cell(number, name)

        return of

    return [into.row(each, place(at)) for at, each in enumerate(rows.items)]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file, at its line; texts of CSV are read by the types of the columns."""

    line: int
    values: Mapping[str, Any]
    is_text: bool = False


def from_file(file: str, rows: Iterator[FileRow], into: Typed) -> list[dict[str, Any]]:
    """Return rows that stand in a file of the project."""

    def place(line: int) -> Place:
        return lambda *_: SourceSpan(file=file, line=line)

    found = []
    for each in rows:
        values = {
            name: value
            for name, value in each.values.items()
            if not (each.is_text and name == into.op and value == "")
        }
        convert = of_text if each.is_text else typed
        found.append(into.row(values, place(each.line), convert))
    return found
