"""Plain values -> YAML text in the style of published manifests.

Dashes are at the indentation of their key, texts are bare where no reader could take them for
something else, texts of several lines are literal blocks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odfbuild.texts.patterns import late_pattern

_NOT_BARE = late_pattern(
    r"""
    [-?:,\[\]{}#&*!|>'"%@`\s]        # a first character with a meaning
    | .*(?::\ |\ \#|:$|\s$)          # a key, a comment or a blank at the end
    | (?:~|null|true|false|yes|no|on|off|y|n|=|<<)$
    | [-+]?(?:\.?[0-9][0-9_]*|0[xob][0-9a-f_]+)(?:[.:][0-9_.:]*)?(?:e[-+]?[0-9]+)?$
    | [-+]?\.(?:inf|nan)$
    | ---|\.\.\.
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UNUSUAL = late_pattern(
    r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_UNBLOCKABLE = late_pattern(r"\A\s*\Z|^[ ]+$|\A\n|\A[ ]", re.MULTILINE)


def yaml_text(value: Any) -> str:
    """Return the text of one document; ends with a newline."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _under(f"{indent}{_scalar(key)}:", item, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            first, *rest = _lines(item, f"{indent}  ")
            yield f"{indent}- {first.removeprefix(indent + '  ')}"
            yield from rest
    else:
        yield from _leaf(value, indent)


def _under(key: str, value: Any, indent: str) -> Iterator[str]:
    """Write a value after its key: beside it if it is a scalar, else below."""
    if isinstance(value, Mapping) and value:
        yield key
        yield from _lines(value, f"{indent}  ")
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        yield key
        yield from _lines(value, indent)
    else:
        first, *rest = _leaf(value, f"{indent}  ")
        yield f"{key} {first.strip()}"
        yield from rest


def _leaf(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and not _needs_escapes(value):
        body = value.removesuffix("\n")
        tail = "" if value.endswith("\n") else "-"
        if body.endswith("\n"):
            tail = "+"
        yield f"{indent}|{tail}"
        yield from (f"{indent}{line}" if line else "" for line in body.split("\n"))
    else:
        yield f"{indent}{_scalar(value)}"


def _needs_escapes(text: str) -> bool:
    return bool(_UNUSUAL.search(text) or _UNBLOCKABLE.search(text))


def _scalar(value: Any) -> str:
    """Return a value of one line."""
    match value:
        case None:
            return "null"
        case True | False:
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case _:
            return "[]" if isinstance(value, Sequence) else "{}"


def _text(text: str) -> str:
    if "\n" in text or _UNUSUAL.search(text):
        return f'"{"".join(map(_escape, text))}"'
    if text == "" or _NOT_BARE.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _escape(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char == "\n":
        return "\\n"
    if not _UNUSUAL.match(char):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
