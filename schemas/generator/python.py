"""The text of odfbuild/odf/{events,messages,wire/layout}.py, laid out by `ruff format`."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator

from generator.model import Enumeration, Field, Model, TableType, UnionType, snake

__all__ = ["layout_text", "module_text"]

_WIDTH = 100
_SCALARS = {"bool", "u8", "u16", "u32", "u64", "i16", "i32", "i64"}
_PYTHON = {
    "text": "str",
    "json": "str",
    "bytes": "bytes",
    "timestamp": "Timestamp",
    "multihash": "Multihash",
    "did": "DatasetId",
    "alias": "DatasetAlias",
    "ref": "DatasetId | DatasetAlias",
    "bool": "bool",
}
_MADE = (
    "Made by schemas/generate.py from schemas/odf.yaml: change that, not this.  It is one module\n"
    "because one schema makes it, whose types refer to each other."
)
_ABOUT = {
    "events": "Metadata of datasets as values: blocks, their events and what these are made of",
    "messages": "Messages between coordinator and engine, as values",
}
_HOMES = {
    "odfbuild.odf.identity": ("DatasetId", "Multihash"),
    "odfbuild.odf.record": ("Record",),
    "odfbuild.odf.refs": ("DatasetAlias",),
    "odfbuild.odf.timestamp": ("Timestamp",),
}


def module_text(model: Model, module: str) -> str:
    """Return one module of value classes."""
    tables = [table for table in model.tables.values() if table.module == module]
    unions = [union for union in model.unions.values() if model.module_of(union) == module]
    enums = list(model.enums.values()) if module == "events" else []
    body = "\n\n\n".join([*map(_enum, enums), *map(_class, tables)])
    aliases = "\n".join(map(_alias, unions))
    names = [*(it.name for it in enums), *(it.name for it in tables), *(it.name for it in unions)]
    return _formatted(
        f'"""{_ABOUT[module]}.\n\n{_MADE}\n\n'
        "Fields are in the order of the wire; None means absent, which () and 0 do not.\n"
        '"""\n\n'
        "# ruff: noqa: RUF022, RUF023\n\n"
        "from __future__ import annotations\n\n"
        f"{_imports(body + aliases, model, module)}\n\n"
        f"__all__ = [{', '.join(map(_quoted, names))}]\n\n\n"
        f"{body}\n\n\n{aliases}"
    )


def layout_text(model: Model) -> str:
    """Return the module that says how every class lies in bytes and mappings."""
    enums = [f'events.{enum.name}: "{enum.wire}"' for enum in model.enums.values()]
    unions = [_layout_union(union, model) for union in model.unions.values()]
    tables = [_layout_table(table, model) for table in model.tables.values()]
    return _formatted(
        f'"""The slots of every value class, in wire order.\n\n{_MADE}\n"""\n\n'
        "from collections.abc import Mapping\n"
        "from enum import Enum\n"
        "from typing import Final\n\n"
        "from odfbuild.odf import events, messages\n"
        "from odfbuild.odf.record import Record\n"
        "from odfbuild.odf.wire.slots import Slot, Table, Union\n\n"
        '__all__ = ["ENUMS", "TABLES", "UNIONS"]\n\n'
        f"ENUMS: Final[Mapping[type[Enum], str]] = {{{', '.join(enums)}}}\n\n"
        f"UNIONS: Final[Mapping[str, Union]] = {{{', '.join(unions)}}}\n\n"
        f"TABLES: Final[Mapping[type[Record], Table]] = {{{', '.join(tables)}}}\n"
    )


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "generated.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def _imports(body: str, model: Model, module: str) -> str:
    standard = []
    if "(Enum)" in body:
        standard.append("from enum import Enum")
    standard.append("from typing import TypeAlias")
    homes = dict(_HOMES)
    if module != "events":
        homes["odfbuild.odf.events"] = tuple(_foreign(model, module))
    lines = []
    for home, names in sorted(homes.items()):
        found = [name for name in names if re.search(rf"\b{name}\b", body)]
        if found:
            lines.append(f"from {home} import {', '.join(found)}")
    return "\n".join(standard) + "\n\n" + "\n".join(lines)


def _foreign(model: Model, module: str) -> list[str]:
    """Return the names of types that live in another module."""
    tables = [table.name for table in model.tables.values() if table.module != module]
    unions = [name for name, union in model.unions.items() if model.module_of(union) != module]
    return sorted([*tables, *unions])


def _enum(enum: Enumeration) -> str:
    values = "\n".join(f'    {snake(value).upper()} = "{value}"' for value in enum.values)
    return f"class {enum.name}(Enum):\n{_doc(enum)}\n\n{values}"


