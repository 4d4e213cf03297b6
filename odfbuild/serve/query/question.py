"""Questions of clients: documents that are read strictly."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

DIALECT = "SqlDataFusion"
INCLUDED = ("Input", "Proof", "Schema")
DATA_FORMATS = ("JsonAoS", "JsonSoA", "JsonAoA")
SCHEMA_FORMATS = ("OdfJson",)
_MEMBERS = frozenset(
    ["query", "queryDialect", "dataFormat", "schemaFormat", "include", "datasets", "skip", "limit"]
)
MOST_DATASETS = 1_000
_COUNTS = frozenset({"skip", "limit"})
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PinnedDataset:
    """A dataset at a block, under its name in a query; None is the head."""

    alias: str
    id: DatasetId
    block: Multihash | None

    def document(self) -> dict[str, str]:
        """Return the dataset as JSON."""
        form = {"id": str(self.id), "alias": self.alias}
        return form if self.block is None else {**form, "blockHash": str(self.block)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """Which rows of a dataset are asked for: those recorded, or the current ones.

    Of these, with `until`, those that were in force at that event time.
    """

    is_current: bool = False
    until: Timestamp | None = None

    def document(self) -> dict[str, Any]:
        """Return the view as JSON."""
        return {
            "is_current": self.is_current,
            "until": None if self.until is None else str(self.until),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryQuestion:
    """One SELECT, the rows of the answer to return, and their form.

    `include` are names of INCLUDED in their order; `datasets` are those that are pinned.
    """

    query: str
    data_format: str = "JsonAoS"
    schema_format: str | None = None
    include: tuple[str, ...] = ()
    datasets: tuple[PinnedDataset, ...] = field(default_factory=tuple)
    skip: int = 0
    limit: int = 100

    def document(self) -> dict[str, Any]:
        """Return the question as JSON, with all defaults."""
        form: dict[str, Any] = {
            "query": self.query,
            "queryDialect": DIALECT,
            "dataFormat": self.data_format,
            "include": list(self.include),
            "datasets": [each.document() for each in self.datasets],
            "skip": self.skip,
            "limit": self.limit,
        }
        return form if self.schema_format is None else {**form, "schemaFormat": self.schema_format}


def read_document(data: bytes) -> Any:
    """Return the value of a JSON text.  Raises ValueError if readers of JSON disagree about it.

    They do about repeated members, of which some readers take the first and others the last, and
    about numbers that JSON does not have.
    """
    return parse_json(data, object_pairs_hook=_members, parse_constant=_no_number)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the member {excerpt(twice, 40)!r} twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"it has {text}, which is not a number of JSON")


def parse_counts(given: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters of a URL with integers parsed; other texts are not changed."""
    return {name: _number(text) if name in _COUNTS else text for name, text in given.items()}


def _number(text: str) -> int | str:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if is_number else text


def read_question(document: Any, most_rows: int) -> QueryQuestion:
    """Read a document.  Raises ValueError, which says what is wrong."""
    if not isinstance(document, Mapping):
        raise ValueError("a question is a JSON object")
    unknown = sorted(document.keys() - _MEMBERS)
    if unknown:
        name = excerpt(str(unknown[0]), 40)
        raise ValueError(f"{name!r} is not a member of a question: {', '.join(sorted(_MEMBERS))}")
    query = document.get("query")
    if not isinstance(query, str) or not _is_text(query):
        raise ValueError("query is the text of a SELECT")
    _one_of(document, "queryDialect", (DIALECT,))
    include = _given(document, "include")
    if not isinstance(include, list) or not all(each in INCLUDED for each in include):
        raise ValueError(f"include is a list of {', '.join(INCLUDED)}")
    wanted = {*include, *(["Input"] if "Proof" in include else [])}
    return QueryQuestion(
        query=query,
        data_format=_one_of(document, "dataFormat", DATA_FORMATS) or DATA_FORMATS[0],
        schema_format=_one_of(document, "schemaFormat", SCHEMA_FORMATS),
        include=tuple(each for each in INCLUDED if each in wanted),
        datasets=_datasets(_given(document, "datasets")),
        skip=_count(document, "skip", 0, 1 << 53),
        limit=_count(document, "limit", 100, most_rows),
    )


def _given(document: Mapping[str, Any], name: str) -> Any:
    found = document.get(name)
    return [] if found is None else found


def _is_text(value: str) -> bool:
    """Return whether a text is valid Unicode: JSON has escapes for halves of characters."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _one_of(document: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str | None:
    value = document.get(name)
    if value is not None and value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}")
    return None if value is None else str(value)


def _count(document: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = document.get(name)
    if value is None:
        return min(default, most)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is a whole number from 0 to {most:,}")
    return value


def _datasets(given: Any) -> tuple[PinnedDataset, ...]:
    if not isinstance(given, list) or len(given) > MOST_DATASETS:
        raise ValueError(f"datasets is a list of at most {MOST_DATASETS:,}")
    found = tuple(map(_pinned, given))
    if len({each.alias for each in found}) < len(found):
        raise ValueError("datasets has two for one alias")
    return found


def _pinned(given: Any) -> PinnedDataset:
    if not isinstance(given, Mapping) or not {"id", "alias"} <= given.keys():
        raise ValueError("each of datasets has id, alias, and blockHash if it is pinned")
    if unknown := sorted(given.keys() - {"id", "alias", "blockHash"}):
        raise ValueError(f"{excerpt(str(unknown[0]), 40)!r} is not a member of a dataset")
    alias, block = given["alias"], given.get("blockHash")
    if not isinstance(alias, str) or not _is_text(alias):
        raise ValueError("alias is the name of a dataset in the query")
    if not isinstance(given["id"], str) or not isinstance(block, str | None):
        raise ValueError("id and blockHash of a dataset are texts")
    try:
        return PinnedDataset(
            alias=alias,
            id=DatasetId.parse(given["id"]),
            block=None if block is None else Multihash.parse(block),
        )
    except ProtocolError as error:
        raise ValueError(f"datasets: {error.what}") from None
