"""Manifests of older specifications, as values and as text in any layout, and what they mean."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

__all__ = ["Layout", "modern", "snapshots", "written"]

_GONE = {
    "obsvAdded", "obsvChanged", "obsvRemoved", "observationColumn", "obsvColumn",
    "nanValue", "comment", "multiLine", "enforceSchema", "primitivesAsString",
}  # fmt: skip
_WORDS = {
    "filesGlob": "FilesGlob", "fromPath": "FromPath", "byName": "ByName", "url": "Url",
    "forever": "Forever", "decompress": "Decompress", "gzip": "Gzip", "csv": "Csv",
    "jsonLines": "NdJson", "sql": "Sql", "ledger": "Ledger", "snapshot": "Snapshot",
    "append": "Append", "fromMetadata": "FromMetadata",
}  # fmt: skip
_COLUMNS = ["event_time TIMESTAMP", "a STRING", "b BIGINT"]


def _kinds(**kinds: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings with some fields always there and others, named with a _, sometimes."""
    return st.fixed_dictionaries(
        {key: value for key, value in kinds.items() if key[-1] != "_"},
        optional={key[:-1]: value for key, value in kinds.items() if key[-1] == "_"},
    )


_j = st.just
_SQL = _kinds(
    kind=_j("sql"),
    engine=_j("spark"),
    query=st.sampled_from(["select * from input", "select\n  a,  # kept\n\n  b\nfrom input\n"]),
)
_FETCH = st.one_of(
    _kinds(
        kind=_j("filesGlob"),
        path=_j("data/*.csv"),
        order_=_j("byName"),
        eventTime_=_kinds(kind=_j("fromPath"), pattern=_j(r"data/(\d+)\.csv")),
        cache_=_kinds(kind=_j("forever")),
    ),
    _kinds(kind=_j("url"), url=_j("https://example.org/a.csv"), cache_=_kinds(kind=_j("forever"))),
)
_READ = st.one_of(
    _kinds(
        kind=_j("csv"), schema=_j(_COLUMNS), header_=st.booleans(), nanValue_=_j("NaN"),
        comment_=_j("#"), multiLine_=st.booleans(), enforceSchema_=st.booleans(),
    ),
    _kinds(
        kind=_j("jsonLines"), schema=_j(_COLUMNS), multiLine_=st.booleans(),
        primitivesAsString_=st.booleans(),
    ),
)  # fmt: skip
_MERGE = st.one_of(
    _kinds(kind=_j("append")),
    _kinds(kind=_j("ledger"), primaryKey=_j(["a"])),
    _kinds(
        kind=_j("snapshot"), primaryKey=_j(["a"]), compareColumns_=_j(["b"]), obsvAdded_=_j("I"),
        obsvChanged_=_j("U"), obsvRemoved_=_j("D"), observationColumn_=_j("observed"),
    ),
)  # fmt: skip
_ROOT = _kinds(
    kind=_j("root"),
    fetch=_FETCH,
    prepare_=st.lists(_kinds(kind=_j("decompress"), format=_j("gzip")), min_size=1, max_size=2),
    read=_READ,
    preprocess_=_SQL,
    merge=_MERGE,
)
_DERIVATIVE = _kinds(
    kind=_j("derivative"), inputs=_j(["org.example.a", "org.example.b"]), transform=_SQL
)


def snapshots() -> st.SearchStrategy[dict[str, Any]]:
    """Return contents of 0.18 snapshots, with their fields in any order."""
    contents = _kinds(
        id=_j("org.example.new"),
        source=st.one_of(_ROOT, _DERIVATIVE),
        vocab_=_kinds(systemTimeColumn=_j("seen"), offsetColumn_=_j("number")),
    )
    return contents.flatmap(lambda content: st.permutations(list(content.items())).map(dict))


def modern(content: dict[str, Any]) -> dict[str, Any]:
    """Return what the content of a 0.18 snapshot means today."""
    source = dict(content["source"])
    root = source.pop("kind") == "root"
    if not root:
        source["inputs"] = [{"datasetRef": each} for each in source["inputs"]]
    event = {"kind": "SetPollingSource" if root else "SetTransform", **_today(source)}
    events = {"source": event, "vocab": {"kind": "SetVocab", **content.get("vocab", {})}}
    return {
        "name": content["id"],
        "kind": "Root" if root else "Derivative",
        "metadata": [events[key] for key in content if key in events],
    }


