"""Tokens are kept as hashes, in a file for their owner alone, and are good for what they name."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.tokens import (
    InvalidTokenError,
    KeptToken,
    ServerTokenFileError,
    TokenFile,
    TokenScope,
)

NOW = datetime(2026, 8, 1, tzinfo=UTC)
READ, WRITE, CREATE = TokenScope.READ, TokenScope.WRITE, TokenScope.CREATE


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json")


def new(
    tokens: TokenFile,
    *scopes: TokenScope,
    label: str = "ci",
    patterns: tuple[str, ...] = ("*",),
    account: str | None = None,
    expires: datetime | None = None,
) -> tuple[str, KeptToken]:
    return tokens.new(
        label=label,
        scopes=frozenset(scopes or {READ}),
        patterns=patterns,
        account=account,
        created=NOW,
        expires=expires,
    )


def alias(text: str) -> DatasetAlias:
    return DatasetAlias.parse(text)


@pytest.mark.holds("serving-tokens")
def test_a_token_is_found_again_and_is_kept_nowhere(tokens: TokenFile) -> None:
    token, kept = new(tokens)
    assert tokens.find(token, NOW) == kept == TokenFile(tokens.path).find(token, NOW)
    assert token.removeprefix("odfb_") not in tokens.path.read_text()
    assert tokens.find(token + "x", NOW) is None
    assert tokens.find("x" * 10_000, NOW) is None
    assert tokens.find("\ud800", NOW) is None


@pytest.mark.holds("serving-tokens")
def test_the_file_is_for_its_owner_alone(tokens: TokenFile) -> None:
    new(tokens)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert tokens.path.parent.stat().st_mode & 0o777 == 0o700
    tokens.path.chmod(0o640)
    with pytest.raises(ServerTokenFileError, match="0640"):
        TokenFile(tokens.path).all()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"tokens": [1]}', '{"tokens": [{"id": "x"}]}', '{"tokens": 5}']
)
def test_a_file_that_is_damaged_lets_nobody_in(tokens: TokenFile, text: str) -> None:
    new(tokens)
    tokens.path.write_text(text)
    with pytest.raises(ServerTokenFileError):
        TokenFile(tokens.path).find("odfb_x", NOW)


def test_a_link_in_the_place_of_the_file_is_refused(tokens: TokenFile, tmp_path: Path) -> None:
    new(tokens)
    aside = tmp_path / "aside"
    tokens.path.rename(aside)
    tokens.path.symlink_to(aside)
    with pytest.raises(ServerTokenFileError):
        TokenFile(tokens.path).all()


def test_a_token_is_good_until_it_expires(tokens: TokenFile) -> None:
    token, _ = new(tokens, expires=NOW + timedelta(hours=1))
    assert tokens.find(token, NOW + timedelta(minutes=59)) is not None
    assert tokens.find(token, NOW + timedelta(hours=1)) is None


def test_a_token_that_was_taken_back_is_not_good(tokens: TokenFile) -> None:
    token, kept = new(tokens)
    other, _ = new(tokens, label="other")
    running = TokenFile(tokens.path)
    assert running.find(token, NOW) is not None
    tokens.revoke(kept.id)
    assert running.find(token, NOW) is None
    assert running.find(other, NOW) is not None


def test_a_token_is_taken_back_by_what_names_it_alone(tokens: TokenFile) -> None:
    new(tokens)
    new(tokens)
    for name in ("ci", "nobody", "", "a"):
        with pytest.raises(InvalidTokenError):
            tokens.revoke(name)
    assert len(tokens.all()) == 2


def test_a_token_allows_its_scopes_on_its_names(tokens: TokenFile) -> None:
    _, kept = new(tokens, READ, WRITE, patterns=("team/*", "rates.*"))
    assert kept.allows(READ, alias("Team/anything"))
    assert kept.allows(WRITE, alias("rates.daily"))
    assert not kept.allows(CREATE, alias("rates.daily"))
    assert not kept.allows(READ, alias("teams/rates"))
    assert not kept.allows(READ, alias("other"))


def test_a_token_of_an_account_writes_below_it_alone_and_reads_what_it_names(
    tokens: TokenFile,
) -> None:
    _, kept = new(tokens, READ, WRITE, CREATE, account="alice")
    assert kept.allows(WRITE, alias("Alice/x"))
    assert kept.allows(CREATE, alias("alice/x"))
    assert not kept.allows(WRITE, alias("bob/x"))
    assert not kept.allows(CREATE, alias("bob/x"))
    assert kept.allows(READ, alias("bob/x"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"label": ""},
        {"label": "a\nb"},
        {"label": "x" * 101},
        {"patterns": ()},
        {"patterns": ("",)},
        {"patterns": ("a b",)},
        {"patterns": ("[a-z]",)},
        {"account": "a/b"},
        {"expires": NOW},
    ],
    ids=str,
)
def test_what_cannot_be_meant_makes_no_token(tokens: TokenFile, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidTokenError):
        new(tokens, **wrong)  # type: ignore[arg-type]
    assert tokens.all() == ()


def test_what_is_kept_says_what_a_token_is_good_for(tokens: TokenFile) -> None:
    _, kept = new(tokens, READ, CREATE, account="alice", expires=NOW + timedelta(days=1))
    assert json.loads(tokens.path.read_text())["tokens"] == [
        {
            "id": kept.digest[:12],
            "sha256": kept.digest,
            "label": "ci",
            "scopes": ["create", "read"],
            "datasets": ["*"],
            "account": "alice",
            "created": "2026-08-01T00:00:00+00:00",
            "expires": "2026-08-02T00:00:00+00:00",
        }
    ]


@pytest.mark.parametrize("is_multi_tenant", [False, True])
@given(st.text("*/a.", min_size=1, max_size=4))
def test_a_token_reads_all_if_its_pattern_matches_every_name(
    is_multi_tenant: bool, pattern: str
) -> None:
    """A pattern with a letter or a dot does not match these names, and `*` alone matches both."""
    alias = DatasetAlias.parse("x/y" if is_multi_tenant else "x")
    token = KeptToken(
        id="1",
        digest="0" * 64,
        label="x",
        scopes=frozenset({TokenScope.READ}),
        patterns=(pattern,),
        account=None,
        created=NOW,
        expires=None,
    )
    expected = token.allows(TokenScope.READ, alias)
    assert token.reads_all(is_multi_tenant=is_multi_tenant) == expected
