"""The lock file, odfbuild.lock: packages and inputs pinned by hash, columns of every dataset.

It is made by commands and read by people: sorted, one column a line, so that a pull request shows
what a change does to a schema.  `odfbuild lock` and `odfbuild deps update` write it, and
`odfbuild apply` for inputs that have no entry yet.

Ten thousand of them are a large YAML file.  Whatever looks unusual is left to the strict reader,
which knows the place of everything.
"""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeVar

from odfbuild.errors import Diagnostic, ProjectErrors, ProtocolError, SourceSpan
from odfbuild.host.reading_session import read_shown, unsaved_text
from odfbuild.odf.events import DataSchema
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import ColumnLineError, read_columns
from odfbuild.project.files import refuse_link_out
from odfbuild.project.yaml import Document, decode, read_documents
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.patterns import late_pattern
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_T = TypeVar("_T")

_START = "\nschemas:\n"
_COLUMN = r"(?:[A-Za-z_][A-Za-z0-9_]* [A-Z][A-Za-z0-9_(),<> ]*[A-Za-z0-9_)>]|'[ -&(-~]*')"
_ENTRY = late_pattern(
    r"  (?!(?i:null|true|false):)([A-Za-z][A-Za-z0-9/.-]*):\n"
    r"    definition: (f1620[0-9a-f]{64})\n"
    r"    inputs: (f1620[0-9a-f]{64})\n"
    r"    engine: ([0-9][0-9A-Za-z.+-]*\+[0-9A-Za-z.+-]*)\n"
    rf"(?:    columns:\n((?:    - {_COLUMN}\n)+)"
    r"|    unknown: (the [A-Za-z0-9 ,./-]*[a-z])\n)"
)


