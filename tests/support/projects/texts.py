"""Definitions as users write them, for tests that go through the files of a project."""

from collections.abc import Mapping

__all__ = ["FILES_ROOT", "GLOB", "GOOD", "derivative", "root", "url"]

GLOB = "{kind: FilesGlob, path: data/*.csv}"
FILES_ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, schema: [k STRING, v BIGINT]}
      merge: %s
"""
GOOD = "t,k,v\n2024-01-01,a,1\n2024-01-02,b,2\n"


def root(
    name: str = "src",
    *,
    fetch: str = GLOB,
    columns: str = "t DATE NOT NULL, k STRING NOT NULL, v BIGINT",
    merge: str = "{kind: Ledger, primaryKey: [k]}",
    prepare: str = "",
    query: str = "",
    **options: str,
) -> str:
    """Return a root that reads CSV files; `prepare` and `query` are left out when empty."""
    parts = {
        "fetch": fetch,
        "prepare": f"[{prepare}]" if prepare else "",
        "read": _flow({"kind": "Csv", "header": "true", **options, "schema": f"[{columns}]"}),
        "preprocess": _flow({"kind": "Sql", "engine": "spark", "query": query}) if query else "",
        "merge": merge,
    }
    lines = [f"      {key}: {value}" for key, value in parts.items() if value]
    return _snapshot(name, "Root", ["    - kind: SetPollingSource", *lines])


def derivative(
    name: str = "out",
    reads: str = "src",
    query: str = "select t, k, v from src",
    *,
    engine: str = "spark",
    beside: str = "",
) -> str:
    """Return a derivative of one dataset, which its query knows as `src`, or of a second too,
    known as `other`.
    """
    second = [f"        - datasetRef: {beside}", "          alias: other"] if beside else []
    return _snapshot(
        name,
        "Derivative",
        [
            "    - kind: SetTransform",
            "      inputs:",
            f"        - datasetRef: {reads}",
            "          alias: src",
            *second,
            "      transform:",
            "        kind: Sql",
            f"        engine: {engine}",
            f"        query: {query}",
        ],
    )


def url(where: str) -> str:
    """Return the fetch step of a URL."""
    return f"{{kind: Url, url: '{where}'}}"


def _snapshot(name: str, kind: str, event: list[str]) -> str:
    lines = [
        "kind: DatasetSnapshot",
        "version: 1",
        "content:",
        f"  name: {name}",
        f"  kind: {kind}",
        "  metadata:",
        *event,
        "    - kind: SetVocab",
        "      eventTimeColumn: t",
        "",
    ]
    return "\n".join(lines)


def _flow(mapping: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {_quoted(value)}" for key, value in mapping.items()) + "}"


def _quoted(value: str) -> str:
    return value if value.startswith(("[", "{")) or " " not in value else f'"{value}"'
