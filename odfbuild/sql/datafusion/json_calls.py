"""Calls of functions for JSON, as DataFusion is asked for them.  Pure.

A function in Python has a fixed number of arguments there, those of the reference have a document
and any number of keys.

    json_get_int(j, 'a', 0, 'b')
    json_get_int(__odf_json_rest(__odf_json_rest(j, 'a'), 0), 'b')

    json_length(j)
    __odf_json_length(j)

`json_get` gives a value of any type, which no column holds; a cast around it says which.

    json_get(j, 'a')::bigint
    json_get_int(j, 'a')::bigint
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odfbuild.sql.datafusion import JSON
from odfbuild.sql.datafusion.calls import NAMES, arguments, closing
from odfbuild.sql.reserved_names import RESERVED
from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of
from odfbuild.texts.patterns import late_pattern

ANY: Final = "json_get"
REST: Final = f"{RESERVED}json_rest"
"""Gives a document from the value of a key on, which is read as the document of the next."""
_RESTS: Final = late_pattern(rf"""{REST}\(((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*)\)""")
_TYPES: Final = {
    "json_get_bool": {"BOOLEAN"},
    "json_get_int": {"BIGINT", "INT"},
    "json_get_float": {"DOUBLE", "FLOAT", "DECIMAL"},
    "json_get_str": {"VARCHAR", "TEXT"},
}
_READERS: Final = {kind: name for name, kinds in _TYPES.items() for kind in kinds}


def without_keys(name: str) -> str:
    """Return the name of a function for JSON that is given a document and no key."""
    return f"{RESERVED}{name}"


def has_json_calls(text: str) -> bool:
    """Tell whether a text calls a function for JSON.  Raises SqlTextError."""
    if "json_" not in text.lower():
        return False
    tokens = tokens_of(text)
    return any(_is_call(tokens, at) for at in range(len(tokens)))


def with_fixed_arguments(text: str) -> str:
    """Return a text whose calls of functions for JSON have a document, and a key or none.

    Raises SqlTextError.
    """
    if "json_" not in text.lower():
        return text
    tokens = tokens_of(text)
    found: list[str] = []
    copied = at = 0
    while at < len(tokens):
        closed = closing(tokens, at + 1) if _is_call(tokens, at) else None
        if closed is None:
            at += 1
            continue
        called = [with_fixed_arguments(each) for each in arguments(text, tokens, at + 1, closed)]
        found += text[copied : tokens[at].start], _call(_name(tokens, at, closed), called)
        copied, at = tokens[closed].end + 1, closed + 1
    return "".join((*found, text[copied:]))


def name_as_written(name: str) -> str:
    """Return the name that a column without one has by the text of its call as it was written."""
    while (shorter := _RESTS.sub(r"\1", name)) != name:
        name = shorter
    return name.replace(without_keys("json_"), "json_")


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    name = tokens[at]
    called = name.kind in NAMES and name.text.lower() in JSON
    return called and at + 1 < len(tokens) and tokens[at + 1].kind == "L_PAREN"


def _name(tokens: Sequence[Token], at: int, closed: int) -> str:
    """Return the function that a call means: of `json_get` that of the type of its cast."""
    name = tokens[at].text.lower()
    after = [each.kind for each in tokens[closed + 1 : closed + 3]]
    if name != ANY or len(after) < 2:
        return name
    before = [each.text.lower() for each in tokens[max(at - 2, 0) : at]]
    if after[0] == "DCOLON" or (after[0] == "ALIAS" and before == ["cast", "("]):
        return _READERS.get(after[1], name)
    return name


def _call(name: str, called: Sequence[str]) -> str:
    """Return the text of a call with one key or none."""
    if not called:
        return f"{name}()"
    document, *keys = called
    document = _part(document)
    if not keys:
        return f"{name if name == ANY else without_keys(name)}({document})"
    for each in keys[:-1]:
        document = f"{REST}({document},{each})"
    return f"{name}({document},{keys[-1]})"


def _part(document: str) -> str:
    """Return a document that is a call of `json_get` as the part of a document that it means."""
    tokens = tokens_of(document)
    is_any = tokens and tokens[0].kind in NAMES and tokens[0].text.lower() == ANY
    closed = closing(tokens, 1) if is_any else None
    if closed is None or closed != len(tokens) - 1:
        return document
    called = arguments(document, tokens, 1, closed)
    return called[0] if len(called) == 1 else f"{REST}({', '.join(called)})"
