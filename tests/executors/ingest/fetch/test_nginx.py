"""Fetching from a real nginx: versions, ranges, redirects, patience, TLS."""

import gzip
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch import http
from odfbuild.executors.ingest.fetch.request import NotFoundError, Request, UnreachableError
from odfbuild.executors.ingest.fetch.source import Fetched, UpToDate, fetch
from odfbuild.odf.events import FetchStepUrl, RequestHeader, SourceState
from odfbuild.odf.timestamp import Timestamp
from tests.support.servers.ftp import certificate
from tests.support.servers.nginx import Cut, Nginx, cutting, serving_nginx, why_no_nginx

pytestmark = pytest.mark.skipif(why_no_nginx() is not None, reason=str(why_no_nginx()))

NOW = Timestamp.parse("2024-05-06T07:08:09Z")
CHANGED = Timestamp.parse("2024-01-02T03:04:05Z")
ROWS = b"".join(b"%d,row\n" % i for i in range(60_000))


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, _ = certificate(tmp_path_factory.mktemp("certificate"))
    return path


@pytest.fixture(scope="module")
def nginx(trusted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    with serving_nginx(tmp_path_factory.mktemp("nginx"), trusted) as server:
        yield server


@pytest.fixture
def line(nginx: Nginx) -> Iterator[Cut]:
    with cutting(nginx.port) as line:
        yield line


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda seconds: None)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def put(nginx: Nginx, name: str, body: bytes, changed: Timestamp = CHANGED) -> None:
    path = nginx.files / name
    path.write_bytes(body)
    os.utime(path, ns=(changed.nanos, changed.nanos))


