"""The body of an answer over HTTP, as it comes at least as fast as it has to."""

from collections.abc import Iterator

import httpx

from odfbuild.host.pace import Deadline, SlowError, paced


class PacedStream(httpx.SyncByteStream):
    """A body whose every piece keeps a deadline, and all together the least rate.

    Raises SlowError; when it is closed, the deadline ends.
    """

    def __init__(self, body: httpx.SyncByteStream, deadline: Deadline) -> None:
        self._body = body
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from paced(self._body, deadline=self._deadline)
        except SlowError:
            raise
        except Exception:
            if self._deadline.is_over:  # who gives up closes the connection
                raise SlowError(self._deadline.reason) from None
            raise

    def close(self) -> None:
        self._deadline.cancel()
        self._body.close()


def kept_to_pace(response: httpx.Response, deadline: Deadline) -> httpx.Response:
    """Return an answer that began in time; its body is held to the deadline, and to the pace."""
    deadline.rest()
    body = response.stream
    assert isinstance(body, httpx.SyncByteStream)  # noqa: S101 - for types
    response.stream = PacedStream(body, deadline)
    return response
