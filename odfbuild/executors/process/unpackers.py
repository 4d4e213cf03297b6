"""Built-in decompressors in the place of Pipe commands that only decompress."""

from collections.abc import Sequence
from typing import Final

_UNPACKERS: Final = {
    "bzip2": "bzip2",
    "bunzip2": "bzip2",
    "bzcat": "bzip2",
    "xz": "xz",
    "unxz": "xz",
    "xzcat": "xz",
    "zstd": "zstd",
    "unzstd": "zstd",
    "zstdcat": "zstd",
}
_UNPACKING: Final = frozenset({"-d", "-dc", "-cd", "--decompress"})
_PRINTING: Final = frozenset({"-c", "--stdout"})


def unpacker_of(command: Sequence[str]) -> str | None:
    """Return which decompression a command is: bzip2, xz, zstd; None for every other command.

    Such a command needs no program: `[xz, -dc]` gives the same bytes wherever it is run.
    """
    program, *options = command
    kind = _UNPACKERS.get(program)
    given = set(options)
    if kind is None or not given <= _UNPACKING | _PRINTING:
        return None
    return kind if program != kind or given & _UNPACKING else None
