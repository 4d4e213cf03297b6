"""The model of schemas/odf.yaml as values, with slots counted and names derived."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["Enumeration", "Field", "Model", "TableType", "UnionType", "load", "snake"]

_TYPE = re.compile(r"(list<)?(\w+)(>)?(\?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: `key` is its own name in camel case, `json` the one it is written with."""

    key: str
    json: str
    type: str
    many: bool
    optional: bool
    slot: int
    since: str | None
    default: object
    format: str | None
    note: str | None

    @property
    def name(self) -> str:
        return snake(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableType:
    """A table; `kind` is its tag if it is the member of a union."""

    name: str
    about: str
    since: str
    module: str
    fields: tuple[Field, ...]
    kind: str | None
    transparent: bool
    either: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionType:
    """A union; members are (kind, table name) in tag order."""

    name: str
    about: str
    since: str
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """An enumeration and the width of its values on the wire."""

    name: str
    about: str
    since: str
    wire: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Everything in the file, in its order."""

    enums: Mapping[str, Enumeration]
    unions: Mapping[str, UnionType]
    tables: Mapping[str, TableType]

    def module_of(self, union: UnionType) -> str:
        """Return the module of a union: that of its members."""
        return self.tables[union.members[0][1]].module


def load(text: str) -> Model:
    """Read the model; KeyError or ValueError if it does not hold together."""
    raw = yaml.safe_load(text)
    base = raw["versions"]["base"]
    enums = {name: _enum(name, spec, base) for name, spec in raw["enums"].items()}
    unions = {name: _union(name, spec, base) for name, spec in raw["unions"].items()}
    kinds = {table: kind for union in unions.values() for kind, table in union.members}
    tables = {
        name: _table(name, spec, base, kinds.get(name), unions)
        for name, spec in raw["tables"].items()
    }
    return Model(enums=enums, unions=unions, tables=tables)


def snake(name: str) -> str:
    """Return a camelCase or PascalCase name in snake_case."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def _enum(name: str, spec: Mapping[str, Any], base: str) -> Enumeration:
    return Enumeration(
        name=name,
        about=spec["about"],
        since=spec.get("since", base),
        wire=spec.get("wire", "i32"),
        values=tuple(spec["values"]),
    )


def _union(name: str, spec: Mapping[str, Any], base: str) -> UnionType:
    prefix = spec.get("prefix", "")
    return UnionType(
        name=name,
        about=spec["about"],
        since=spec.get("since", base),
        members=tuple((kind, prefix + kind) for kind in spec["members"]),
    )


def _table(
    name: str,
    spec: Mapping[str, Any],
    base: str,
    kind: str | None,
    unions: Mapping[str, UnionType],
) -> TableType:
    fields: list[Field] = []
    slot = 0
    for key, declared in spec["fields"].items():
        field = _field(key, {"type": declared} if isinstance(declared, str) else declared, slot)
        fields.append(field)
        slot += 2 if field.type in unions and not field.many else 1
    return TableType(
        name=name,
        about=spec["about"],
        since=spec.get("since", base),
        module=spec.get("module", "events"),
        fields=tuple(fields),
        kind=kind,
        transparent=spec.get("transparent", False),
        either=tuple(spec.get("either", ())),
    )


def _field(key: str, spec: Mapping[str, Any], slot: int) -> Field:
    parsed = _TYPE.fullmatch(spec["type"])
    if parsed is None:
        raise ValueError(f"{key}: what is {spec['type']}?")
    return Field(
        key=key,
        json=spec.get("json", key),
        type=parsed[2],
        many=parsed[1] is not None,
        optional=parsed[4] is not None,
        slot=slot,
        since=spec.get("since"),
        default=spec.get("default"),
        format=spec.get("format"),
        note=spec.get("note"),
    )
