"""What must hold of a read step by itself: its options, and the columns that it declares."""

from collections.abc import Sequence

from odfbuild.odf.events import DataSchema, ReadStep
from odfbuild.odf.read_options import option_problems
from odfbuild.odf.schema import DdlError, parse_ddl
from odfbuild.project.findings import Findings
from odfbuild.project.places import Path

__all__ = ["check_read"]

_MOST_PIECES = 100
_OPENING, _CLOSING = "(<", ")>"


def check_read(read: ReadStep, path: Path, findings: Findings) -> DataSchema | None:
    """Check a read step; return the columns that it declares, None if there are none to know."""
    for problem in option_problems(read):
        here = (*path, problem.option)
        findings.refuse("unsupported-read", here, problem.what, problem.why, problem.fix)
    if read.ddl_schema is None:
        return read.schema
    return _ddl_schema(read.ddl_schema, findings.written_key(path, "ddlSchema", "schema"), findings)


def _ddl_schema(columns: Sequence[str], path: Path, findings: Findings) -> DataSchema | None:
    try:
        return parse_ddl(columns)
    except DdlError as error:
        at = error.index
        passed = _refuse(error, columns, at, path, findings)
    while (at := at + passed) < len(columns):
        passed = 1
        try:
            parse_ddl(columns[at])
        except DdlError as error:
            passed = _refuse(error, columns, at, path, findings)
    return None


def _refuse(
    error: DdlError, columns: Sequence[str], at: int, path: Path, findings: Findings
) -> int:
    """Add what is wrong with a column, and return how many entries that is about."""
    pieces = _pieces(columns, at)
    if pieces == 1:
        part = (error.text, error.offset)
        findings.refuse("invalid-schema", (*path, at), error.what, error.why, error.fix, part=part)
        return 1
    whole = ", ".join(columns[at : at + pieces])
    quote = "'" if '"' in whole else '"'
    findings.refuse(
        "invalid-schema",
        (*path, at),
        f"the column '{columns[at]}' goes on behind the comma",
        "in a list between [ and ] a comma ends the entry, also within parentheses",
        f"put the entry in quotes: {quote}{whole}{quote}",
    )
    return pieces


def _pieces(columns: Sequence[str], at: int) -> int:
    """Return of how many entries a column is made that commas have cut; 1 if it is not cut."""
    opened = 0
    for end, text in enumerate(columns[at : at + _MOST_PIECES], at + 1):
        opened += sum(map(text.count, _OPENING)) - sum(map(text.count, _CLOSING))
        if opened <= 0:
            return end - at if end > at + 1 and _is_column(", ".join(columns[at:end])) else 1
    return 1


def _is_column(text: str) -> bool:
    try:
        return len(parse_ddl(text).fields) == 1
    except DdlError:
        return False
