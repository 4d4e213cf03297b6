"""Completions: kinds, fields and words of manifests, names of datasets, columns and functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from lsprotocol.types import CompletionItem, CompletionItemKind

from odfbuild.cli.editor.manifest_path import ManifestPath, path_at
from odfbuild.cli.editor.names import ReadDefinitions, is_query_file
from odfbuild.cli.editor.schema import description, fields_at, values_at
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.schema.ddl import column_lines
from odfbuild.planner.declared import Declared
from odfbuild.sql.text.steps import DATAFUSION, steps_of

_QUERIES: Final = frozenset({"query"})
_QUALIFIED: Final = re.compile(r"([A-Za-z_][\w.-]*)[`\"]?\.[`\"]?\w*\Z")
_TAG: Final = re.compile(r"\{[{%#](?:(?![}%#]\}).)*\Z")
"""An expression, tag or comment of a template that is not closed."""
_COLON: Final = re.compile(r"[\w./-]*['\"]?\s*:")
"""The rest of a key that already has its colon."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def completions(
    file: str, lines: list[str], row: int, column: int, known: ReadDefinitions | None
) -> list[CompletionItem]:
    """Return the completions at a position of a file, with numbers from 0, in characters."""
    if file.endswith(".j2") and _TAG.search(lines[row][:column]):
        return []
    if is_query_file(file):
        each = None if known is None else known.reader_of(file)
        if known is None or each is None:
            return []
        return list(_of_query(each, known, lines[row][:column]))
    path = path_at(lines, row, column)
    last = path.steps[-1] if path.steps else ""
    if last in _QUERIES and path.part != "key":
        each = None if known is None else known.definition_at(file, row + 1)
        return [] if known is None or each is None else list(_of_query(each, known, path.word))
    if path.part == "value" and known is not None and _is_dataset(file, path):
        return list(_datasets(file, row, known))
    if path.part == "value":
        found = values_at(file, path).items()
        return [_item(word, CompletionItemKind.EnumMember, text) for word, text in found]
    colon = "" if _COLON.match(lines[row], column) else ": "
    return list(_fields(file, path, colon)) if path.part == "key" else []


def field_text(file: str, lines: list[str], row: int, column: int) -> str | None:
    """Return the schema's description of the key at a position, None if there is none."""
    if is_query_file(file):
        return None
    line = lines[row]
    found = next((m for m in _WORD.finditer(line) if m.start() <= column <= m.end()), None)
    if found is None or not line[found.end() :].startswith(":"):
        return None
    path = path_at(lines, row, found.end() + 1 if found.end() < len(line) else found.end())
    if not path.steps or path.steps[-1] != found[0]:
        return None
    text = description(file, path)
    return None if text is None else f"`{found[0]}`: {text}"


def _fields(file: str, path: ManifestPath, colon: str) -> Iterator[CompletionItem]:
    for key, value in fields_at(file, path).items():
        text = str(value.get("description", ""))
        yield _item(key, CompletionItemKind.Field, text, insert=f"{key}{colon}")


def _is_dataset(file: str, path: ManifestPath) -> bool:
    """Return whether a value is the name of a dataset."""
    if file.startswith("tests/"):
        return path.steps == ("dataset",) or path.steps[-2:] == ("relationship", "to")
    return path.steps[-1:] == ("datasetRef",)


def _datasets(file: str, row: int, known: ReadDefinitions) -> Iterator[CompletionItem]:
    """Yield the datasets that may be named: inputs without a cycle; in fixtures, derivatives."""
    kinds = {DatasetKind.DERIVATIVE} if file.startswith("tests/unit/") else {*DatasetKind}
    of = known.definition_at(file, row + 1)
    for alias in known.possible_inputs(of):
        each = known.of(alias)
        if file.startswith("tests/") and (each is None or each.snapshot.kind not in kinds):
            continue
        detail = "in the workspace" if each is None else f"{each.snapshot.kind.value}, {each.file}"
        yield CompletionItem(str(alias), kind=CompletionItemKind.Module, detail=detail)


def _of_query(each: Declared, known: ReadDefinitions, before: str) -> Iterator[CompletionItem]:
    """Yield the columns of the input named before a dot, else all names that a query may use."""
    inputs = known.inputs(each)
    named = _QUALIFIED.search(before)
    chosen = {named[1]: inputs[named[1]]} if named is not None and named[1] in inputs else inputs
    for name, alias in chosen.items():
        schema = known.schema(alias)
        lines = () if schema is None else column_lines(schema)
        for field, line in zip(() if schema is None else schema.fields, lines, strict=True):
            yield CompletionItem(
                field.name, kind=CompletionItemKind.Field, detail=f"{line} of {alias}"
            )
        if named is None:
            yield CompletionItem(name, kind=CompletionItemKind.Module, detail=f"input {alias}")
    if named is None:
        yield from _functions(each)


def _functions(each: Declared) -> Iterator[CompletionItem]:
    for name in sorted(_allowed_functions(each)):
        if name.isidentifier():
            yield CompletionItem(name, kind=CompletionItemKind.Function)


def _allowed_functions(each: Declared) -> Iterable[str]:
    events = each.written.metadata
    transforms = (getattr(e, "transform", None) or getattr(e, "preprocess", None) for e in events)
    steps = [step for found in transforms if found is not None for step in steps_of(found)]
    if any(step.engine == DATAFUSION for step in steps):
        from odfbuild.sql import datafusion

        return datafusion.SCALARS | datafusion.AGGREGATES | datafusion.WINDOWS
    from odfbuild.sql.spark_functions import ALLOWED

    return ALLOWED


def _item(
    word: str, kind: CompletionItemKind, text: str, insert: str | None = None
) -> CompletionItem:
    return CompletionItem(word, kind=kind, documentation=text or None, insert_text=insert)
