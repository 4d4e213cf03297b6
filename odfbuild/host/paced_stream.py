"""Bodies of HTTP responses with limits on the time to receive them."""

from collections.abc import Iterator

import httpx

from odfbuild.host.pace import Deadline, SlowError, paced


class PacedStream(httpx.SyncByteStream):
    """A body with a deadline for each piece, and a minimum rate.

    Raises SlowError; closing it ends the deadline.
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
            if self._deadline.is_over:  # the deadline closed the connection
                raise SlowError(self._deadline.reason) from None
            raise

    def close(self) -> None:
        self._deadline.cancel()
        self._body.close()


def paced_response(response: httpx.Response, deadline: Deadline) -> httpx.Response:
    """Return a response that began in time, with the limits on its body."""
    deadline.rest()
    body = response.stream
    assert isinstance(body, httpx.SyncByteStream)  # noqa: S101 - for types
    response.stream = PacedStream(body, deadline)
    return response
