"""Access control: the caller and what he may do; a refusal is a status of HTTP."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha3_256
from pathlib import Path
from threading import Lock

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
    """A request is refused with a status of HTTP; its text is for who asked.

    A `code` tells refusals of one status apart, `fix` says how to go on, where that is known.
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
    """Who is asking: who has a token, or anybody."""

    token: KeptToken | None = None

    @property
    def name(self) -> str:
        """Return who it is, for the log."""
        return "-" if self.token is None else self.token.label

    @property
    def account(self) -> str | None:
        """Return the account that it acts for."""
        return None if self.token is None else self.token.account


class PrivateDatasets:
    """The datasets that were pushed as private ones: a file with their ids."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def __contains__(self, id: object) -> bool:
        return str(id) in self._read()

    def add(self, id: DatasetId) -> None:
        """Note that a dataset is private."""
        with self._lock:
            self._write(self._read() | {str(id)})

    def discard(self, id: DatasetId) -> None:
        """Note that a dataset is public."""
        with self._lock:
            if str(id) in (known := self._read()):
                self._write(known - {str(id)})

    def _read(self) -> frozenset[str]:
        data = read_file(self._path)
        return frozenset() if data is None else frozenset(parse_json(data)["private"])

    def _write(self, ids: frozenset[str]) -> None:
        import json

        disk = Disk()
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        near = pending(self._path.parent)
        disk.write(near, json.dumps({"private": sorted(ids)}).encode(), 0o600)
        disk.rename(near, self._path)


class Access:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.tokens = TokenFile(settings.tokens)
        self.private = PrivateDatasets(settings.tokens.with_name("private.json"))

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return who sent headers.  Raises AccessError (401) of a token that is not valid."""
        given = headers.get("authorization")
        if given is None:
            return Caller()
        if not given[: len(_BEARER)].lower() == _BEARER:
            raise AccessError(401, "A bearer token is wanted.")
        kept = self.tokens.find(given[len(_BEARER) :].strip(), datetime.now(UTC))
        if kept is None:
            raise AccessError(401, "The token is not known here, or has expired.")
        return Caller(kept)

    def sees(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> bool:
        """Say whether somebody may read a dataset."""
        if caller.token is not None and caller.token.allows(TokenScope.READ, alias):
            return True
        return self._settings.anonymous_read and id is not None and id not in self.private

    def check_read(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> None:
        """Raise AccessError if somebody may not read a dataset: 401 or, as if it were not there,
        404.

        Of names that are pushed to by signature nobody hears more than of one that is free.
        """
        if not self.takes_signed(alias):
            self.check_known(caller)
        if id is None or not self.sees(caller, alias, id):
            raise AccessError(404, "There is no such dataset.")

    def check_known(self, caller: Caller) -> None:
        """Raise AccessError (401) if nobody reads without a token, and there is none."""
        if caller.token is None and not self._settings.anonymous_read:
            raise AccessError(401, "A token is needed.")

    def writes(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> bool:
        """Say whether somebody has a token to push to a name; `id` is None if it is new."""
        scope = TokenScope.CREATE if id is None else TokenScope.WRITE
        return caller.token is not None and caller.token.allows(scope, alias)

    def check_write(self, caller: Caller, alias: DatasetAlias, id: DatasetId | None) -> None:
        """Raise AccessError if somebody may not push to a name; `id` is None if it is new.

        Who pushes by signature is let in here, and judged when the signature is there.
        """
        if self.writes(caller, alias, id) or self.takes_signed(alias):
            return
        if caller.token is None:
            raise AccessError(401, "A token is needed to push.")
        if id is not None and not self.sees(caller, alias, id):
            raise AccessError(404, "There is no such dataset.")
        verb = "create" if id is None else "write"
        raise AccessError(403, f"The token does not allow to {verb} {alias}.")

    def check_still(self, caller: Caller, alias: DatasetAlias) -> None:
        """Raise AccessError (401) if what let somebody push to a name was taken back meanwhile."""
        self.check_token(caller)
        if caller.token is None and not self.takes_signed(alias):
            raise AccessError(401, "A token is needed to push.")

    def check_token(self, caller: Caller) -> None:
        """Raise AccessError (401) of a token that was taken back, or has expired, meanwhile."""
        if caller.token is not None and not self.tokens.still_has(caller.token, datetime.now(UTC)):
            raise AccessError(401, "The token was revoked, or has expired.")

    def takes_signed(self, alias: DatasetAlias) -> bool:
        """Say whether a dataset may be pushed to by signature alone."""
        return matches(self._settings.accept_signed, alias)

    def note(self, id: DatasetId, visibility: Visibility) -> None:
        """Note who may see a dataset that a push made."""
        if visibility is Visibility.PRIVATE:
            self.private.add(id)
        else:
            self.private.discard(id)


def check_version(headers: Mapping[str, str]) -> None:
    """Raise AccessError (400) of a client of another version of the smart protocol."""
    given = headers.get(VERSION_HEADER)
    if given is None:
        raise AccessError(400, f"The header {VERSION_HEADER} is missing.")
    if not given.isascii() or not given.isdigit():
        raise AccessError(400, f"The header {VERSION_HEADER} is no number.")
    if given != VERSION:
        raise AccessError(400, "Incompatible client version")


def account_id(name: str) -> str:
    """Return the id of an account, which its name gives; there is no key behind it."""
    return str(DatasetId(sha3_256(f"account:{name.lower()}".encode()).digest()))
