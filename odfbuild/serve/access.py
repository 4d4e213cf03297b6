"""Access control: callers and their permissions; a refusal is a status of HTTP."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha3_256
from pathlib import Path
from threading import Lock
from typing import Protocol

from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.smart.messages import VERSION, VERSION_HEADER, Visibility
from odfbuild.serve.settings import ServerSettings
from odfbuild.serve.tokens import KeptToken, TokenFile, TokenScope, matches
from odfbuild.state.files.disk import Disk, pending, read_file
from odfbuild.values import dataclass

_BEARER = "bearer "


class AccessError(Exception):
    """A request is refused with a status of HTTP; its text is for the client.

    `code` distinguishes refusals of one status, `fix` says how to fix the request, if known.
    """

    def __init__(
        self, status: int, text: str, code: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.code = code
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the owner of a token, or anybody."""

    token: KeptToken | None = None

    @property
    def name(self) -> str:
        """Return the caller's name, for the log."""
        return "-" if self.token is None else self.token.label

    @property
    def account(self) -> str | None:
        """Return the account that the caller acts for."""
        return None if self.token is None else self.token.account


class PrivateMarks(Protocol):
    """Which datasets were pushed as private."""

    def __contains__(self, id: object) -> bool: ...

    def add(self, id: DatasetId) -> None:
        """Make a dataset private."""

    def discard(self, id: DatasetId) -> None:
        """Make a dataset public."""

    def ids(self) -> frozenset[DatasetId]:
        """Return all of them."""


def private_datasets(tokens: Path) -> "PrivateDatasets":
    """Return the private datasets of a server, which are beside its tokens."""
    return PrivateDatasets(tokens.with_name("private.json"))


class PrivateDatasets:
    """The datasets that were pushed as private: a file with their ids."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def __contains__(self, id: object) -> bool:
        return str(id) in self._read()

    def add(self, id: DatasetId) -> None:
        """Make a dataset private."""
        with self._lock:
            self._write(self._read() | {str(id)})

    def discard(self, id: DatasetId) -> None:
        """Make a dataset public."""
        with self._lock:
            if str(id) in (known := self._read()):
                self._write(known - {str(id)})

    def ids(self) -> frozenset[DatasetId]:
        """Return all of them."""
        return frozenset(map(DatasetId.parse, self._read()))

    def _read(self) -> frozenset[str]:
        data = read_file(self._path)
        return frozenset() if data is None else frozenset(parse_json(data)["private"])

    def _write(self, ids: frozenset[str]) -> None:
        import json

        disk = Disk()
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        temporary = pending(self._path.parent)
        disk.write(temporary, json.dumps({"private": sorted(ids)}).encode(), 0o600)
        disk.rename(temporary, self._path)


class Access:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings, private: "PrivateMarks | None" = None) -> None:
        self._settings = settings
        self.tokens = TokenFile(settings.tokens)
        self.private = private or private_datasets(settings.tokens)

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller by the headers.  Raises AccessError (401) for an invalid token."""
        given = headers.get("authorization")
        if given is None:
            return Caller()
        if not given[: len(_BEARER)].lower() == _BEARER:
            raise AccessError(401, "A bearer token is needed.")
        kept = self.tokens.find(given[len(_BEARER) :].strip(), datetime.now(UTC))
        if kept is None:
            raise AccessError(401, "The token is not known to this server, or has expired.")
        return Caller(kept)

    def sees(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> bool:
        """Return whether a caller may read a dataset."""
        if caller.token is not None and caller.token.allows(TokenScope.READ, alias):
            return True
        return self._settings.anonymous_read and id is not None and id not in self.private

    def check_read(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> None:
        """Raise AccessError if a caller may not read a dataset: 401, or 404 as if it did not exist.

        For names that may be pushed to by signature it is always 404, as for an unused name.
        """
        if not self.takes_signed(alias):
            self.check_known(caller)
        if id is None or not self.sees(caller, alias, id):
            raise AccessError(404, "There is no such dataset.")

    def check_known(self, caller: Caller) -> None:
        """Raise AccessError (401) if reading needs a token, and there is none."""
        if caller.token is None and not self._settings.anonymous_read:
            raise AccessError(401, "A token is needed.")

    def writes(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> bool:
        """Return whether a caller has a token to push to a name; `id` is None if it is new."""
        return self.creates(caller, alias) if id is None else self.changes(caller, alias)

    def creates(self, caller: Caller, alias: DatasetAlias) -> bool:
        """Return whether a caller has a token to create a dataset of a name."""
        return caller.token is not None and caller.token.allows(TokenScope.CREATE, alias)

    def changes(self, caller: Caller, alias: DatasetAlias) -> bool:
        """Return whether a caller has a token to push to an existing dataset of a name."""
        return caller.token is not None and caller.token.allows(TokenScope.WRITE, alias)

    def check_write(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> None:
        """Raise AccessError if a caller may not push to a name; `id` is None if it is new.

        A push by signature is admitted here, and checked when its signature has arrived.  Who may
        neither read a dataset nor create one of its name is refused as for an unused name.
        """
        if self.writes(caller, alias, id) or self.takes_signed(alias):
            return
        if caller.token is None:
            raise AccessError(401, "A token is needed to push.")
        is_hidden = id is not None and not self.sees(caller, alias, id)
        if is_hidden and self.creates(caller, alias):
            raise AccessError(404, "There is no such dataset.")
        verb = "create" if id is None or is_hidden else "write"
        raise AccessError(403, f"The token does not allow to {verb} {alias}.")

    def check_push_access(self, caller: Caller, alias: DatasetAlias) -> None:
        """Raise AccessError (401) if the permission to push to a name was revoked meanwhile."""
        self.check_token(caller)
        if caller.token is None and not self.takes_signed(alias):
            raise AccessError(401, "A token is needed to push.")

    def check_token(self, caller: Caller) -> None:
        """Raise AccessError (401) for a token that was revoked, or has expired, meanwhile."""
        if caller.token is not None and not self.tokens.is_active(caller.token, datetime.now(UTC)):
            raise AccessError(401, "The token was revoked, or has expired.")

    def takes_signed(self, alias: DatasetAlias) -> bool:
        """Return whether a dataset may be pushed to by signature alone."""
        return matches(self._settings.accept_signed, alias)

    def note(self, id: DatasetId, visibility: Visibility) -> None:
        """Store the visibility of a dataset that a push created."""
        if visibility is Visibility.PRIVATE:
            self.private.add(id)
        else:
            self.private.discard(id)


def check_version(headers: Mapping[str, str]) -> None:
    """Raise AccessError (400) for a client of another version of the smart protocol."""
    given = headers.get(VERSION_HEADER)
    if given is None:
        raise AccessError(400, f"The header {VERSION_HEADER} is missing.")
    if not given.isascii() or not given.isdigit():
        raise AccessError(400, f"The header {VERSION_HEADER} is not a number.")
    if given != VERSION:
        raise AccessError(400, "Incompatible client version")


def account_id(name: str) -> str:
    """Return the id of an account, computed from its name; it belongs to no key."""
    return str(DatasetId(sha3_256(f"account:{name.lower()}".encode()).digest()))
