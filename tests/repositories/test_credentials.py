"""Tokens of repositories: whatever they hold, and wherever they come from, no text has them.

Tokens are drawn from a grammar, with what a hand or a file of two lines puts into them; they stand
in a variable or in the file of tokens; and a server repeats what it was sent in every part of an
answer that is shown or kept.
"""

import io
import logging
import string
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.errors import InternalError, OdfBuildError
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories import credentials
from odfbuild.repositories.catalogue import entries, find_alias
from odfbuild.repositories.credentials import (
    InvalidTokenVariableError,
    TokenFileError,
    token_for,
    variable_of,
)
from odfbuild.repositories.protocol import ChainSource, ObjectFile
from odfbuild.repositories.remotes import open_repository
from odfbuild.texts.redaction import redacted
from tests.repositories.tokens import is_free_of, keep
from tests.support.effort import examples
from tests.support.servers.http import Asked, Page, Server, serving

HASH = sha3_256(b"x")
_PLAIN = string.ascii_letters + string.digits + "-._~+/="
_WRONG = "\n\r\t \x0b\x0c\x85\u2028\x1b\x7fäß\u200b\udcff\U0001f511\"'"


def words(least: int = 12) -> st.SearchStrategy[str]:
    return st.text(_PLAIN, min_size=least, max_size=60)


GOOD = words() | words().map(lambda each: f'odfb_"{each}%:,\\')
BAD = st.tuples(words(6), st.text(_WRONG, min_size=1, max_size=3), words(6)).map("".join)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def repeats(page: Callable[[str], Page]) -> Callable[[Asked], Page]:
    """Return what answers with the token of the request."""
    return lambda asked: page(asked.headers.get("authorization", "").removeprefix("Bearer "))


ECHOES: dict[str, Callable[[str], Page]] = {
    **{
        f"body of {status}": lambda token, status=status: Page(  # type: ignore[misc]
            status=status, body=f"you sent {token}\n".encode()
        )
        for status in (200, 400, 401, 403, 404, 500)
    },
    "cut": lambda token: Page(status=401, body=b"." * 1990 + token.encode() * 9),
    "redirect": lambda token: Page(status=302, headers={"Location": f"ftp://h/{quote(token)}"}),
    "redirect to a port": lambda token: Page(
        status=302, headers={"Location": f"http://h:{quote(token, '')}/"}
    ),
    "tag": lambda token: Page(body=str(HASH).encode(), headers={"ETag": f'"{token}"'}),
    "name": lambda token: Page(body=f'{{"datasetName": "{token}", "owner": 1}}'.encode()),
    "link": lambda token: Page(body=str(HASH).encode() + token.encode()),
}


def asks(source: ChainSource) -> Iterator[Callable[[], object]]:
    """Yield each question to a dataset."""
    yield source.head
    yield source.head
    yield lambda: list(source.blocks(HASH, None))
    yield lambda: source.attestation(HASH)

    def read() -> None:
        with source.read(ObjectFile("data", HASH, 10), 3) as pieces:
            list(pieces)

    yield read


def said_of(error: BaseException) -> str:
    """Return all that can be printed of an error."""
    texts = [str(error), redacted("".join(traceback.format_exception(error)))]
    if isinstance(error, OdfBuildError):
        texts += [error.what, error.why, error.fix, repr(error.diagnostics())]
    return "\n".join(texts)


@pytest.mark.holds("server-token")
@settings(
    max_examples=examples(20, 200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    token=GOOD,
    scheme=st.sampled_from(["", "odf+"]),
    place=st.sampled_from(["variable", "file"]),
    how=st.sampled_from(sorted(ECHOES)),
)
def test_what_a_server_repeats_of_a_token_is_not_shown(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    how: str,
    token: str,
    scheme: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    monkeypatch.setattr(server, "answer", repeats(ECHOES[how]))
    url = f"{scheme}{server.url}/"
    keep(tmp_path, monkeypatch, url, token, place)
    assert token_for(url, "srv") == token
    repository = open_repository(RepositorySettings(name="srv", url=url))
    questions = [
        lambda: entries(repository),
        lambda: find_alias(repository, DatasetId(HASH.digest)),
        *asks(repository.dataset(DatasetAlias.parse("acme/x"))),
    ]
    with redirect_stderr(io.StringIO()) as printed:
        for ask in questions:
            try:
                ask()
            except OdfBuildError as error:
                assert not isinstance(error, InternalError)
                assert is_free_of(said_of(error), token)
    assert is_free_of(printed.getvalue() + caplog.text, token)


@pytest.mark.holds("server-token")
@pytest.mark.parametrize("place", ["variable", "file"])
@settings(
    max_examples=examples(20, 200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(token=BAD, repository=st.sampled_from(["srv", "other"]))
def test_what_cannot_be_a_token_is_refused_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, token: str, repository: str
) -> None:
    """Quotes may be a part of one; all else that is wrong in it is refused, and never sent."""
    keep(tmp_path, monkeypatch, "https://h.example", token, place)
    try:
        found = token_for("https://h.example/x/", repository)
    except (InvalidTokenVariableError, TokenFileError) as error:
        assert is_free_of(said_of(error), token)
        where = variable_of("srv") if place == "variable" else str(tmp_path)
        assert where in f"{error.what}{error.fix}"
    else:
        assert found is None or (found.isascii() and found.isprintable() and " " not in found)


def test_a_line_end_behind_a_token_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable_of("my-hub"), " t0ken-of-mine\r\n")
    assert token_for("https://h.example", "my-hub") == "t0ken-of-mine"


@pytest.mark.parametrize(
    "line",
    ["https://h:99999 abc", "https://[::1 abc", "https://h", "ftp://h abc", "https://xn--a a"],
)
def test_a_line_that_is_no_origin_and_token_is_named_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    keep(tmp_path, monkeypatch, "", "", "file")
    (tmp_path / "odfbuild" / credentials.FILE).write_text(f"# mine\n\n{line}\n")
    with pytest.raises(TokenFileError, match="line 3 is not an origin"):
        token_for("https://h.example", None)
