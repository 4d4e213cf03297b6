"""Tokens of a server, which permit reading, writing or creating the datasets that they name.

Only the hash of a token is stored, with its permissions, in a file that only its owner may read.  A
token is 32 random bytes, so a plain hash reveals nothing about it.
"""

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from odfbuild.errors import StateError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.state.files.disk import Disk, pending, read_file
from odfbuild.state.files.lock import locked
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

PREFIX = "odfb_"
_LONGEST = 256
_ANY, _ANY_OF_ACCOUNTS = re.compile(r"\*+"), re.compile(r"\*+(?:/\*+)?")
_PATTERN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-*/")


class TokenScope(Enum):
    """A permission of a token."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"


class InvalidTokenError(StateError):
    """A token cannot be made with these options."""

    code = "invalid-token"


class ServerTokenFileError(StateError):
    """The token file of a server cannot be used."""

    code = "server-token-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptToken:
    """The stored form of a token; `patterns` are names of datasets, in which `*` is anything.

    `account` is the account whose datasets it may create and write on a server of several.
    """

    id: str
    digest: str
    label: str
    scopes: frozenset[TokenScope]
    patterns: tuple[str, ...]
    account: str | None
    created: datetime
    expires: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token has not expired."""
        return self.expires is None or now < self.expires

    def allows(self, scope: TokenScope, alias: DatasetAlias) -> bool:
        """Return whether the token has a permission for a dataset of this name."""
        if scope not in self.scopes:
            return False
        if scope is not TokenScope.READ and None not in (self.account, alias.account):
            is_own = str(self.account).lower() == str(alias.account).lower()
            return is_own and matches(self.patterns, alias)
        return matches(self.patterns, alias)

    def reads_all(self, *, is_multi_tenant: bool) -> bool:
        """Return whether the token permits to read any dataset of a server, whatever its name.

        On a server of several tenants, where each name has an account, `*/*` is any.
        """
        any_name = _ANY_OF_ACCOUNTS if is_multi_tenant else _ANY
        return TokenScope.READ in self.scopes and any(map(any_name.fullmatch, self.patterns))


def matches(patterns: Sequence[str], alias: DatasetAlias) -> bool:
    """Return whether a name matches one of several patterns, ignoring case."""
    return any(fnmatchcase(alias.folded, each.lower()) for each in patterns)


