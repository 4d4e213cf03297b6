"""Frames of messages between processes: the number of bytes in eight, then so many."""

from typing import BinaryIO, Final

LENGTH: Final = 8
"""Bytes in which the length of a frame stands."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return what a frame holds, None at the end of the stream or within a frame."""
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "big")
    found = stream.read(size)
    return found if len(found) == size else None


def framed(content: bytes) -> bytes:
    """Return a frame."""
    return len(content).to_bytes(LENGTH, "big") + content
