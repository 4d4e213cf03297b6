"""Attachment of every comment and blank line of a YAML text to a node.

A comment in the line of something stays beside it.  One in a line of its own belongs to what comes
next, unless it is indented like a block that has just ended: then it closes that block.
"""

from bisect import bisect_right

from odfbuild.project.yaml.comments import Comment, Marks
from odfbuild.project.yaml.format.print import block_text
from odfbuild.project.yaml.format.tree import Block, BlockEntry, Flow, Node, Scalar, YamlDocument
from odfbuild.values import dataclass


@dataclass(slots=True)
class _Stop:
    """An entry in the order of the text, and the blocks that it is in, outermost first."""

    entry: BlockEntry
    blocks: tuple[Block, ...]


def attach_comments(text: str, pages: list[YamlDocument], marks: Marks) -> None:
    """Put the comments of the text into its tree."""
    for page in pages:
        first = 0 if page is pages[0] else page.start
        inside = [each for each in marks.comments if first <= each.start < page.end]
        _Attaching(text, page).all(inside)


class _Attaching:
    """Comments and blank lines of one document."""

    def __init__(self, text: str, page: YamlDocument) -> None:
        self.text = text
        self.page = page
        self.stops: list[_Stop] = []
        self.raw: list[tuple[int, int]] = []
        self.kept: set[int] = set()
        self.late: list[tuple[BlockEntry, str]] = []
        self._walk(page.root, ())
        self.places = [stop.entry.start for stop in self.stops]

    def all(self, comments: list[Comment]) -> None:
        groups: list[list[Comment]] = [[] for _ in range(len(self.stops) + 1)]
        for each in comments:
            if self.page.explicit and each.start < self.page.start:
                self.page.above += self._line(each)
            elif not self._is_raw(each):
                self._sort(each, groups)
        for at, group in enumerate(groups):
            self._give(at, group)
        for entry, text in self.late:
            entry.lead.append(text)
        for stop in self.stops:
            if stop.entry is stop.blocks[-1].entries[0]:
                while stop.entry.lead[:1] == [""]:
                    del stop.entry.lead[0]

    def _walk(self, node: Node, blocks: tuple[Block, ...]) -> None:
        """Note the entries in their order, and what is kept as it is written."""
        if isinstance(node, Flow):
            self.raw.append((node.start, node.end))
        elif isinstance(node, Scalar) and node.style in ("|", ">"):
            if not block_text(node).blanks:
                self.kept.add(node.end)
        elif isinstance(node, Block):
            for entry in node.entries:
                self.stops.append(_Stop(entry, (*blocks, node)))
                self._walk(entry.value, (*blocks, node))

    def _is_raw(self, comment: Comment) -> bool:
        at = bisect_right(self.raw, (comment.start, len(self.text))) - 1
        return at >= 0 and self.raw[at][0] < comment.start < self.raw[at][1]

    def _sort(self, comment: Comment, groups: list[list[Comment]]) -> None:
        """Put a comment beside what is in its line, or into the group before the next entry."""
        at = bisect_right(self.places, comment.start)
        column = self._column(comment.start)
        if column is not None and not (at and self._is_within(comment, self.stops[at - 1])):
            groups[at].append(comment)
        elif at:
            entry = self.stops[at - 1].entry
            if entry.aside or column is not None:
                self.late.append((entry, comment.text))
            else:
                entry.aside = self._with_blanks(comment)
        elif self.page.aside:
            self.page.head += [comment.text]
        else:
            self.page.aside = self._with_blanks(comment)

    def _is_within(self, comment: Comment, stop: _Stop) -> bool:
        """Tell whether a comment stands between a key and its value."""
        value = stop.entry.value
        return not isinstance(value, Block) and comment.start < value.start

    def _give(self, at: int, group: list[Comment]) -> None:
        """Give the comments before a stop to blocks that end there, or to what comes next."""
        here = self.stops[at] if at < len(self.stops) else None
        before = self.stops[at - 1].blocks if at else ()
        ended = [block for block in before if here is None or block not in here.blocks]
        column = here.entry.column if here is not None else -1
        for each in group:
            ended = self._still_open(ended, each, column)
            if ended:
                ended[-1].tail += self._line(each)
            elif here is not None:
                here.entry.lead += self._line(each)
            elif at:
                self.page.tail += self._line(each)
            else:
                own = each.start < self._root_start()
                (self.page.head if own else self.page.tail).extend(self._line(each))
        if here is not None and self._is_blank_before(here.entry.start):
            here.entry.lead.append("")

    def _still_open(self, ended: list[Block], comment: Comment, next_column: int) -> list[Block]:
        """Return the blocks that a comment may still close; its own one is the last of them."""
        column = self._column(comment.start) or 0
        if column <= next_column:
            return []
        fits = [at for at, block in enumerate(ended) if block.column <= column]
        if not fits:
            return []
        best = max(ended[at].column for at in fits)
        last = next(at for at in fits if ended[at].column == best)
        return ended[: last + 1]

    def _root_start(self) -> int:
        root = self.page.root
        if isinstance(root, Scalar) and root.start == root.end:
            return len(self.text)
        return root.start

    def _line(self, comment: Comment) -> list[str]:
        return ["", comment.text] if self._is_blank_before(comment.start) else [comment.text]

    def _with_blanks(self, comment: Comment) -> str:
        """Return a comment with the blanks before it; it is beside what it is about."""
        before = self.text[: comment.start]
        gap = before[len(before.rstrip(" \t")) :]
        return (gap if gap.strip(" ") == "" and gap else " ") + comment.text

    def _column(self, at: int) -> int | None:
        """Return the column of what starts its line, None of anything else."""
        start = self.text.rfind("\n", 0, at) + 1
        return None if self.text[start:at].strip() else at - start

    def _is_blank_before(self, at: int) -> bool:
        start = self.text.rfind("\n", 0, at) + 1
        if start == 0 or start in self.kept or self.text[start:at].strip():
            return False
        above = self.text.rfind("\n", 0, start - 1) + 1
        return not self.text[above:start].strip()
