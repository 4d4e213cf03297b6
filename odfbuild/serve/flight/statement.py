"""Statements: a question with the columns of its answer, as handles and tickets say it.

Nothing is kept of a statement here: a handle is the question itself, so it gives who brings it no
more than asking would, and there is nothing to forge, to guess or to close.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

from odfbuild.serve.access import AccessError
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.question import QueryQuestion, read_document, read_question
from odfbuild.values import dataclass

_MEMBERS = frozenset({"question", "columns"})


@dataclass(frozen=True, slots=True)
class Statement:
    """A question, its datasets pinned, and the columns of its answer as `schema_bytes`."""

    question: QueryQuestion
    columns: bytes

    def handle(self) -> bytes:
        """Return it as bytes, for the client."""
        columns = b64encode(self.columns).decode()
        form = {"question": self.question.document(), "columns": columns}
        return json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode()


def read_handle(handle: bytes, limits: ServerLimits) -> Statement:
    """Return the statement of a handle.  Raises AccessError (400)."""
    try:
        form = read_document(handle)
        if not isinstance(form, dict) or form.keys() != _MEMBERS:
            raise ValueError("it has other members")
        columns = _columns(form["columns"])
        return Statement(read_question(form["question"], limits.rows), columns)
    except ValueError:
        raise AccessError(400, "The handle is none of this server.", "bad-handle", _FIX) from None


def question_of(query: str, limits: ServerLimits) -> QueryQuestion:
    """Return the question that a query is, with as many rows as there may be.

    Raises AccessError (413) of one that is too long.
    """
    if len(query.encode()) > limits.question:
        raise AccessError(413, f"A question has at most {limits.question:,} bytes.", "too-long")
    return QueryQuestion(query=query, limit=limits.rows)


def _columns(given: Any) -> bytes:
    if not isinstance(given, str):
        raise ValueError("columns are a text")
    return b64decode(given.encode(), validate=True)


_FIX = "prepare the statement again, and give handles and tickets back as they came"
