"""Errors of tasks that read or write objects, on their way through Spark.

Spark gives the driver the text of a failed task, with the stack of Python.  What the error says is
one line in it, between marks.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Final

import pyarrow as pa

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.host.json_text import parse_json

MARK: Final = f"odfbuild-{token_hex(8)}"
"""What tasks of this process mark their errors with, which no query can know."""

_MARKED: Final = re.compile(rf"<{MARK}>([^\n]*?)</{MARK}>")


class ClusterObjectError(EngineFailedError):
    """A task of Spark could not read or write an object, or found other bytes in it."""

    code = "cluster-object"


@contextmanager
def marked_errors(mark: str) -> Iterator[None]:
    """Let what goes wrong in a task be found in the text that Spark makes of it."""
    try:
        yield
    except OdfBuildError as error:
        raise _marked(mark, error.what, error.why, error.fix) from None
    except (OSError, pa.ArrowException) as error:
        raise _marked(
            mark,
            f"a task of Spark failed: {error}",
            "it reads and writes objects, by way of temporary files of its machine",
            "check that the machines of the cluster have free space, then run again: nothing of "
            "the step was committed",
        ) from None


def _marked(mark: str, *words: str) -> RuntimeError:
    return RuntimeError(f"<{mark}>{json.dumps(words)}</{mark}>")


def error_of_task(text: str) -> ClusterObjectError | None:
    """Return the error of a task that the text of Spark's error has; None if it has none."""
    found = _MARKED.search(text)
    if found is None:
        return None
    what, why, fix = parse_json(found[1].encode())
    return ClusterObjectError(what, why, fix)