def fetched(
    url: str,
    folder: Path,
    state: SourceState | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched | UpToDate:
    given = tuple(RequestHeader(name=n, value=v) for n, v in (headers or {}).items())
    step = FetchStepUrl(url=url, headers=given or None)
    return fetch(step, state, now=NOW, project_dir=folder, cache=folder / "cache", env=env or {})


def body(
    url: str,
    folder: Path,
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> bytes:
    found = fetched(url, folder, headers=headers, env=env)
    assert isinstance(found, Fetched)
    return found.path.read_bytes()


@pytest.mark.parametrize(
    ("path", "kind"), [("", "odf/etag"), ("no-etag/", "odf/last-modified")], ids=["etag", "time"]
)
def test_what_is_unchanged_costs_one_question(
    nginx: Nginx, tmp_path: Path, path: str, kind: str
) -> None:
    put(nginx, "data.csv", b"one\n")
    url = nginx.url(f"{path}data.csv")
    found = fetched(url, tmp_path)
    assert isinstance(found, Fetched)
    assert found.state is not None
    assert (found.state.kind, found.event_time) == (kind, CHANGED)
    assert fetched(url, tmp_path, found.state) == UpToDate()
    put(nginx, "data.csv", b"two\n", NOW)
    again = fetched(url, tmp_path, found.state)
    assert isinstance(again, Fetched)
    assert again.path.read_bytes() == b"two\n"
    put(nginx, "data.csv", b"one\n")
    older = fetched(url, tmp_path, again.state)
    assert isinstance(older, Fetched)
    assert older.event_time == CHANGED


@pytest.mark.parametrize("path", ["", "no-etag/"], ids=["etag", "time"])
def test_a_download_that_is_cut_goes_on(nginx: Nginx, line: Cut, tmp_path: Path, path: str) -> None:
    put(nginx, "rows.csv", ROWS)
    line.limits = [100_000, 200_000]
    assert body(line.url(f"{path}rows.csv"), tmp_path) == ROWS
    asked = [head.lower() for head in line.heads]
    assert [b"if-range: " in head for head in asked] == [False, True, True]
    starts = [int(head.partition(b"range: bytes=")[2].partition(b"-")[0]) for head in asked[1:]]
    assert 0 < starts[0] < 100_000 < starts[1] < 300_000


def test_a_file_that_changes_in_between_is_taken_whole(
    nginx: Nginx, line: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(nginx, "rows.csv", ROWS)
    line.limits = [100_000]
    other = ROWS.swapcase()
    monkeypatch.setattr(
        "odfbuild.executors.process.interrupt.pause", lambda _: put(nginx, "rows.csv", other, NOW)
    )
    found = fetched(line.url("rows.csv"), tmp_path)
    assert isinstance(found, Fetched)
    assert found.path.read_bytes() == other
    assert found.event_time == NOW
    assert b"if-range" in line.heads[1].lower()


def test_a_slow_body_is_waited_for_and_a_stopped_one_is_not(nginx: Nginx, tmp_path: Path) -> None:
    put(nginx, "slow.csv", b"x" * 3000)
    assert len(body(nginx.url("slow/slow.csv"), tmp_path)) == 3000
    hurried = {"ODFBUILD_HTTP_TIMEOUT": "0.15"}  # nginx pauses for a second
    with pytest.raises(UnreachableError) as caught:
        fetched(nginx.url("unnamed/slow.csv"), tmp_path, env=hurried)
    assert caught.value.why == "the server stopped sending"
    assert len(body(nginx.url("slow/slow.csv"), tmp_path, env=hurried)) == 3000  # piece by piece


def test_a_busy_server_is_given_the_time_that_it_asks_for(nginx: Nginx, tmp_path: Path) -> None:
    waited: list[float] = []
    request = Request(url=nginx.url("busy"), name="it")
    with pytest.raises(UnreachableError) as caught:
        http.download(request, tmp_path, pause=waited.append)
    assert waited == [7.0] * 3
    assert (caught.value.status, caught.value.why) == (503, "the server answered: come back")


SECRETS = {"Authorization": "Bearer ${{ env.KEY }}", "X-Key": "${{ env.KEY }}"}
KEY = {"KEY": "hunter2"}


def test_secrets_follow_redirects_within_a_host_and_no_further(
    nginx: Nginx, tmp_path: Path
) -> None:
    assert body(nginx.url("near"), tmp_path, headers=SECRETS, env=KEY) == b"Bearer hunter2|hunter2"
    assert body(nginx.url("far"), tmp_path, headers=SECRETS, env=KEY) == b"|"


def test_a_redirect_in_a_circle_ends(nginx: Nginx, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError) as caught:
        fetched(nginx.url("round"), tmp_path)
    assert caught.value.why == "it redirects more than 10 times"


def test_chunks_are_put_together(nginx: Nginx, tmp_path: Path) -> None:
    put(nginx, "rows.csv", ROWS)
    assert body(nginx.url("chunked/rows.csv"), tmp_path) == ROWS


def test_a_server_that_can_pack_is_asked_not_to(nginx: Nginx, line: Cut, tmp_path: Path) -> None:
    put(nginx, "rows.csv", ROWS)
    assert body(line.url("rows.csv"), tmp_path) == ROWS
    assert b"accept-encoding: identity" in line.heads[0].lower()


def test_what_a_server_packs_all_the_same_is_stored_as_it_is(nginx: Nginx, tmp_path: Path) -> None:
    put(nginx, "rows.csv.gz", gzip.compress(ROWS))
    assert gzip.decompress(body(nginx.url("packed/rows.csv.gz"), tmp_path)) == ROWS


@pytest.mark.parametrize(("path", "status"), [("nothing.csv", 404), ("gone", 410)])
def test_what_is_not_there_is_told_at_once(
    nginx: Nginx, line: Cut, tmp_path: Path, path: str, status: int
) -> None:
    with pytest.raises(NotFoundError) as caught:
        fetched(line.url(path), tmp_path)
    assert caught.value.why.startswith(f"the server answered {status}")
    assert len(line.heads) == 1


def test_a_server_with_a_certificate_of_ones_own(
    nginx: Nginx, trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(nginx, "data.csv", b"one\n")
    url = f"https://127.0.0.1:{nginx.tls}/data.csv"
    with pytest.raises(UnreachableError) as caught:
        fetched(url, tmp_path)
    assert "CERTIFICATE_VERIFY_FAILED" in caught.value.why
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    http.certificates.cache_clear()
    try:
        assert body(url, tmp_path) == b"one\n"
        assert body(nginx.url("safe"), tmp_path, headers=SECRETS, env=KEY) == b"|"
    finally:
        monkeypatch.undo()
        http.certificates.cache_clear()
