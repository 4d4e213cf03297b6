"""Statements: a question with the columns of its answer, in the form of handles and tickets.

The server does not store statements: a handle contains the question itself, so it gives its holder
no more than the question would, and there is nothing to forge, to guess or to close.
"""

import json

from odfbuild.host.protobuf import Value, field, fields
from odfbuild.serve.access import AccessError
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.question import QueryQuestion, read_document, read_question
from odfbuild.values import dataclass

_QUERY, _REST, _COLUMNS = 1, 2, 3  # fields of a handle; the text is not escaped, as it may be long
_FIX = "prepare the statement again, and send handles and tickets back unchanged"


@dataclass(frozen=True, slots=True)
class Statement:
    """A question, its datasets pinned, and the columns of its answer as `schema_bytes`."""

    question: QueryQuestion
    columns: bytes

    def handle(self) -> bytes:
        """Return the statement as bytes, for the client."""
        rest = self.question.document()
        query = rest.pop("query").encode()
        form = json.dumps(rest, ensure_ascii=False, separators=(",", ":")).encode()
        return field(_QUERY, query) + field(_REST, form) + field(_COLUMNS, self.columns)


def read_handle(handle: bytes, limits: ServerLimits) -> Statement:
    """Return the statement of a handle.  Raises AccessError (400, 413)."""
    try:
        found = fields(handle)
        query, rest, columns = (found[each][-1] for each in (_QUERY, _REST, _COLUMNS))
        if not (
            isinstance(query, bytes) and isinstance(rest, bytes) and isinstance(columns, bytes)
        ):
            raise ValueError("its fields are not of bytes")
        document = {**read_document(rest), "query": query.decode()}
        question = read_question(document, limits.rows)
    except (ValueError, TypeError, KeyError):
        raise AccessError(400, "The handle is not of this server.", "bad-handle", _FIX) from None
    _check_length(question.query, limits)
    return Statement(question, columns)


def question_of(query: str, limits: ServerLimits) -> QueryQuestion:
    """Return the question of a query, with as many rows as the limits permit.

    Raises AccessError (413) for one that is too long.
    """
    _check_length(query, limits)
    return QueryQuestion(query=query, limit=limits.rows)


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field is not of bytes")
    return value


def _check_length(query: str, limits: ServerLimits) -> None:
    if len(query.encode()) > limits.question:
        raise AccessError(413, f"A question has at most {limits.question:,} bytes.")
