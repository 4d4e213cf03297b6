"""Text from outside, made safe to print: nothing in it can steer a terminal or break a line."""

import json
import re

__all__ = ["printable", "printable_json"]

_UNUSUAL = re.compile(r"[^\n\x20-\x7e]")


def printable(text: str) -> str:
    """Return the text with control, format and unreadable characters shown as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_json(text: str) -> str:
    """Return JSON of the same value, with such characters escaped as JSON does it."""
    return text if text.isprintable() else _UNUSUAL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    sign = found.group()
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]