def read_entries(text: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the text without its schemas, and these; or the whole text and none.

    Only what the strict reader would take in the same way is taken: all schemas of a file, or none.
    """
    head, found, body = text.partition(_START)
    if not found or not body.isascii() or "\r" in head:
        return text, {}
    entries: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(body):
        entry = _ENTRY.match(body, at)
        if entry is None or entry[1] in entries:
            return text, {}
        entries[entry[1]] = _values(entry)
        at = entry.end()
    return f"{head}\n", entries


def _values(entry: re.Match[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"definition": entry[2], "inputs": entry[3], "engine": entry[4]}
    if entry[6] is not None:
        return {**values, "unknown": entry[6]}
    lines = entry[5][6:-1].split("\n    - ")
    return {**values, "columns": tuple(each.strip("'") for each in lines)}


LOCK_FILE = "odfbuild.lock"
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024

_HEADER = "# Written by odfbuild lock and odfbuild deps update: review it, do not edit it.\n"
_HASH = late_pattern(r"f1620[0-9a-f]{64}")
_COMMIT = late_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PACKAGE_KEYS = ("git", "rev", "commit", "path", "tree")
_INPUT_KEYS = ("id", "head", "repository")
_PIN_AGAIN = "restore it from git, or delete the entry and pin the present state: odfbuild lock"
_SCHEMA_KEYS = ("definition", "inputs", "engine", "columns", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """A package as it was when it was pinned; `tree` is the hash of its files.

    One from a repository has `git` and `commit`, and `rev` if one was asked for; one in a folder
    has `path` alone.
    """

    tree: str
    git: str | None = None
    rev: str | None = None
    commit: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSchema:
    """The data columns of a dataset, and the hashes of what they were worked out from.

    System columns apart but for the event time.  `engine` is the version of the engine that was
    installed then.  Without columns, `unknown` says why they are not known before data is there.
    """

    definition: str
    inputs: str
    engine: str
    columns: tuple[str, ...] = ()
    unknown: str | None = None

    def schema(self) -> DataSchema | None:
        """Return the columns as a schema; None if they are not known, or were edited by hand."""
        try:
            return None if self.unknown is not None else read_columns(self.columns)
        except ColumnLineError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedInput:
    """Which dataset a reference to one of a repository means, and the head that it had.

    What the repository gives is to hold that head: it is the oldest one that is accepted.
    `repository` is the one that knows the dataset, where the reference does not name it.
    """

    id: DatasetId
    head: Multihash
    repository: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What a lock file says: packages by their name, inputs by reference, schemas by dataset."""

    packages: Mapping[str, LockedPackage] = field(default_factory=dict)
    inputs: Mapping[str, LockedInput] = field(default_factory=dict)
    schemas: Mapping[str, LockedSchema] = field(default_factory=dict)

    def schema_of(
        self, alias: DatasetAlias, definition_hash: str, inputs_hash: str
    ) -> DataSchema | None:
        """Return the data columns of a dataset, None if they were worked out from anything else."""
        known = self.schemas.get(str(alias))
        if known is None or (known.definition, known.inputs) != (definition_hash, inputs_hash):
            return None
        return known.schema()


def read_lock(root: Path) -> Lock | None:
    """Return what the lock file of a project says, None if it has none.

    Raises ProjectErrors with everything that is wrong in it.
    """
    path = root / LOCK_FILE
    refuse_link_out(root, LOCK_FILE)
    try:
        if unsaved_text(path) is None and path.stat().st_size > MAX_BYTES:
            raise ProjectErrors([_refusal(f"it has more than {MAX_BYTES:,} bytes")])
        data = read_shown(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProjectErrors([_refusal(f"it cannot be read: {error.strerror}")]) from None
    return parse_lock(decode(data, LOCK_FILE))


def parse_lock(text: str) -> Lock:
    """Return what the text of a lock file says; ProjectErrors with everything wrong in it."""
    head, entries = read_entries(text)
    documents = read_documents(head, LOCK_FILE)
    if len(documents) != 1:
        raise ProjectErrors([_refusal("it is not one mapping")])
    reading = _LockReader(documents[0])
    lock = reading.lock()
    if reading.found:
        raise ProjectErrors(reading.found)
    quick = {name: LockedSchema(**values) for name, values in entries.items()}
    return replace(lock, schemas={**lock.schemas, **quick})


def lock_text(lock: Lock) -> str:
    """Return the text of a lock file: equal locks give equal bytes."""
    value: dict[str, Any] = {"odfbuild": FORMAT}
    if lock.packages:
        value["packages"] = {
            name: _present(lock.packages[name], _PACKAGE_KEYS) for name in sorted(lock.packages)
        }
    if lock.inputs:
        value["inputs"] = {
            ref: {
                key: str(entry)
                for key in _INPUT_KEYS
                if (entry := getattr(lock.inputs[ref], key)) is not None
            }
            for ref in sorted(lock.inputs)
        }
    if lock.schemas:
        value["schemas"] = {
            name: _present(lock.schemas[name], _SCHEMA_KEYS) for name in sorted(lock.schemas)
        }
    return _HEADER + yaml_text(value)


def write_lock(root: Path, lock: Lock) -> None:
    """Put a lock file in its place at once: whole, or the one before."""
    path = root / LOCK_FILE
    draft = path.with_name(f".{LOCK_FILE}-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(lock_text(lock).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _present(value: LockedPackage | LockedSchema, keys: tuple[str, ...]) -> dict[str, Any]:
    entries = ((key, getattr(value, key)) for key in keys if hasattr(value, key))
    return {key: entry for key, entry in entries if entry not in (None, ())}


class _LockReader:
    """Takes a lock out of a document and collects what is wrong."""

    def __init__(self, document: Document) -> None:
        self.value = document.value
        self.places = document.places
        self.found: list[Diagnostic] = []

    def lock(self) -> Lock:
        top = self._mapping((), self.value, ("odfbuild", "packages", "inputs", "schemas"))
        if top.get("odfbuild") is True or top.get("odfbuild") != FORMAT:
            self._refuse(("odfbuild",), f"the format is not {FORMAT}, the only one known here")
        packages = self._mapping(("packages",), top.get("packages"))
        inputs = self._mapping(("inputs",), top.get("inputs"))
        schemas = self._mapping(("schemas",), top.get("schemas"))
        read = {ref: self._input(ref, each) for ref, each in inputs.items()}
        return Lock(
            packages={name: self._package(name, each) for name, each in packages.items()},
            inputs={ref: each for ref, each in read.items() if each is not None},
            schemas={name: self._schema(name, each) for name, each in schemas.items()},
        )

    def _package(self, name: str, value: Any) -> LockedPackage:
        path = ("packages", name)
        entries = self._mapping(path, value, _PACKAGE_KEYS)
        found = {key: self._text((*path, key), entries[key]) for key in entries}
        kinds = {key for key in ("git", "path") if key in entries}
        if len(kinds) != 1 or ("commit" in entries) != ("git" in entries):
            self._refuse(path, f"the package {name} is neither a commit of a repository nor a path")
        if "commit" in entries and not _COMMIT.fullmatch(found["commit"]):
            self._refuse((*path, "commit"), "a commit is named by its full hash")
        self._hash(path, entries, "tree")
        return LockedPackage(**{"tree": "", **found})

    def _input(self, ref: str, value: Any) -> LockedInput | None:
        path = ("inputs", ref)
        entries = self._mapping(path, value, _INPUT_KEYS)
        id = self._pin(path, entries, "id", "id of a dataset", DatasetId.parse)
        head = self._pin(path, entries, "head", "hash of a block", Multihash.parse)
        repository = entries.get("repository")
        if repository is not None:
            repository = self._text((*path, "repository"), repository)
        if id is None or head is None:
            return None
        return LockedInput(id=id, head=head, repository=repository)

    def _pin(
        self,
        path: KeyPath,
        entries: Mapping[str, Any],
        key: str,
        kind: str,
        parse: Callable[[str], _T],
    ) -> _T | None:
        """Return what an input is pinned to; it may have been cut, or written as a number."""
        if key not in entries:
            self._refuse(path, f"the input {path[-1]} has no '{key}'", fix=_PIN_AGAIN)
            return None
        value = entries[key]
        try:
            return parse(value if isinstance(value, str) else "")
        except ProtocolError:
            shown = excerpt(repr(value), 100)
            what = f"'{key}' of the input {path[-1]} is {shown}, which is not the {kind}"
            self._refuse((*path, key), what, fix=_PIN_AGAIN)
            return None

    def _schema(self, name: str, value: Any) -> LockedSchema:
        path = ("schemas", name)
        entries = self._mapping(path, value, _SCHEMA_KEYS)
        for key in ("definition", "inputs"):
            self._hash(path, entries, key)
        texts = {key: self._text((*path, key), entries[key]) for key in entries if key != "columns"}
        columns = self._columns((*path, "columns"), entries.get("columns", []))
        if ("columns" in entries) == ("unknown" in entries):
            self._refuse(path, f"the columns of {name} are missing, or both given and unknown")
        given = {"definition": "", "inputs": "", "engine": "", **texts}
        return LockedSchema(**given, columns=columns)

    def _columns(self, path: KeyPath, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._refuse(path, "the columns are not a list")
            return ()
        lines = tuple(self._text((*path, at), each) for at, each in enumerate(value))
        for at, line in enumerate(lines):
            try:
                read_columns([line])
            except ColumnLineError as error:
                self._refuse((*path, at), str(error))
        return lines

    def _hash(self, path: KeyPath, entries: Mapping[str, Any], key: str) -> None:
        if not _HASH.fullmatch(str(entries.get(key))):
            self._refuse((*path, key), f"'{key}' is not a hash")

    def _text(self, path: KeyPath, value: Any) -> str:
        if not isinstance(value, str):
            self._refuse(path, f"'{path[-1]}' is not a text")
            return ""
        return value

    def _mapping(
        self, path: KeyPath, value: Any, allowed: tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            if value is not None or not path:
                self._refuse(path, f"{path[-1] if path else LOCK_FILE} is not a mapping")
            return {}
        for key in value:
            if allowed is not None and key not in allowed:
                self._refuse((*path, key), f"unknown key '{key}'", key=True)
        return {key: each for key, each in value.items() if allowed is None or key in allowed}

    def _refuse(
        self, path: KeyPath, what: str, *, key: bool = False, fix: str | None = None
    ) -> None:
        span = self.places.key(path) if key else self.places.value(path)
        self.found.append(_refusal(what, span, fix))


def _refusal(what: str, span: SourceSpan | None = None, fix: str | None = None) -> Diagnostic:
    return Diagnostic(
        code="lock-file",
        what=f"{LOCK_FILE}: {what}",
        why="pins must be exact, so an invalid lock file is refused",
        fix=fix or "restore it from git, or delete it and run: odfbuild deps update; odfbuild lock",
        span=span or SourceSpan(file=LOCK_FILE, line=1),
    )
