"""The lines of a text that is written as a block, by | or >."""

from dataclasses import dataclass

from odfbuild.project.format_tree import Scalar

__all__ = ["BlockText", "block_text"]


@dataclass(frozen=True, slots=True)
class BlockText:
    """A block of text: its sign, and its lines without the indentation that is not part of them.

    `blanks` counts the empty lines behind it that mean nothing; `ended` is false when the file ends
    within its last line.
    """

    sign: str
    lines: tuple[str, ...]
    blanks: int
    ended: bool


def block_text(node: Scalar) -> BlockText:
    """Return the lines of a block of text."""
    header, _, body = node.raw.partition("\n")
    sign = header.partition("#")[0].strip()
    lines = body.removesuffix("\n").split("\n") if body else []
    was = _indentation(lines, node.value)
    last = len(lines)
    while "+" not in sign and last and len(lines[last - 1]) <= was and _is_empty(lines[last - 1]):
        last -= 1
    return BlockText(
        sign=sign,
        lines=tuple(line[was:] for line in lines[:last]),
        blanks=len(lines) - last,
        ended=body.endswith("\n") or last < len(lines),
    )


def _indentation(lines: list[str], value: str) -> int:
    """Return how far the lines are indented; blanks beyond that are part of the text."""
    written, read = (
        next((line for line in each if not _is_empty(line)), "")
        for each in (lines, value.split("\n"))
    )
    return _blanks_before(written) - _blanks_before(read)


def _blanks_before(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_empty(line: str) -> bool:
    return not line.strip(" ")
