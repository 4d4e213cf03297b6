"""Patterns of dataset names, with `%` for any run of characters (ODF 0.34.1, "Dataset Identity").

    DatasetRefPattern    = (AccountName "/")? Pattern / DatasetRef
    DatasetRefAnyPattern = RepoName "/" AccountName "/" Pattern / DatasetRefPattern / DatasetRefAny
    Pattern              = start? ("%"+ middle)* "%"+ end?

Each part of a pattern is a name, and may have one "." or "-" towards a "%".
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import (
    HOST,
    DatasetAlias,
    DatasetRef,
    DatasetRefAny,
    Folded,
    is_name,
    is_url,
    parse_any_ref,
    parse_dataset_ref,
    refusal,
)

__all__ = [
    "AmbiguousPattern",
    "DatasetAliasPattern",
    "DatasetAliasPatternRemote",
    "DatasetRefAnyPattern",
    "DatasetRefPattern",
    "matches",
    "name_pattern_prefix",
    "parse_any_pattern",
    "parse_ref_pattern",
]

_PATTERN = re.compile(rf"(?:{HOST}[.-]?)?(?:%+[.-]?{HOST}[.-]?(?=%))*%+(?:[.-]?{HOST})?|{HOST}")


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAliasPattern(Folded):
    """Names with `%` for any run of characters, in any account or in the one named."""

    account: str | None
    pattern: str

    def __str__(self) -> str:
        return self.pattern if self.account is None else f"{self.account}/{self.pattern}"


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAliasPatternRemote(Folded):
    """A name pattern within an account of a repository."""

    repo: str
    account: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.repo}/{self.account}/{self.pattern}"


@dataclass(frozen=True, slots=True, eq=False)
class AmbiguousPattern(Folded):
    """A name pattern within a repository or an account: only the known repositories tell."""

    prefix: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.pattern}"


DatasetRefPattern: TypeAlias = DatasetRef | DatasetAliasPattern
DatasetRefAnyPattern: TypeAlias = (
    DatasetRefAny | DatasetAliasPattern | AmbiguousPattern | DatasetAliasPatternRemote
)


def parse_ref_pattern(text: str) -> DatasetRefPattern:
    """Read a local reference, or a pattern if there is a `%` in it."""
    if "%" not in text:
        return parse_dataset_ref(text)
    match _pattern_parts(text):
        case [pattern]:
            return DatasetAliasPattern(None, pattern)
        case [account, pattern]:
            return DatasetAliasPattern(account, pattern)
    raise refusal(text, "a pattern", "it is `pattern` or `account/pattern`")


def parse_any_pattern(text: str) -> DatasetRefAnyPattern:
    """Read any reference, or a pattern if there is a `%` in it; `x/pattern` stays ambiguous."""
    if "%" not in text or is_url(text):
        return parse_any_ref(text)
    match _pattern_parts(text):
        case [pattern]:
            return DatasetAliasPattern(None, pattern)
        case [prefix, pattern]:
            return AmbiguousPattern(prefix, pattern)
        case [repo, account, pattern]:
            return DatasetAliasPatternRemote(repo, account, pattern)
    raise refusal(text, "a pattern", "it is `pattern`, `x/pattern` or `repo/account/pattern`")


def matches(wanted: DatasetRefPattern, alias: DatasetAlias, dataset: DatasetId | None) -> bool:
    """Tell whether a reference or pattern means the dataset with this alias and id."""
    match wanted:
        case DatasetId():
            return wanted == dataset
        case DatasetAlias(account, name):
            inside = account is None or _same(account, alias.account)
            return inside and _same(name, alias.name)
        case DatasetAliasPattern(account, pattern):
            inside = account is None or _same(account, alias.account)
            return inside and _like(pattern.lower(), alias.name.lower())


def name_pattern_prefix(text: str) -> tuple[str, str] | None:
    """Split off the longest start that is a name or a name pattern; None if there is none.

    pattern = start? ("%"+ middle)* "%"+ end?, where each part is a name and may have one
    "." or "-" towards a "%".
    """
    found = _PATTERN.match(text)
    return None if found is None else (found[0], text[found.end() :])


def _like(pattern: str, name: str) -> bool:
    """Match `%` as any run: each piece is taken at its first place, the last one at the end."""
    first, *rest = pattern.split("%")
    if not rest:
        return pattern == name
    last = rest.pop()
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    at = len(first)
    for piece in rest:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _same(one: str, other: str | None) -> bool:
    return other is not None and one.lower() == other.lower()


def _pattern_parts(text: str) -> list[str]:
    """Split at slashes into names and a last pattern; nothing if a part is neither."""
    *names, last = text.split("/")
    good = all(map(is_name, names)) and "%" in last and _PATTERN.fullmatch(last)
    return [*names, last] if good else []
