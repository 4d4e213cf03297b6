"""Read the schemas of a lock file fast, as long as they stand exactly as they are written.

Ten thousand of them are a large YAML file.  Whatever looks unusual is left to the strict reader,
which knows the place of everything.
"""

import re
from typing import Any

__all__ = ["read_entries"]

_START = "\nschemas:\n"
_COLUMN = r"(?:[A-Za-z_][A-Za-z0-9_]* [A-Z][A-Za-z0-9_(),<> ]*[A-Za-z0-9_)>]|'[ -&(-~]*')"
_ENTRY = re.compile(
    r"  (?!(?i:null|true|false):)([A-Za-z][A-Za-z0-9/.-]*):\n"
    r"    definition: (f1620[0-9a-f]{64})\n"
    r"    inputs: (f1620[0-9a-f]{64})\n"
    r"    engine: ([0-9][0-9A-Za-z.+-]*\+[0-9A-Za-z.+-]*)\n"
    rf"(?:    columns:\n((?:    - {_COLUMN}\n)+)"
    r"|    unknown: (the [A-Za-z0-9 ,./-]*[a-z])\n)"
)


def read_entries(text: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the text without its schemas, and these; or the whole text and none.

    Only what the strict reader would take in the same way is taken: all schemas of a file, or none.
    """
    head, found, body = text.partition(_START)
    if not found or not body.isascii() or "\r" in head:
        return text, {}
    entries: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(body):
        entry = _ENTRY.match(body, at)
        if entry is None or entry[1] in entries:
            return text, {}
        entries[entry[1]] = _values(entry)
        at = entry.end()
    return f"{head}\n", entries


def _values(entry: re.Match[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"definition": entry[2], "inputs": entry[3], "engine": entry[4]}
    if entry[6] is not None:
        return {**values, "unknown": entry[6]}
    lines = entry[5][6:-1].split("\n    - ")
    return {**values, "columns": tuple(each.strip("'") for each in lines)}
