"""Canonical text of a layout tree of YAML."""

import re
from collections.abc import Iterable, Iterator

from odfbuild.project.yaml.format.tree import Block, BlockEntry, Flow, Node, Scalar, YamlDocument
from odfbuild.project.yaml.layout import UnusualLayoutError
from odfbuild.values import dataclass


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


_STEP = 2
_BLANK = "\0"  # in no YAML
_KEPT = "\1"
_ESCAPED_END = re.compile(r"(?:\\\\)*\\[ \t]+\Z")
_INDICATOR = re.compile(r"[1-9]")
_CHOMPING = re.compile(r"[+-]")


def print_pages(pages: list[YamlDocument]) -> str:
    """Return the text of all documents, ending with one line end; nothing of nothing."""
    text = "\n".join(_with_blank_lines(line for page in pages for line in _page(page)))
    return f"{text}\n" if text else ""


def _with_blank_lines(lines: Iterable[str]) -> Iterator[str]:
    """Put in the blank lines; behind a text that keeps its line ends they would be part of it."""
    kept = False
    for line in lines:
        if line == _KEPT:
            kept = True
        elif line != _BLANK:
            kept = False
            yield line
        elif not kept:
            yield ""


def _page(page: YamlDocument) -> Iterator[str]:
    yield from (line or _BLANK for line in _without_blank(page.above))
    root = page.root
    if page.explicit:
        yield f"---{page.aside}"
    head = _without_blank(page.head)
    yield from (line or _BLANK for line in head)
    if isinstance(root, Block):
        if root.properties:
            raise UnusualLayoutError(root.start)
        yield from _block(root, 0, opens=not head or not head[-1])
    elif root.start < root.end:
        if isinstance(root, Scalar) and root.style in ("|", ">"):
            raise UnusualLayoutError(root.start)
        first, *rest = _inline(root, 0, 0, None)
        yield first if page.explicit else first + page.aside
        yield from rest
    elif page.aside and not page.explicit:
        raise UnusualLayoutError(root.start)
    yield from (line or _BLANK for line in page.tail)


def _block(block: Block, indent: int, *, opens: bool = True) -> Iterator[str]:
    """Yield the lines of a block; none is blank before its first entry if it opens there."""
    for at, entry in enumerate(block.entries):
        lead = _lead(entry)
        for line in _without_blank(lead) if opens and at == 0 else lead:
            yield " " * indent + line if line else _BLANK
        yield from _entry(entry, block, indent)
    for line in block.tail:
        yield " " * indent + line if line else _BLANK


def _lead(entry: BlockEntry) -> list[str]:
    """Return what is above an entry; what would be behind a dash goes above it as well."""
    inside = entry.value
    if entry.key is not None or not _starts_beside(entry) or not isinstance(inside, Block):
        return entry.lead
    first = inside.entries[0]
    inner = _without_blank(_lead(first))
    lead = [*entry.lead, *inner]
    first.lead = []
    entry.lead = lead
    return lead


def _starts_beside(entry: BlockEntry) -> bool:
    """Tell whether a block starts in the line of the dash before it."""
    value = entry.value
    return (
        entry.key is None and isinstance(value, Block) and not entry.aside and not value.properties
    )


def _entry(entry: BlockEntry, block: Block, indent: int) -> Iterator[str]:
    begin = " " * indent + ("-" if entry.key is None else f"{entry.key.raw}:")
    value = entry.value
    if isinstance(value, Block):
        lines = _block(value, indent + _STEP)
        if _starts_beside(entry):
            yield f"{begin} {next(lines).lstrip(' ')}"
        else:
            yield begin + (f" {value.properties}" if value.properties else "") + entry.aside
        yield from lines
        return
    first, *rest = _inline(value, indent, block.column, entry)
    shown = f"{begin} {first}" if first else begin
    if isinstance(value, Scalar) and value.style in ("|", ">"):
        yield shown + entry.aside
        yield from rest
    elif rest:
        yield shown
        yield from rest[:-1]
        yield rest[-1] + entry.aside
    else:
        yield shown + entry.aside


def _inline(node: Node, indent: int, was: int, entry: BlockEntry | None) -> Iterator[str]:
    """Yield the lines of a scalar or of a collection in brackets; the first without indentation."""
    assert not isinstance(node, Block)  # noqa: S101 - blocks start lines of their own
    before = f"{node.properties} " if node.properties else ""
    if isinstance(node, Flow):
        first, *rest = _flow(node, indent - was)
    elif node.style in ("|", ">"):
        first, *rest = _literal(node, indent + _STEP)
    else:
        deeper = indent + _STEP if entry is not None else 0
        first, *rest = _fold(node, deeper)
    yield f"{before}{first}".rstrip(" ") if not first else f"{before}{first}"
    yield from rest


def _fold(node: Scalar, indent: int) -> Iterator[str]:
    """Lines of a plain or quoted text: blanks at their start mean nothing."""
    first, *rest = node.raw.split("\n")
    yield _trim(first) if rest else first
    for at, line in enumerate(rest, 1):
        inner = line.lstrip(" \t")
        shown = inner if at == len(rest) else _trim(inner)
        yield " " * indent + shown if shown else ""


def _trim(line: str) -> str:
    """Take blanks off the end of a line, but for one that is escaped."""
    if _ESCAPED_END.search(line):
        raise UnusualLayoutError(0)
    return line.rstrip(" \t")


def _literal(node: Scalar, indent: int) -> Iterator[str]:
    """A block of text: its own indentation and the blanks at the end of its lines stay."""
    text = block_text(node)
    sign = _INDICATOR.sub(str(_STEP), text.sign)
    if text.lines and not text.ended:
        sign = _CHOMPING.sub("", sign) + "-"
    yield sign
    for line in text.lines:
        yield " " * indent + line if line else ""
    if "+" in sign:
        yield _KEPT


def _flow(node: Flow, shift: int) -> Iterator[str]:
    """A collection in brackets: tidied up in one line, only shifted in several."""
    if "\n" not in node.raw:
        yield _one_line_text(node)
        return
    first, *rest = node.raw.split("\n")
    yield _trim(first)
    for line in rest:
        inner = line.lstrip(" \t")
        kept = _trim(inner)
        column = max(0, len(line) - len(inner) + shift)
        yield " " * column + kept if kept else ""


def _one_line_text(node: Node) -> str:
    """Return a collection of one line with single blanks; one that is unusual as it is written."""
    if isinstance(node, Scalar):
        return f"{node.properties} {node.raw}".strip(" ")
    assert isinstance(node, Flow)  # noqa: S101 - there are no blocks in brackets
    parts = []
    for key, value in node.entries:
        shown = _one_line_text(value)
        if not shown or (key is None and not _is_plain_item(value)):
            return node.raw
        parts.append(shown if key is None else f"{key.raw}: {shown}")
    sign = node.raw[0]
    if sign not in ("[", "{"):
        return node.raw
    before = f"{node.properties} " if node.properties else ""
    return before + sign + ", ".join(parts) + ("]" if sign == "[" else "}")


def _is_plain_item(node: Node) -> bool:
    return isinstance(node, Scalar) or (isinstance(node, Flow) and node.raw[:1] in ("[", "{"))


def _without_blank(lines: list[str]) -> list[str]:
    """Return lines without blank ones at their start."""
    at = next((at for at, line in enumerate(lines) if line), len(lines))
    return lines[at:]
