"""Sinks of OpenLineage events: lines of a file, documents for a server."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol

from odfbuild.errors import Diagnostic, Level, StateError
from odfbuild.project.config.openlineage import Endpoint
from odfbuild.project.files.checkout import refuse_links
from odfbuild.texts.redaction import without_secrets
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import httpx


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
    _open(path, "wb").close()


class FileSink:
    """Appends events to a file, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._error: OSError | None = None
        self._file = _open(path, "ab")

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

        headers = {} if endpoint.token is None else {"Authorization": f"Bearer {endpoint.token}"}
        self._endpoint = endpoint
        self._posting = Posting(endpoint.url, headers)

    def put(self, event: bytes) -> None:
        self._posting.put(event)

    def close(self, seconds: float, /) -> Diagnostic | None:
        from odfbuild.executors.ingest.fetch.request import printable, user_of

        posted = self._posting.close(seconds)
        if not posted.lost:
            return None
        where = printable(self._endpoint.url).partition("?")[0]
        what = f"{posted.lost:,} of {posted.documents:,} events were not taken by {where}"
        secrets = [self._endpoint.token or "", *user_of(self._endpoint.url).split(":")]
        return _lost(what, without_secrets(posted.why or "", secrets))


def _open(path: Path, mode: Literal["ab", "wb"]) -> BinaryIO:
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


_PAUSES: Final = (0.2, 1.0)
_TIMEOUT: Final = 5.0
_MAY_PASS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Posted:
    """How many documents there were, how many were not taken, and why the first was not."""

    documents: int
    lost: int
    why: str | None


class _NotTakenError(Exception):
    """A document was not taken; `passing` tells that it may be, when it is tried again."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.why = why
        self.passing = passing


class Posting:
    """Posts documents in the order in which they are put.

    What may pass is tried three times; a server that cannot be reached then is not asked again.
    The headers go to the address that was given, and to none that a redirect names.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self._headers = dict(headers)
        self._pause = pause
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._put = self._taken = 0
        self._why: str | None = None
        self._thread = threading.Thread(target=self._run, name="posting", daemon=True)
        self._thread.start()

    def put(self, document: bytes) -> None:
        """Have a document posted, soon."""
        self._put += 1
        self._waiting.put(document)

    def close(self, seconds: float) -> Posted:
        """Wait until everything is posted, not longer than so many seconds; tell what was lost."""
        self._waiting.put(None)
        self._thread.join(seconds)
        why = "the server is too slow" if self._thread.is_alive() else None
        taken = self._taken
        return Posted(self._put, self._put - taken, self._why or why)

    def _run(self) -> None:
        try:
            self._post_all()
        except (OSError, ValueError) as error:  # of certificates, or of a header
            self._why = self._why or f"it cannot be asked ({type(error).__name__})"

    def _post_all(self) -> None:
        import httpx

        from odfbuild.executors.ingest.fetch.http import certificates

        with httpx.Client(
            headers=self._headers, timeout=_TIMEOUT, follow_redirects=False, verify=certificates()
        ) as client:
            while (document := self._waiting.get()) is not None:
                try:
                    self._deliver(client, document)
                except _NotTakenError as failure:
                    self._why = self._why or failure.why
                    if failure.passing:
                        return
                else:
                    self._taken += 1

    def _deliver(self, client: "httpx.Client", document: bytes) -> None:
        for pause in (*_PAUSES, None):
            failure = self._attempt(client, document)
            if failure is None:
                return
            if pause is None or not failure.passing:
                raise failure
            self._pause(pause)

    def _attempt(self, client: "httpx.Client", document: bytes) -> _NotTakenError | None:
        import httpx

        try:
            response = client.post(
                self._url, content=document, headers={"Content-Type": "application/json"}
            )
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return _NotTakenError(_reason(error), passing=True)
        if response.is_success:
            return None
        why = f"it answered {response.status_code}"
        return _NotTakenError(why, passing=response.status_code in _MAY_PASS)


def _reason(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {_TIMEOUT:g} seconds"
    if isinstance(error, httpx.ConnectError):
        return f"it cannot be reached: {error}"
    return f"it cannot be asked ({type(error).__name__})"  # others may show headers
