"""JSON Schemas (draft 2020-12) of manifests and of what they hold, for editors and other tools."""

import json
from collections.abc import Iterator
from typing import Any

from generator.model import Enumeration, Field, Model, TableType, UnionType

__all__ = ["json_texts"]

_ROOTS = {
    "DatasetSnapshot": 1,
    "MetadataBlock": 2,
    "MetadataEvent": 1,
}
_PARTS = ("DataSchema", "DatasetVocabulary")
_RANGES = {
    "u8": (0, 2**8 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}
_NAME = r"[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*"
_DID = r"did:odf:[a-zA-Z0-9+/=_-]+"
_ALIAS = rf"({_NAME}/)?{_NAME}"
_TEXTS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "timestamp": {"type": "string", "format": "date-time"},
    "multihash": {"type": "string", "pattern": r"^[a-zA-Z0-9][a-zA-Z0-9+/=_-]+$"},
    "did": {"type": "string", "pattern": f"^{_DID}$"},
    "alias": {"type": "string", "pattern": f"^{_ALIAS}$"},
    "ref": {"type": "string", "pattern": f"^({_DID}|{_ALIAS})$"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "json": {"type": "object"},
    "bool": {"type": "boolean"},
}
_FORMATS = {"url": "uri", "uri": "uri", "regex": "regex"}


def json_texts(model: Model) -> dict[str, str]:
    """Return the schema files by name: each stands alone."""
    files = {}
    for name, version in _ROOTS.items():
        files[name] = _document(model, name, {"$ref": f"#/$defs/{name}"})
        files[f"{name}Manifest"] = _document(model, name, _manifest(name, version))
    for name in _PARTS:
        files[name] = _document(model, name, {"$ref": f"#/$defs/{name}"})
    return files


def _manifest(name: str, version: int) -> dict[str, Any]:
    versions = {"enum": [2, 3]} if version == 2 else {"const": version}
    return {
        "type": "object",
        "required": ["kind", "version", "content"],
        "properties": {
            "kind": {"const": name},
            "version": versions,
            "content": {"$ref": f"#/$defs/{name}"},
        },
        "additionalProperties": False,
    }


def _document(model: Model, root: str, body: dict[str, Any]) -> str:
    defs = {name: _definition(model, name) for name in sorted(_reachable(model, root))}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by schemas/generate.py from schemas/odf.yaml: change that, not this.",
        **body,
        "$defs": defs,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _reachable(model: Model, root: str) -> set[str]:
    seen: set[str] = set()
    todo = [root]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(_mentioned(model, name))
    return seen


def _mentioned(model: Model, name: str) -> Iterator[str]:
    if name in model.unions:
        yield from (table for _, table in model.unions[name].members)
    elif name in model.tables:
        known = {**model.enums, **model.unions, **model.tables}
        yield from (field.type for field in model.tables[name].fields if field.type in known)


def _definition(model: Model, name: str) -> dict[str, Any]:
    if name in model.enums:
        return _enum(model.enums[name])
    if name in model.unions:
        return _union(model.unions[name], model)
    return _table(model.tables[name])


def _enum(enum: Enumeration) -> dict[str, Any]:
    spellings = [text for value in enum.values for text in _spellings(value)]
    return {"description": enum.about, "enum": spellings}


def _union(union: UnionType, model: Model) -> dict[str, Any]:
    members: list[dict[str, Any]] = [{"$ref": f"#/$defs/{table}"} for _, table in union.members]
    if union.name == "DataType":
        plain = [
            text
            for kind, table in union.members
            if all(field.optional for field in model.tables[table].fields)
            for text in _spellings(kind)
        ]
        members.append(
            {"description": "The type with nothing more to say about it.", "enum": plain}
        )
    return {"description": union.about, "oneOf": members}


def _table(table: TableType) -> dict[str, Any]:
    if table.transparent:
        return {"description": table.about, **_type(table.fields[0])}
    properties: dict[str, Any] = {}
    if table.kind is not None:
        properties["kind"] = {"enum": _spellings(table.kind)}
    for field in table.fields:
        _add(properties, field)
    required = ["kind"] * (table.kind is not None)
    required += [field.json for field in table.fields if not field.optional and not field.default]
    schema: dict[str, Any] = {"description": table.about, "type": "object"}
    if required:
        schema["required"] = required
    if table.either:
        schema["anyOf"] = [{"required": [name]} for name in dict.fromkeys(_names(table))]
    return {**schema, "properties": properties, "additionalProperties": False}


def _names(table: TableType) -> Iterator[str]:
    """Return every name of the fields of which one must be there."""
    for field in table.fields:
        if field.key in table.either:
            yield field.json
            yield field.key


def _add(properties: dict[str, Any], field: Field) -> None:
    """Add a field; one that shares its name with an older one makes a choice by type."""
    schema = _type(field)
    if field.default is not None:
        schema["default"] = field.default
    if field.optional:
        schema = {"anyOf": [schema, {"type": "null"}]} if "$ref" in schema else _or_null(schema)
    if field.key != field.json:
        properties[field.key] = schema
    if field.json in properties:
        properties[field.json] = {"anyOf": [properties[field.json], schema]}
    else:
        properties[field.json] = schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _type(field: Field) -> dict[str, Any]:
    inner = _TEXTS.get(field.type) or _number(field.type) or {"$ref": f"#/$defs/{field.type}"}
    if field.format in _FORMATS and not field.many:
        inner = {**inner, "format": _FORMATS[field.format]}
    return {"type": "array", "items": inner} if field.many else dict(inner)


def _number(name: str) -> dict[str, Any] | None:
    if name not in _RANGES:
        return None
    low, high = _RANGES[name]
    return {"type": "integer", "minimum": low, "maximum": high}


def _spellings(kind: str) -> list[str]:
    return list(dict.fromkeys((kind, kind[:1].lower() + kind[1:], kind.lower())))
