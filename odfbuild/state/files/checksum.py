"""Texts in files of our own, with a checksum that says what they are and what they belong to.

    3f2a91c0            CRC-32 of what the text is of, a line end, and the text
    the text

A damaged file, or one that was put in the place of another, is no such text.  Of several texts, a
line says how many bytes each has:

    97d4e02b
    2 14
    {}the other text

JSON objects that people read have it as a last member, `check`; the layout of the text is free.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from odfbuild.host.json_text import parse_json
from odfbuild.state.files.disk import pending, read_file

_CHECK: Final = "check"
_FIRST: Final = len("3f2a91c0\n")  # bytes of the checksum and its line end


def check_sum(text: str, of: str) -> str:
    """Return the checksum of a text that belongs to something, as eight hexadecimal digits."""
    return _check_sum((_bytes(text),), of)


def with_check_sum(text: str, of: str) -> str:
    """Return what is put into a file for a text."""
    return f"{check_sum(text, of)}\n{text}"


def texts_with_check_sum(texts: Iterable[str], of: str) -> list[bytes]:
    """Return what is put into a file for texts, which may be long: its parts."""
    bodies = [_bytes(text) for text in texts]
    parts = [f"{' '.join(str(len(body)) for body in bodies)}\n".encode(), *bodies]
    return [f"{_check_sum(parts, of)}\n".encode(), *parts]


def checked_text(data: bytes, of: str) -> str | None:
    """Return the text that a file holds, None if it holds none that belongs there."""
    body = _checked(data, of)
    return None if body is None else _text(body)


def checked_texts(data: bytes, of: str) -> list[str]:
    """Return the texts that a file holds, none if it holds none that belong there.

    Raises ValueError where it holds something else that belongs there.
    """
    body = _checked(data, of)
    if body is None:
        return []
    at = data.index(b"\n", _FIRST) + 1 - _FIRST
    found = []
    for length in map(int, bytes(body[:at]).split()):
        found.append(_text(body[at : at + length]))
        at += length
    return found


def write_document(path: Path, value: Any) -> bool:
    """Put a JSON value into a file of a cache, whatever was in it; say whether that could be done.

    The checksum is of the value and the name of the file.
    """
    draft = pending(path.parent)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(with_check_sum(f"{json.dumps(value)}\n", path.name), "utf-8")
        draft.replace(path)
        return True
    return False


def read_document(path: Path) -> Any:
    """Return the JSON value in a file of a cache, None if there is none or it cannot be read."""
    with suppress(OSError, ValueError):
        text = checked_text(read_file(path) or b"", path.name)
        return None if text is None else parse_json(text)
    return None


def _checked(data: bytes, of: str) -> memoryview | None:
    body = memoryview(data)[_FIRST:]
    return body if data.startswith(f"{_check_sum((body,), of)}\n".encode()) else None


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(body: memoryview) -> str:
    return str(body, "utf-8", "surrogateescape")


def _check_sum(parts: Iterable[bytes | memoryview], of: str) -> str:
    found = zlib.crc32(_bytes(f"{of}\n"))
    for part in parts:
        found = zlib.crc32(part, found)
    return f"{found:08x}"


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
