"""Where events of runs go: lines of a file, documents for a server."""

import threading
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from odfbuild.errors import Diagnostic, Level, StateError
from odfbuild.project.checkout_links import refuse_links
from odfbuild.project.telling import Endpoint
from odfbuild.redaction import without

__all__ = ["EventsFileError", "FileSink", "ServerSink", "Sink", "begin_events"]


class EventsFileError(StateError):
    """The file for the events of runs cannot be written."""

    code = "events-file"


class Sink(Protocol):
    """Takes events, and says in the end what it did not take; it never raises."""

    def put(self, event: bytes) -> None: ...

    def close(self, seconds: float, /) -> Diagnostic | None:
        """Wait so many seconds at most."""


def begin_events(path: Path) -> None:
    """Make the file of events, empty.  Raises EventsFileError."""
    _opened(path, "wb").close()


class FileSink:
    """Appends events to a file, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._error: OSError | None = None
        self._file = _opened(path, "ab")

    def put(self, event: bytes) -> None:
        with self._guard:
            if self._error is None:
                try:
                    self._file.write(event + b"\n")
                    self._file.flush()
                except OSError as error:
                    self._error = error

    def close(self, _: float, /) -> Diagnostic | None:
        try:
            self._file.close()
        except OSError as error:
            self._error = self._error or error
        if self._error is None:
            return None
        return _lost(f"{self._path} does not hold all events", str(self._error.strerror))


class ServerSink:
    """Posts events to a server."""

    def __init__(self, endpoint: Endpoint) -> None:
        from odfbuild.executors.posting import Posting

        headers = {} if endpoint.token is None else {"Authorization": f"Bearer {endpoint.token}"}
        self._endpoint = endpoint
        self._posting = Posting(endpoint.url, headers)

    def put(self, event: bytes) -> None:
        self._posting.put(event)

    def close(self, seconds: float, /) -> Diagnostic | None:
        from odfbuild.executors.request import printable, user_of

        posted = self._posting.close(seconds)
        if not posted.lost:
            return None
        where = printable(self._endpoint.url).partition("?")[0]
        what = f"{posted.lost:,} of {posted.documents:,} events were not taken by {where}"
        secrets = [self._endpoint.token or "", *user_of(self._endpoint.url).split(":")]
        return _lost(what, without(posted.why or "", secrets))


def _opened(path: Path, mode: Literal["ab", "wb"]) -> BinaryIO:
    refuse_links(path)
    try:
        return path.open(mode)
    except OSError as error:
        raise EventsFileError(
            what=f"{path} cannot be written: {error.strerror}",
            why="events of the run were asked for in that file",
            fix="name a file in a folder that is there and may be written to",
        ) from None


def _lost(what: str, why: str) -> Diagnostic:
    return Diagnostic(
        code="openlineage",
        what=what,
        why=why,
        fix="nothing was built otherwise for it; --report openlineage=FILE keeps events in a file",
        level=Level.WARNING,
    )
