"""The page about the keys of odfbuild.yaml: from its JSON Schema, and one file of examples."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLE", "SCHEMA", "keys", "project_page"]

_ROOT = Path(__file__).parent.parent
SCHEMA = _ROOT / "schemas" / "project.schema.json"
EXAMPLE = Path(__file__).parent / "odfbuild.example.yaml"
_ANY = "any value"
_INTRODUCTION = """\
# The keys of odfbuild.yaml

Each key with what it means, what it may be, and an example; all are optional but `odfbuild`.
`<name>` stands for a name that you choose. The examples are one file,
[odfbuild.example.yaml](odfbuild.example.yaml), which is tested as a whole; editors complete and
check the file by `odfbuild schema Project`. More on [templates](templates.md),
[selectors](selecting.md), [the gate](plans.md) and [targets](concepts.md).
"""


def project_page(mark: str) -> str:
    """Return the page, with a mark below its title."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    examples = _examples(EXAMPLE.read_text("utf-8"))
    title, rest = _INTRODUCTION.split("\n", 1)
    parts = [f"{title}\n\n{mark}\n{rest}"]
    for key, each in schema["properties"].items():
        form = _resolved(schema, each)
        lines = [f"## {key}", "", f"{_meaning(form)}", "", "```yaml", examples[key], "```", ""]
        nested = list(_nested(schema, form, ()))
        if nested:
            lines += ["| key | what it may be | meaning |", "|---|---|---|"]
            lines += [
                f"| `{'.'.join(path)}` | {_kind(schema, each)} | {_meaning(each)} |"
                for path, each in nested
            ]
            lines.append("")
        parts.append("\n".join(lines))
    return "\n".join(parts)


def keys(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key, `<name>` for one that people choose."""
    for key, form in schema["properties"].items():
        yield (key,)
        for path, _ in _nested(schema, _resolved(schema, form), ()):
            yield (key, *path)


def _examples(text: str) -> Mapping[str, str]:
    """Split a file into its keys, with all that belongs to each."""
    found: dict[str, list[str]] = {}
    key = ""
    for line in text.splitlines():
        if line and not line.startswith((" ", "-", "#")):
            key = line.partition(":")[0]
        found.setdefault(key, []).append(line)
    return {key: "\n".join(lines).strip("\n") for key, lines in found.items()}


def _resolved(schema: Mapping[str, Any], form: Any) -> Mapping[str, Any]:
    """Return a form with what it refers to."""
    if not isinstance(form, dict):
        return {}
    name = form.get("$ref", "").rpartition("/")[2]
    return {**_resolved(schema, schema["$defs"][name]), **form} if name else form


def _nested(
    schema: Mapping[str, Any], form: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    items = _resolved(schema, form.get("items"))
    for key, each in items.get("properties", {}).items():
        yield from _with_nested(schema, (*path, key), each)
    for key, each in form.get("properties", {}).items():
        yield from _with_nested(schema, (*path, key), each)
    named = _resolved(schema, form.get("additionalProperties"))
    for key, each in named.get("properties", {}).items():
        yield from _with_nested(schema, (*path, "<name>", key), each)


def _with_nested(
    schema: Mapping[str, Any], path: tuple[str, ...], form: Any
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    resolved = _resolved(schema, form)
    yield path, resolved
    yield from _nested(schema, resolved, path)


def _meaning(form: Mapping[str, Any]) -> str:
    text = str(form.get("description", "")).replace("|", "\\|")
    default = form.get("default")
    if default is None or isinstance(default, dict):
        return text
    return f"{text} Default: `{json.dumps(default)}`.".strip()


def _kind(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """Return what a value may be, in a few words."""
    if "enum" in form:
        return ", ".join(f"`{each}`" for each in form["enum"])
    if "const" in form:
        return f"`{form['const']}`"
    for several in ("oneOf", "allOf"):
        if several in form:
            found = [_kind(schema, _resolved(schema, each)) for each in form[several]]
            return " or ".join(dict.fromkeys(each for each in found if each and each != _ANY))
    types = form.get("type", _ANY)
    types = [types] if isinstance(types, str) else types
    words = {"object": "mapping", "array": "list", "string": "text", "integer": "whole number"}
    return " or ".join(words.get(each, each) for each in types if each != "null")
