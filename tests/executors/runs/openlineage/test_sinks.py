"""Posting beside the work: what comes through, what is tried again, and what is given up."""

import threading

from odfbuild.executors.runs.openlineage.sinks import Posted, Posting
from tests.support.servers.receiver import taking


def posted(url: str, *documents: bytes, **headers: str) -> Posted:
    posting = Posting(url, headers, pause=lambda _: None)
    for each in documents:
        posting.put(each)
    return posting.close(20)


def test_documents_come_in_order_with_the_headers() -> None:
    with taking(201) as server:
        assert posted(server.url, b"{}", b"[1]", Authorization="Bearer t") == Posted(2, 0, None)
        assert [body for _, body, _ in server.asked] == [b"{}", b"[1]"]
        assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer t"}
        assert {headers["content-type"] for _, _, headers in server.asked} == {"application/json"}


def test_what_may_pass_is_tried_again() -> None:
    with taking(503, 429, 200) as server:
        assert posted(server.url, b"1", b"2") == Posted(2, 0, None)
        assert [body for _, body, _ in server.asked] == [b"1", b"1", b"1", b"2"]


def test_a_server_that_stays_broken_is_not_asked_again() -> None:
    with taking(503) as server:
        assert posted(server.url, b"1", b"2", b"3") == Posted(3, 3, "it answered 503")
        assert [body for _, body, _ in server.asked] == [b"1"] * 3


def test_a_document_that_is_refused_does_not_keep_others_back() -> None:
    with taking(422, 200) as server:
        assert posted(server.url, b"1", b"2") == Posted(2, 1, "it answered 422")
        assert [body for _, body, _ in server.asked] == [b"1", b"2"]


def test_a_redirect_is_not_followed() -> None:
    with taking(307) as server:
        assert posted(server.url, b"1") == Posted(1, 1, "it answered 307")
        assert [path for path, _, _ in server.asked] == ["/in"]


def test_a_server_that_is_not_there_is_told() -> None:
    with taking(200) as server:
        gone = server.url
    found = posted(gone, b"1", b"2")
    assert (found.documents, found.lost) == (2, 2)
    assert found.why is not None
    assert found.why.startswith("it cannot be reached: ")


def test_the_end_does_not_wait_for_a_slow_server() -> None:
    goes_on = threading.Event()

    def pause(_: float) -> None:
        goes_on.wait(20)

    with taking(503) as server:
        posting = Posting(server.url, {}, pause=pause)
        posting.put(b"1")
        assert posting.close(0.05) == Posted(1, 1, "the server is too slow")
        goes_on.set()