def _today(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _WORDS[item] if key in ("kind", "format", "order") else _today(item)
            for key, item in value.items()
            if key not in _GONE
        }
    return [_today(item) for item in value] if isinstance(value, list) else value


@dataclass
class Layout:
    """Writes values in a layout that a source of chance chooses, and keeps what it commented."""

    chance: Random
    as_json: bool = False
    comments: list[str] = field(default_factory=list)

    def document(self, value: dict[str, Any]) -> str:
        if self.as_json:
            return json.dumps(value, indent=self.chance.choice([None, 1, 2, 4]))
        if self.chance.random() < 0.1:
            return self.flow(value) + "\n"
        lead = self.chance.choice(["", "---\n", "# odd: [\n\n"])
        return lead + "\n".join(self.mapping(value, 0)) + self.chance.choice(["", "\n", "\n\n"])

    def mapping(self, value: dict[str, Any], column: int) -> list[str]:
        """Return the lines of a block mapping."""
        lines: list[str] = []
        for key, item in value.items():
            if self.chance.random() < 0.1:
                lines.append(" " * self.chance.choice([column, column, 0]) + self.comment())
            lines += self.entry(key, item, column)
            if self.chance.random() < 0.05:
                lines.append("")
        return lines

    def entry(self, key: str, value: Any, column: int) -> list[str]:
        written = self.chance.choice([key, key, key, f"'{key}'", f'"{key}"'])
        head = f"{' ' * column}{written}:"
        block = isinstance(value, (dict, list)) and value and self.chance.random() < 0.85
        if block and isinstance(value, dict):
            below = self.mapping(value, column + self.chance.randint(1, 4))
            return [head + self.aside(), *below]
        if block:
            return [head + self.aside(), *self.items(value, column + self.chance.choice([0, 2, 3]))]
        if isinstance(value, str) and "\n" in value and self.chance.random() < 0.8:
            deep = " " * (column + self.chance.randint(1, 4))
            sign = "|" if value.endswith("\n") else "|-"
            lines = value.removesuffix("\n").split("\n")
            return [f"{head} {sign}", *(deep + each if each else "" for each in lines)]
        return [f"{head} {self.flow(value)}{self.aside()}"]

    def items(self, value: list[Any], column: int) -> list[str]:
        lines: list[str] = []
        for item in value:
            if isinstance(item, dict) and self.chance.random() < 0.7:
                first, *rest = self.mapping(item, column + 2)
                if first.lstrip().startswith("#"):
                    lines += [" " * column + "-", first, *rest]
                else:
                    lines += [f"{' ' * column}- {first.lstrip()}", *rest]
            else:
                lines.append(f"{' ' * column}- {self.flow(item)}{self.aside()}")
        return lines

    def flow(self, value: Any) -> str:
        """Return a value on one line."""
        if isinstance(value, dict):
            inside = ", ".join(f"{key}: {self.flow(item)}" for key, item in value.items())
            return f"{{{inside}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.flow, value))}]"
        bare = isinstance(value, str) and value.replace(".", "").isalnum()
        if isinstance(value, str) and "\n" not in value and self.chance.random() < 0.5:
            return value if bare else "'" + value.replace("'", "''") + "'"
        return json.dumps(value)

    def comment(self) -> str:
        self.comments.append(f"# comment {len(self.comments)};")
        return self.comments[-1]

    def aside(self) -> str:
        return f"  {self.comment()}" if self.chance.random() < 0.15 else ""


def written(content: dict[str, Any], layout: Layout) -> str:
    """Return a content as a manifest, with one of the envelopes that were in use."""
    chance = layout.chance
    envelope: dict[str, Any] = {"kind": "DatasetSnapshot"}
    envelope |= chance.choice([{}, {"apiVersion": 1}, {"version": 1}])
    if chance.random() < 0.3:
        entries = list(content.items())
        for entry in envelope.items():
            entries.insert(chance.randint(0, len(entries)), entry)
        return layout.document(dict(entries))
    entries = [*envelope.items(), ("content", content)]
    chance.shuffle(entries)
    return layout.document(dict(entries))
