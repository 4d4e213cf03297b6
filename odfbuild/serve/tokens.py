"""Tokens of a server, which grant reading, writing or creating of the datasets that they name.

Of a token only its hash is kept, with what it is good for, in a file that nobody but its owner may
read.  A token is 32 random bytes, so a plain hash of it says nothing about it.
"""

import hashlib
import json
import os
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
_PATTERN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-*/")


class TokenScope(Enum):
    """What a token allows."""

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
    """What is kept of a token; `patterns` are names of datasets, where `*` is anything.

    `account` is whose datasets it creates and writes on a server of several.
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
        """Say whether it has not expired."""
        return self.expires is None or now < self.expires

    def allows(self, scope: TokenScope, alias: DatasetAlias) -> bool:
        """Say whether it allows something for a dataset of this name."""
        if scope not in self.scopes:
            return False
        if scope is not TokenScope.READ and None not in (self.account, alias.account):
            is_own = str(self.account).lower() == str(alias.account).lower()
            return is_own and matches(self.patterns, alias)
        return matches(self.patterns, alias)

    def reads_all(self) -> bool:
        """Say whether it allows reading of any dataset, whatever its name."""
        return TokenScope.READ in self.scopes and any(set(each) == {"*"} for each in self.patterns)


def matches(patterns: Sequence[str], alias: DatasetAlias) -> bool:
    """Say whether a name fits one of several patterns, in any case."""
    return any(fnmatchcase(alias.folded, each.lower()) for each in patterns)


class TokenFile:
    """The tokens of one server; what is read is remembered while the file is the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark: tuple[int, int, int] | None = None
        self._tokens: tuple[KeptToken, ...] = ()

    def all(self) -> tuple[KeptToken, ...]:
        """Return what is kept, in the order in which it was made.  Raises ServerTokenFileError."""
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
        """Return what is kept of a token; None if it is not known, or expired."""
        if len(token) > _LONGEST:
            return None
        digest = _digest(token)
        for each in self.all():
            if secrets.compare_digest(each.digest, digest):
                return each if each.is_valid(now) else None
        return None

    def still_has(self, kept: KeptToken, now: datetime) -> bool:
        """Say whether a token that was found is still there, and has not expired."""
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
        """Make a token; return it, which is kept nowhere, and what is kept of it.

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
        """Take back the token of an id, or of the only label or beginning of an id that fits.

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
        near = pending(self.path.parent)
        text = json.dumps({"tokens": [_form(each) for each in tokens]}, indent=2) + "\n"
        disk.write(near, text.encode(), 0o600)
        disk.rename(near, self.path)
        disk.sync(self.path.parent)
        self._mark = None

    def _read(self, found: os.stat_result) -> tuple[KeptToken, ...]:
        if found.st_mode & 0o077 and stat.S_ISREG(found.st_mode):
            raise ServerTokenFileError(
                what=f"{self.path} has mode {found.st_mode & 0o777:04o}",
                why="who may write to it could give themselves any right",
                fix=f"look at it with odfbuild token list, then: chmod 600 {self.path}",
            )
        try:
            form = parse_json(read_file(self.path) or b"")
            return tuple(_kept(each) for each in form.get("tokens", ()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServerTokenFileError(
                what=f"{self.path} cannot be read: {error}",
                why="it holds what each token of the server is good for",
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
        why = "a label is 1 to 100 characters that can be printed"
    elif not patterns or any(not each or set(each.lower()) - _PATTERN for each in patterns):
        why = "a pattern is a name of datasets, such as `weather.*` or `team/*`"
    elif account is not None and not is_name(account):
        why = "an account is letters, digits, inner dots and dashes"
    elif expires is not None and expires <= created:
        why = "it would have expired already"
    if why is not None:
        raise InvalidTokenError(
            what="no such token can be made",
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
    """Read what is kept of a token.  Raises KeyError, TypeError or ValueError."""
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
