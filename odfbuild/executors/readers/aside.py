"""Put bad rows aside: each goes to a side file, with its place, the reason and its text.

The side file has one JSON object a line: `file`, `line` (from 1), `reason`, and the row as it
stands in the source, as `text`, or as `base64` where it is no UTF-8.
"""

import base64
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from odfbuild.executors.readers.problems import InvalidSourceError, counted, refusal
from odfbuild.json_text import parse_json
from odfbuild.planner.policy import IngestOptions

__all__ = ["Aside", "Spool"]

_LISTED: Final = 5
_WHY: Final = "bad rows are put aside, up to the limits of `max_bad_rows`"
_FIX: Final = "correct the file or `read`, or raise `max_bad_rows` in the defaults of odfbuild.yaml"


class Aside:
    """The rows of one file that cannot be read, on their way into a side file.

    Rows come in the order of the file.  `rows` counts them.
    """

    def __init__(self, path: Path, name: str, options: IngestOptions) -> None:
        self.path = path
        self.rows = 0
        self._name = name
        self._options = options
        self._out: IO[bytes] | None = None
        self._first: list[tuple[int, str]] = []

    def put(self, line: int, reasons: Sequence[str], row: bytes) -> None:
        """Write down a row; raises InvalidSourceError if these are too many."""
        reason = "; ".join(reasons)
        self.rows += 1
        if len(self._first) < _LISTED:
            self._first.append((line, reason))
        most = self._options.max_bad_rows
        if most is not None and self.rows > most:
            raise self._refusal(f"more than {counted(most, 'bad row')}", more=True)
        if self._out is None:
            self._out = _opened(self.path)
        told = {"file": self._name, "line": line, "reason": reason, **_text(row)}
        self._out.write(json.dumps(told, ensure_ascii=False).encode() + b"\n")

    def finish(self, good: int) -> None:
        """Make the side file last; raises InvalidSourceError if too few rows of all are good."""
        percent = self._options.max_bad_percent
        if self.rows and not good:
            raise self._refusal("no row that can be read", more=self.rows > len(self._first))
        if percent is not None and self.rows * 100 > percent * (good + self.rows):
            what = f"{self.rows:,} bad rows of {good + self.rows:,}, more than {percent} %"
            raise self._refusal(what, more=self.rows > len(self._first))
        if self._out is not None:
            self._out.flush()
            os.fsync(self._out.fileno())

    def close(self) -> None:
        """Let go of the side file, be it whole or not."""
        if self._out is not None:
            self._out.close()

    def _refusal(self, what: str, *, more: bool) -> InvalidSourceError:
        told = refusal(self._name, self._first, more=more, why=_WHY, fix=_FIX)
        return InvalidSourceError(f"{self._name} has {what}\n  {told.what}", told.why, told.fix)


def _opened(path: Path) -> IO[bytes]:
    """Make the side file: for its owner only, since it holds what was kept out of the dataset."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _text(row: bytes) -> Mapping[str, str]:
    try:
        return {"text": row.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(row).decode("ascii")}


class Spool:
    """Lines and reasons in a temporary file, which is made with the first: written, then read.

    Each entry is the first and the last line of a row, and what is wrong with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def add(self, first: int, last: int, reasons: Sequence[str]) -> None:
        """Write down what is wrong with a row."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - held open
        self._file.write(json.dumps([first, last, list(reasons)]).encode() + b"\n")

    def __iter__(self) -> Iterator[tuple[int, int, Sequence[str]]]:
        if self._file is None:
            return
        self._file.seek(0)
        for line in self._file:
            first, last, reasons = parse_json(line)
            yield first, last, reasons

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