class TokenFile:
    """The tokens of one server; the file is read again only if it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark: tuple[int, int, int] | None = None
        self._tokens: tuple[KeptToken, ...] = ()

    def all(self) -> tuple[KeptToken, ...]:
        """Return all tokens, oldest first.  Raises ServerTokenFileError."""
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return ()
        mark = (found.st_ino, found.st_mtime_ns, found.st_size)
        if mark != self._mark:
            self._tokens = self._read(found)
            self._mark = mark
        return self._tokens

    def find(self, token: str, now: datetime) -> KeptToken | None:
        """Return the stored form of a token; None if it is not known, or expired."""
        if len(token) > _LONGEST:
            return None
        digest = _digest(token)
        for each in self.all():
            if secrets.compare_digest(each.digest, digest):
                return each if each.is_valid(now) else None
        return None

    def is_active(self, kept: KeptToken, now: datetime) -> bool:
        """Return whether a token was not revoked, and has not expired."""
        return kept in self.all() and kept.is_valid(now)

    def new(
        self,
        *,
        label: str,
        scopes: frozenset[TokenScope],
        patterns: tuple[str, ...],
        account: str | None,
        created: datetime,
        expires: datetime | None,
    ) -> tuple[str, KeptToken]:
        """Make a token; return it, which is not stored, and its stored form.

        Raises InvalidTokenError and ServerTokenFileError.
        """
        _check(label, patterns, account, created, expires)
        token = PREFIX + secrets.token_urlsafe(32)
        digest = _digest(token)
        kept = KeptToken(
            id=digest[:12],
            digest=digest,
            label=label,
            scopes=scopes,
            patterns=patterns,
            account=account,
            created=created,
            expires=expires,
        )
        with self._changing():
            self._write((*self.all(), kept))
        return token, kept

    def revoke(self, id: str) -> KeptToken:
        """Revoke the token of an id, or of the only label or beginning of an id that fits.

        Raises InvalidTokenError.
        """
        with self._changing():
            kept = self.all()
            found = [each for each in kept if id in (each.id, each.label)] or [
                each for each in kept if len(id) >= 4 and each.id.startswith(id)
            ]
            if len(found) != 1:
                how = "no token" if not found else f"{len(found)} tokens"
                raise InvalidTokenError(
                    what=f"{how} called {excerpt(id, 100)!r}",
                    why="one token is revoked at a time, by its id or its label",
                    fix="odfbuild token list shows both",
                )
            self._write(tuple(each for each in kept if each is not found[0]))
        return found[0]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with locked(self.path.parent, timeout=10.0):
            self._mark = None
            yield

    def _write(self, tokens: Sequence[KeptToken]) -> None:
        disk = Disk()
        temporary = pending(self.path.parent)
        text = json.dumps({"tokens": [_form(each) for each in tokens]}, indent=2) + "\n"
        disk.write(temporary, text.encode(), 0o600)
        disk.rename(temporary, self.path)
        disk.sync(self.path.parent)
        self._mark = None

    def _read(self, found: os.stat_result) -> tuple[KeptToken, ...]:
        if found.st_mode & 0o077 and stat.S_ISREG(found.st_mode):
            raise ServerTokenFileError(
                what=f"{self.path} has mode {found.st_mode & 0o777:04o}",
                why="other users may read or change it, and so the permissions in it",
                fix=f"look at it with odfbuild token list, then: chmod 600 {self.path}",
            )
        try:
            form = parse_json(read_file(self.path) or b"")
            return tuple(_kept(each) for each in form.get("tokens", ()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServerTokenFileError(
                what=f"{self.path} cannot be read: {error}",
                why="it contains the permissions of each token of the server",
                fix="restore it from a copy, or delete it, which revokes all tokens",
            ) from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _check(
    label: str,
    patterns: tuple[str, ...],
    account: str | None,
    created: datetime,
    expires: datetime | None,
) -> None:
    why = None
    if not label or len(label) > 100 or not label.isprintable():
        why = "a label is 1 to 100 printable characters"
    elif not patterns or any(not each or set(each.lower()) - _PATTERN for each in patterns):
        why = "a pattern is a name of datasets, such as `weather.*` or `team/*`"
    elif account is not None and not is_name(account):
        why = "an account is letters, digits, inner dots and dashes"
    elif expires is not None and expires <= created:
        why = "it would have expired already"
    if why is not None:
        raise InvalidTokenError(
            what="such a token cannot be made",
            why=why,
            fix="odfbuild token new --help shows the options",
        )


def _form(kept: KeptToken) -> dict[str, Any]:
    return {
        "id": kept.id,
        "sha256": kept.digest,
        "label": kept.label,
        "scopes": sorted(each.value for each in kept.scopes),
        "datasets": list(kept.patterns),
        "account": kept.account,
        "created": kept.created.isoformat(),
        "expires": None if kept.expires is None else kept.expires.isoformat(),
    }


def _kept(form: dict[str, Any]) -> KeptToken:
    """Return a token of its JSON form.  Raises KeyError, TypeError or ValueError."""
    expires = form["expires"]
    digest = str(form["sha256"])
    if len(digest) != 64:
        raise ValueError("a hash in it is cut off")
    account = form["account"]
    return KeptToken(
        id=str(form["id"]),
        digest=digest,
        label=str(form["label"]),
        scopes=frozenset(TokenScope(each) for each in form["scopes"]),
        patterns=tuple(str(each) for each in form["datasets"]),
        account=None if account is None else str(account),
        created=_time(form["created"]),
        expires=None if expires is None else _time(expires),
    )


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