def _class(table: TableType) -> str:
    lines = [f"class {table.name}(Record):", _doc(table, table.fields), ""]
    lines += [f"    __slots__ = {_tuple(_quoted(field.name) for field in table.fields)}", ""]
    if table.fields:
        lines += (f"    {field.name}: {_annotation(field)}" for field in table.fields)
        lines += ["", *_init(table)]
    return "\n".join(lines)


def _init(table: TableType) -> Iterator[str]:
    arguments = ["self"] + ["*"] * _keyword_only(table.fields)
    arguments += (f"{field.name}: {_annotation(field)}{_default(field)}" for field in table.fields)
    yield f"    def __init__({', '.join(arguments)}) -> None:"
    yield "        put = object.__setattr__"
    for field in table.fields:
        yield f'        put(self, "{field.name}", {field.name})'


def _keyword_only(fields: tuple[Field, ...]) -> bool:
    """Four fields or more are given by name, and so are those where a required one comes late."""
    needed = [_default(field) == "" for field in fields]
    return len(fields) > 3 or needed != sorted(needed, reverse=True)


def _annotation(field: Field) -> str:
    inner = _PYTHON.get(field.type, "int" if field.type in _SCALARS else field.type)
    whole = f"tuple[{inner}, ...]" if field.many else inner
    return f"{whole} | None" if field.optional else whole


def _default(field: Field) -> str:
    if field.optional:
        return " = None"
    return "" if field.default is None else f" = {_quoted(str(field.default))}"


def _alias(union: UnionType) -> str:
    members = " | ".join(table for _, table in union.members)
    return f'{union.name}: TypeAlias = (\n    {members}\n)\n"""{union.about}"""\n'


def _doc(thing: TableType | Enumeration, fields: tuple[Field, ...] = ()) -> str:
    notes = [line for field in fields for line in _notes(field)]
    origin = thing.since if thing.since == "odfbuild" else f"ODF\0{thing.since}"
    first = textwrap.fill(f"{thing.about[:-1]} ({origin}).", _WIDTH - 10)
    first = first.replace("\0", " ")
    text = "\n".join([first, "", *notes, ""]) if notes else first
    return textwrap.indent(f'"""{text}"""', "    ").replace("\n    \n", "\n\n")


def _notes(field: Field) -> Iterator[str]:
    parts = [] if field.note is None else [field.note]
    if field.since is not None:
        parts.append(f"since ODF {field.since}")
    if field.optional and field.default is not None:
        parts.append(f"when absent {_shown(field.default)}")
    if parts:
        yield f"{field.name}: {'; '.join(parts)}"


def _shown(default: object) -> str:
    special = {",": "a comma", '"': "a double quote", "\\": "a backslash", "": "the empty text"}
    return (
        str(default).lower()
        if isinstance(default, bool)
        else special.get(str(default), str(default))
    )


def _layout_table(table: TableType, model: Model) -> str:
    slots = _tuple(_slot(field, model) for field in table.fields)
    extra = ", transparent=True" if table.transparent else ""
    if table.either:
        extra += f", either=({', '.join(_quoted(snake(key)) for key in table.either)})"
    return f"{table.module}.{table.name}: Table({slots}{extra})"


def _slot(field: Field, model: Model) -> str:
    parts = [_quoted(field.name), _quoted(field.json), str(field.slot), *_kind(field, model)]
    if field.optional:
        parts.append("optional=True")
    if field.default is not None:
        parts.append(f"default={_literal(field, model)}")
    if field.key != field.json:
        parts.append(f"own={_quoted(field.key)}")
    return f"Slot({', '.join(parts)})"


def _literal(field: Field, model: Model) -> str:
    if field.type in model.enums:
        return f"events.{field.type}.{snake(str(field.default)).upper()}"
    return str(field.default) if isinstance(field.default, bool) else _quoted(str(field.default))


def _kind(field: Field, model: Model) -> Iterator[str]:
    plural = "s" if field.many else ""
    if field.type in model.enums:
        yield from ('"enum"', f"events.{field.type}")
    elif field.type in model.unions:
        yield from (f'"union{plural}"', _quoted(field.type))
    elif field.type in model.tables:
        yield from (f'"table{plural}"', f"{model.tables[field.type].module}.{field.type}")
    else:
        yield _quoted(field.type + plural)


def _layout_union(union: UnionType, model: Model) -> str:
    module = model.module_of(union)
    kinds = _tuple(_quoted(kind) for kind, _ in union.members)
    members = _tuple(f"{module}.{table}" for _, table in union.members)
    return f'"{union.name}": Union({kinds}, {members})'


def _tuple(items: Iterable[str]) -> str:
    parts = list(items)
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def _quoted(text: str) -> str:
    return repr(text)
