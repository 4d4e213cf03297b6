"""Texts in files of our own, with a checksum that says what they are and what they belong to.

    3f2a91c0            CRC-32 of what the text is of, a line end, and the text
    the text

A damaged file, or one that was put in the place of another, is no such text.

JSON objects that people read have it as a last member, `check`; the layout of the text is free.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from odfbuild.host.json_text import parse_json

_CHECK: Final = "check"


def check_sum(text: str, of: str) -> str:
    """Return the checksum of a text that belongs to something, as eight hexadecimal digits."""
    whole = f"{of}\n{text}".encode("utf-8", "surrogateescape")
    return f"{zlib.crc32(whole):08x}"


def with_check_sum(text: str, of: str) -> str:
    """Return what is put into a file for a text."""
    return f"{check_sum(text, of)}\n{text}"


def checked_text(data: bytes, of: str) -> str | None:
    """Return the text that a file holds, None if it holds none that belongs there."""
    first, _, text = data.decode("utf-8", "replace").partition("\n")
    return text if first == check_sum(text, of) else None


def object_with_check_sum(
    values: Mapping[str, Any], of: str, *, indent: int | None = None
) -> bytes:
    """Return what is put into a file for a JSON object."""
    check = {_CHECK: check_sum(_canonical(values), of)}
    return f"{json.dumps({**values, **check}, indent=indent)}\n".encode()


def checked_object(data: bytes, of: str) -> dict[str, Any] | None:
    """Return the JSON object that a file holds, None if it holds none that belongs there.

    One without a checksum is none: whatever took it away may have changed the rest.
    """
    try:
        found = parse_json(data)
        if not isinstance(found, dict):
            return None
        check = found.pop(_CHECK, None)
        return found if check == check_sum(_canonical(found), of) else None
    except (ValueError, RecursionError):
        return None


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
