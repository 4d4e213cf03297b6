"""Log of a server: one line per record on standard error, also for records of libraries."""

import logging
import os
import sys
from typing import Any

from odfbuild.texts.redaction import redacted


def log_to_stderr() -> None:
    """Log requests and errors, and warnings of libraries.

    A traceback is written only if ODFBUILD_TRACEBACK is set; else an exception is its name and its
    text.  Exceptions that cannot be raised are logged, too.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    log = logging.getLogger("odfbuild.serve")
    sys.unraisablehook = lambda found: log.error(
        "unraisable", exc_info=(found.exc_type, found.exc_value or Exception(), found.exc_traceback)
    )


class _OneLine(logging.Formatter):
    """Writes a record without credentials, on one line unless tracebacks are enabled."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self._is_whole = bool(os.environ.get("ODFBUILD_TRACEBACK"))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return redacted(text if self._is_whole else " ".join(text.split()))

    def formatException(self, ei: Any) -> str:
        if self._is_whole or ei[0] is None:
            return super().formatException(ei)
        return f"{ei[0].__name__}: {ei[1]}"
