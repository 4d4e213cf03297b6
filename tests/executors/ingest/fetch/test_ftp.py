"""Files over FTP, from a real server: what is news, what goes on, and what is never sent."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch import ftp as module
from odfbuild.executors.ingest.fetch.request import NotFoundError, Request, UnreachableError
from odfbuild.executors.ingest.fetch.source import Fetched, UpToDate, fetch
from odfbuild.odf.events import EventTimeSourceFromSystemTime, FetchStepUrl, SourceState
from odfbuild.odf.timestamp import Timestamp
from tests.support.servers.ftp import Ftp, certificate, serving_ftp

NOW = Timestamp.parse("2024-05-06T07:08:09Z")
CHANGED = Timestamp.parse("2024-01-02T03:04:05Z")
BODY = b"".join(b"%d,row\n" % i for i in range(60_000))
LOGIN = {"LOGIN": "reader", "PASSWORD": "p@ss/word"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda seconds: None)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    (folder / "in").mkdir(parents=True)
    put(folder / "in" / "data.csv", BODY)
    return folder


@pytest.fixture
def server(files: Path) -> Iterator[Ftp]:
    with serving_ftp(files) as running:
        yield running


def put(path: Path, body: bytes, changed: Timestamp = CHANGED) -> None:
    path.write_bytes(body)
    os.utime(path, ns=(changed.nanos, changed.nanos))


def fetched(
    url: str | FetchStepUrl,
    folder: Path,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched | UpToDate:
    step = url if isinstance(url, FetchStepUrl) else FetchStepUrl(url=url)
    return fetch(step, state, now=NOW, project_dir=folder, cache=folder / "cache", env=env or {})


def news(url: str | FetchStepUrl, folder: Path, **more: Mapping[str, str]) -> Fetched:
    found = fetched(url, folder, **more)  # type: ignore[arg-type]
    assert isinstance(found, Fetched)
    return found


def left(folder: Path) -> set[str]:
    return {each.name for each in (folder / "cache").iterdir()} - {"version.json"}


def test_a_file_is_fetched_with_its_time(server: Ftp, tmp_path: Path) -> None:
    found = news(server.url("in/data.csv"), tmp_path)
    assert found.path.read_bytes() == BODY
    assert found.temporary
    assert found.event_time == CHANGED
    assert found.state == SourceState("default", "odf/last-modified", str(CHANGED))
    by_clock = FetchStepUrl(
        url=server.url("in/data.csv"), event_time=EventTimeSourceFromSystemTime()
    )
    assert news(by_clock, tmp_path).event_time == NOW


def test_what_is_unchanged_is_not_fetched(server: Ftp, files: Path, tmp_path: Path) -> None:
    state = news(server.url("in/data.csv"), tmp_path).state
    assert fetched(server.url("in/data.csv"), tmp_path, state) == UpToDate()
    assert len(server.said("RETR")) == 1
    put(files / "in" / "data.csv", b"older\n", Timestamp.parse("2020-01-01T00:00:00Z"))
    found = fetched(server.url("in/data.csv"), tmp_path, state)
    assert isinstance(found, Fetched)
    assert found.path.read_bytes() == b"older\n"


@pytest.mark.parametrize("lacks", [["MDTM"], ["SIZE"], ["MDTM", "SIZE"]], ids=" ".join)
def test_a_server_that_says_less_is_read_all_the_same(
    server: Ftp, tmp_path: Path, lacks: list[str]
) -> None:
    server.lacks = set(lacks)
    found = news(server.url("in/data.csv"), tmp_path)
    assert found.path.read_bytes() == BODY
    assert (found.state is None) == ("MDTM" in lacks)


def test_a_download_that_breaks_off_goes_on(server: Ftp, tmp_path: Path) -> None:
    server.cuts = [100_000, 100_000]
    assert news(server.url("in/data.csv"), tmp_path).path.read_bytes() == BODY
    assert len(server.said("RETR")) == 3
    starts = [int(each) for each in server.said("REST")]
    assert 0 < starts[0] < starts[1] < len(BODY)


def test_a_later_run_goes_on_too(server: Ftp, tmp_path: Path) -> None:
    server.cuts = [50_000, 0, 0, 0, 0]
    with pytest.raises(UnreachableError):
        fetched(server.url("in/data.csv"), tmp_path)
    assert left(tmp_path) == {"fetched-data.csv.part", "fetched-data.csv.part.json"}
    server.cuts = []
    server.asked.clear()
    assert news(server.url("in/data.csv"), tmp_path).path.read_bytes() == BODY
    assert len(server.said("REST")) == 1
    assert left(tmp_path) == {"fetched-data.csv"}


def test_another_version_is_fetched_from_its_start(
    server: Ftp, files: Path, tmp_path: Path
) -> None:
    server.cuts = [50_000, 0, 0, 0, 0]
    with pytest.raises(UnreachableError):
        fetched(server.url("in/data.csv"), tmp_path)
    put(files / "in" / "data.csv", BODY.swapcase(), NOW)
    server.cuts = []
    server.asked.clear()
    assert news(server.url("in/data.csv"), tmp_path).path.read_bytes() == BODY.swapcase()
    assert server.said("REST") == []


def test_a_server_that_cannot_go_on_starts_again(server: Ftp, tmp_path: Path) -> None:
    server.cuts = [100_000]
    server.lacks = {"REST"}
    assert news(server.url("in/data.csv"), tmp_path).path.read_bytes() == BODY


def test_a_busy_server_is_asked_again(server: Ftp, tmp_path: Path) -> None:
    server.busy = 2
    assert news(server.url("in/data.csv"), tmp_path).path.read_bytes() == BODY
    server.busy = 9
    with pytest.raises(UnreachableError) as caught:
        fetched(server.url("in/data.csv"), tmp_path)
    assert caught.value.why == "the server says: 450 Busy."
    assert server.busy == 5


def test_a_file_that_is_not_there_is_told_at_once(server: Ftp, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        fetched(server.url("in/nothing.csv"), tmp_path)
    assert caught.value.what.startswith(server.url("in/nothing.csv"))
    assert caught.value.why.startswith("the server says: 550")
    assert len(server.said("RETR")) == 1


def test_user_and_password_come_from_variables_whatever_they_hold(
    server: Ftp, tmp_path: Path
) -> None:
    url = server.url("in/data.csv", login="${{ env.LOGIN }}:${{ env.PASSWORD }}@")
    found = news(url, tmp_path, env=LOGIN)
    assert found.path.read_bytes() == BODY
    assert found.name == server.url("in/data.csv")
    assert server.said("USER") == ["reader"]


def test_a_refused_login_shows_no_password(server: Ftp, tmp_path: Path) -> None:
    url = server.url("in/data.csv", login="reader:${{ env.PASSWORD }}@")
    with pytest.raises(UnreachableError) as caught:
        fetched(url, tmp_path, env={"PASSWORD": "hunter2hunter2"})
    error = caught.value
    assert "hunter2" not in error.what + error.why + error.fix
    assert error.why.startswith("the server says: 530")
    assert error.fix == "check user and password of the url, or the variables that give them"
    assert len(server.said("PASS")) == 1


def test_names_are_decoded_and_paths_may_start_at_the_root(
    server: Ftp, files: Path, tmp_path: Path
) -> None:
    put(files / "my data é.csv", b"x\n")
    url = server.url("my%20data%20%C3%A9.csv")
    assert news(url, tmp_path).path.read_bytes() == b"x\n"
    assert news(server.url("/in/data.csv"), tmp_path).path.read_bytes() == BODY
    assert server.said("RETR")[-1] == "/in/data.csv"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a%0d%0aDELE%20b", "the url contains a control character"),
        ("", "the url does not name a file of a server"),
        ("in/", "the url does not name a file of a server"),
    ],
)
def test_a_url_that_is_no_file_is_refused_before_a_connection(
    server: Ftp, tmp_path: Path, path: str, why: str
) -> None:
    with pytest.raises(UnreachableError) as caught:
        fetched(server.url(path), tmp_path)
    assert caught.value.why == why
    assert server.asked == []


@pytest.mark.parametrize("url", ["ftp:x", "ftp://", "ftp://h:port/x", "ftp://[::1/x"])
def test_a_url_that_is_none_is_unreachable(tmp_path: Path, url: str) -> None:
    with pytest.raises(UnreachableError):
        fetched(url, tmp_path)


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError) as caught:
        fetched("ftp://127.0.0.1:1/x", tmp_path)
    assert caught.value.why == "Connection refused"
    assert left(tmp_path) == set()


def test_the_beginning_of_a_file_is_enough_to_look_at(server: Ftp) -> None:
    request = Request(url=server.url("in/data.csv"), name="it")
    assert module.beginning(request, 1000) == (BODY[:1000], False)
    assert module.beginning(request, 1 << 20) == (BODY, True)
    with pytest.raises(NotFoundError):
        module.beginning(Request(url=server.url("in/none.csv"), name="it"), 1000)
    server.busy = 1
    with pytest.raises(UnreachableError):
        module.beginning(request, 1000)


@pytest.fixture
def encrypted(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ftp]:
    pem, trusting = certificate(tmp_path)
    monkeypatch.setattr(module, "certificates", lambda: trusting)
    with serving_ftp(files, certificate=pem) as running:
        yield running


def test_ftps_encrypts_login_and_data(encrypted: Ftp, tmp_path: Path) -> None:
    encrypted.cuts = [100_000]
    url = encrypted.url("in/data.csv", "ftps", "reader:p%40ss%2Fword@")
    assert news(url, tmp_path).path.read_bytes() == BODY
    assert encrypted.asked[0] == "AUTH TLS"
    assert encrypted.said("PROT") == ["P", "P"]


def test_a_port_that_is_meant_for_tls_gets_it_from_the_first_byte(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, trusting = certificate(tmp_path)
    monkeypatch.setattr(module, "certificates", lambda: trusting)
    with serving_ftp(files, certificate=pem, implicit=True) as server:
        monkeypatch.setattr(module, "_IMPLICIT", server.port)
        found = news(server.url("in/data.csv", "ftps"), tmp_path)
        assert found.path.read_bytes() == BODY
        assert server.said("AUTH") == []
        assert server.asked[0].startswith("USER")


def test_a_certificate_that_is_not_trusted_ends_it_before_the_login(
    encrypted: Ftp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(UnreachableError) as caught:
        fetched(encrypted.url("in/data.csv", "ftps"), tmp_path)
    assert caught.value.why.startswith("its certificate is not trusted")
    assert encrypted.said("USER") == encrypted.said("PASS") == []


def test_the_port_of_ftps_is_990(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def refuse(address: object, *_: object, **__: object) -> None:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr("odfbuild.executors.ingest.fetch.ftp.socket.create_connection", refuse)
    for url in ("ftps://h/x", "ftp://h/x"):
        with pytest.raises(UnreachableError):
            fetched(url, tmp_path)
    assert set(asked) == {("h", 990), ("h", 21)}


def test_a_server_without_encryption_gets_no_password(server: Ftp, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        fetched(server.url("in/data.csv", "ftps", "reader:secret@"), tmp_path)
    assert server.said("PASS") == []
