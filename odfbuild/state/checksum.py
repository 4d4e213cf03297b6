"""Texts in files of our own, with a checksum that says what they are and what they belong to.

    3f2a91c0            CRC-32 of what the text is of, a line end, and the text
    the text

A damaged file, or one that was put in the place of another, is no such text.
"""

import zlib

__all__ = ["check_sum", "checked_text", "with_check_sum"]


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
