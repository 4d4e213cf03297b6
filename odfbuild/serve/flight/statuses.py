"""Statuses of gRPC for refusals of a server, with code and remedy in the text."""

from collections.abc import Mapping
from typing import Final

import grpc

from odfbuild.serve.access import AccessError
from odfbuild.serve.query.worker import MEMORY_LIMIT, SIZE_LIMIT, TIME_LIMIT
from odfbuild.state.remote.view.outage import OUTAGES
from odfbuild.texts.redaction import excerpt

_LONGEST: Final = 1_500  # characters, which have to fit into trailers

_BY_CODE: Final[Mapping[str | None, "grpc.StatusCode"]] = {
    TIME_LIMIT: grpc.StatusCode.DEADLINE_EXCEEDED,
    MEMORY_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    SIZE_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    "engine-failed": grpc.StatusCode.RESOURCE_EXHAUSTED,
    **dict.fromkeys((each.code for each in OUTAGES), grpc.StatusCode.UNAVAILABLE),
}
_BY_STATUS: Final[Mapping[int, tuple["grpc.StatusCode", str]]] = {
    400: (grpc.StatusCode.INVALID_ARGUMENT, "bad-question"),
    401: (grpc.StatusCode.UNAUTHENTICATED, "no-token"),
    403: (grpc.StatusCode.PERMISSION_DENIED, "not-allowed"),
    404: (grpc.StatusCode.NOT_FOUND, "not-found"),
    413: (grpc.StatusCode.RESOURCE_EXHAUSTED, "too-long"),
    503: (grpc.StatusCode.RESOURCE_EXHAUSTED, "busy"),
}
_FAILED: Final = (grpc.StatusCode.INTERNAL, "failed")


def status_of(error: AccessError) -> tuple["grpc.StatusCode", str]:
    """Return the status of a refusal, and its text."""
    status, code = _BY_STATUS.get(error.status, _FAILED)
    return _BY_CODE.get(error.code, status), error_text(error.code or code, error.text, error.fix)


def error_text(code: str, text: str, fix: str | None = None) -> str:
    """Return the text of an error for a client."""
    whole = f"{code}: {text}" if fix is None else f"{code}: {text} (fix: {fix})"
    return excerpt(whole, _LONGEST)
