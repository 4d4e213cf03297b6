"""Frames of messages between processes: the length in eight bytes, then the content."""

from typing import BinaryIO, Final

LENGTH: Final = 8
"""The size of the length of a frame, in bytes."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the content of a frame, None at the end of the stream or within a frame."""
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "big")
    found = stream.read(size)
    return found if len(found) == size else None


def framed(content: bytes) -> bytes:
    """Return a frame."""
    return len(content).to_bytes(LENGTH, "big") + content
