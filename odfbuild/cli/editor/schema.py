"""Schemas of the files of a project: the fields and values at a path, from JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from odfbuild.cli.editor.manifest_path import ITEM, ManifestPath
from odfbuild.cli.files import json_schemas
from odfbuild.host.json_text import parse_json
from odfbuild.project import PROJECT_FILE

Node: TypeAlias = Mapping[str, Any]

_MANIFEST: Final = "DatasetSnapshotManifest"
_CHILDREN: Final = frozenset({"properties", "additionalProperties", "items"})
_BY_RUNS: Final = frozenset({"AddData", "ExecuteTransform", "Seed"})  # never declared


def schema_name(file: str) -> str:
    """Return the name of the schema of a file, by its name in the project."""
    if file == PROJECT_FILE:
        return "Project"
    if file.startswith("tests/unit/"):
        return "UnitTest"
    return "DataTest" if file.startswith("tests/data/") else _MANIFEST


@cache
def _schema(name: str) -> Node:
    found: Node = parse_json(json_schemas()[name].read_text("utf-8"))
    return found


def fields_at(file: str, path: ManifestPath) -> Mapping[str, Node]:
    """Return the keys that the mapping around a position may have, with their schemas."""
    root = _schema(schema_name(file))
    found: dict[str, Node] = {}
    for node in _at(root, path):
        for variant in _of_kind(_variants(root, node), path.kind):
            for key, value in variant.get("properties", {}).items():
                found.setdefault(key, value if isinstance(value, dict) else {})  # true is any
    return found


def values_at(file: str, path: ManifestPath) -> Mapping[str, str]:
    """Return the words that a value may be, with their descriptions."""
    root = _schema(schema_name(file))
    found: dict[str, str] = {}
    for node in _at(root, path):
        for variant in _variants(root, node):
            for word in _words(variant):
                if word not in _BY_RUNS:
                    found.setdefault(word, _kind_text(root, path, word))
    return found


def description(file: str, path: ManifestPath) -> str | None:
    """Return the description of the last step of a path."""
    root = _schema(schema_name(file))
    for node in _at(root, path):
        for each in (node, _without_refs(root, node)):
            if isinstance(each.get("description"), str):
                return str(each["description"])
    return None


def _words(node: Node) -> Iterator[str]:
    """Yield the words of an enumeration; of spellings in several cases, the first."""
    given = [node["const"]] if "const" in node else node.get("enum", ())
    words: dict[str, str] = {}
    for each in given:
        if isinstance(each, bool):
            each = "true" if each else "false"  # noqa: PLW2901
        if isinstance(each, str):
            words.setdefault(each.lower(), each)
    yield from words.values()
    if "boolean" in (node.get("type"), *_as_list(node.get("type"))):
        yield from ("true", "false")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind_text(root: Node, path: ManifestPath, word: str) -> str:
    """Return the description of a kind, where the words are those of `kind`."""
    if not path.steps or path.steps[-1] != "kind":
        return ""
    above = ManifestPath(
        steps=path.steps[:-1], kinds=path.kinds[:-1], kind=None, part="key", word=""
    )
    for node in _at(root, above):
        for variant in _of_kind(_variants(root, node), word):
            return str(variant.get("description", ""))
    return ""


def _at(root: Node, path: ManifestPath) -> list[Node]:
    """Return the schemas at a path; several if its kind is not known."""
    nodes: list[Node] = [root]
    for step, kind in zip(path.steps, path.kinds, strict=True):
        variants = [each for node in nodes for each in _variants(root, node)]
        if step == ITEM:
            nodes = [each["items"] for each in variants if isinstance(each.get("items"), dict)]
            continue
        chosen = variants if step == "kind" else list(_of_kind(variants, kind))
        nodes = [found for each in chosen if (found := _value(each, step)) is not None]
    return nodes


def _value(node: Node, key: str) -> Node | None:
    found = node.get("properties", {}).get(key)
    if found is None:
        found = node.get("additionalProperties")
    return found if isinstance(found, dict) else None


def _of_kind(nodes: Iterator[Node] | list[Node], kind: str | None) -> Iterator[Node]:
    for each in nodes:
        words = [word.lower() for word in _words(each.get("properties", {}).get("kind", {}))]
        if kind is None or not words or kind.lower() in words:
            yield each


def _variants(root: Node, node: Node) -> list[Node]:
    found = _without_refs(root, node)
    inner = [*found.get("oneOf", ()), *found.get("anyOf", ())]
    if not inner:
        return [found]
    own = [] if _CHILDREN.isdisjoint(found) else [found]  # with them, as in a check
    return own + [variant for each in inner for variant in _variants(root, each)]


def _without_refs(root: Node, node: Node) -> Node:
    while "$ref" in node:
        target: Any = root
        for part in str(node["$ref"]).removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node
