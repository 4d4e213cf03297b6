"""What object stores answer that refuse: one short line, the credentials that it is about named."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from odfbuild.state.remote.errors import (
    RefusedByRepositoryError,
    TransferError,
    UnreachableRepositoryError,
)
from odfbuild.state.remote.store.bucket import Bucket

XML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{0}</Code><Message>'
    "It says\n{0}.</Message><RequestId>1</RequestId></Error>"
)
PAGE = "<html><body><h1>Forbidden</h1>" + "<p>x</p>" * 500


class Answering(BaseHTTPRequestHandler):
    """Answers everything in one way."""

    status = 403
    body = b""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.body)

    do_GET = do_PUT = do_HEAD = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"s3+http://127.0.0.1:{server.server_address[1]}/bucket/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-of-the-north")


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("body", ["", "no", PAGE, XML.format("InvalidAccessKeyId")])
def test_a_refusal_is_one_short_line_without_markup(
    url: str, monkeypatch: pytest.MonkeyPatch, status: int, body: str
) -> None:
    monkeypatch.setattr(Answering, "status", status)
    monkeypatch.setattr(Answering, "body", body.encode())
    asks: list[Callable[[], object]] = [
        lambda: Bucket(url).get("x", 10),
        lambda: Bucket(url).put("x", b"1", "create"),
    ]
    for ask in asks:
        with pytest.raises(TransferError) as caught:
            ask()
        error = caught.value
        wanted = UnreachableRepositoryError if status == 400 else RefusedByRepositoryError
        assert isinstance(error, wanted)
        assert "\n" not in error.what
        assert "<" not in error.what
        assert len(error.what) < 400
        assert "hunter2" not in f"{error.what}{error.why}{error.fix}"
        if "Code" in body:
            assert "InvalidAccessKeyId: It says InvalidAccessKeyId." in error.what


def test_credentials_that_are_nowhere_are_said_to_be_missing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore.exceptions import GenericError

    def ask() -> None:
        raise GenericError(
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 3s"
        )

    with pytest.raises(RefusedByRepositoryError, match="no credentials were found") as caught:
        Bucket(url)._asked(ask)
    assert "AWS_ACCESS_KEY_ID" in caught.value.fix
