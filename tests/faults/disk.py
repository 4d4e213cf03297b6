"""A file system that keeps no more than POSIX says: what may be on disk after a power cut.

Recorded calls (`read_calls`) are done to a tree in memory.  A file has the content of its last
fsync and the writes since, of which each may be there, half there or not, in any order.  A folder
has the names of its last fsync and the changes since, of which each may be there or not; a rename
is one change.  A name is not kept by an fsync of its file, nor content by an fsync of a folder.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.faults.preload import Kind

__all__ = ["Call", "Disk", "Fate", "File", "Folder", "Tree", "read_calls"]

_HEADER = struct.Struct("=IIIxxxxqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that changed something below the root; paths are parts from there."""

    kind: Kind
    path: tuple[str, ...]
    target: tuple[str, ...] = ()
    offset: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        more = f" to {'/'.join(self.target)}" if self.target else ""
        return f"{self.kind.name} {'/'.join(self.path)}{more}"


def read_calls(record: Path, root: Path) -> Iterator[Call]:
    """Yield the calls of a record that the library of faults wrote."""
    data = record.read_bytes()
    at = 0
    while at < len(data):
        kind, path, target, offset, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        names = []
        for size in (path, target):
            name = data[at : at + size].decode()
            names.append(Path(name).relative_to(root).parts if name else ())
            at += size
        written = data[at : at + length] if kind == Kind.WRITE else b""
        at += len(written)
        yield Call(kind=Kind(kind), path=names[0], target=names[1], offset=offset, data=written)


class Fate(Enum):
    """What became of a change that no fsync kept."""

    LOST = 0
    HALF = 1
    KEPT = 2


@dataclass(slots=True, eq=False)
class File:
    """Content on disk, the changes since by number, and the content that programs see."""

    kept: bytes = b""
    since: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)


@dataclass(slots=True, eq=False)
class Folder:
    """Names on disk, the changes since by number, and the names that programs see."""

    kept: "dict[str, Node]" = field(default_factory=dict)
    since: "list[tuple[int, str, Node | None]]" = field(default_factory=list)
    seen: "dict[str, Node]" = field(default_factory=dict)


Node = File | Folder
Tree = dict[tuple[str, ...], bytes | None]
"""Files by path, with their content; folders with None."""


class Disk:
    """A tree that calls are done to."""

    def __init__(self, start: Path) -> None:
        """Begin with what is in a folder, all of it on disk."""
        self.root = _load(start)
        self._number = 0

    def do(self, call: Call) -> None:
        """Do one call."""
        self._number += 1
        match call.kind:
            case Kind.CREATE:
                self._name(call.path, File())
            case Kind.MKDIR:
                self._name(call.path, Folder())
            case Kind.UNLINK | Kind.RMDIR:
                self._name(call.path, None)
            case Kind.LINK:
                self._name(call.target, self._at(call.path))
            case Kind.RENAME:
                moved = self._at(call.path)
                self._name(call.path, None)
                self._name(call.target, moved)
            case Kind.WRITE | Kind.TRUNCATE:
                self._change(call)
            case Kind.SYNC:
                node = self._at(call.path)
                if isinstance(node, File):
                    node.kept = bytes(node.seen)
                else:
                    node.kept = dict(node.seen)
                node.since.clear()
            case _:
                pass  # what has no effect on content or names

    def _at(self, path: tuple[str, ...]) -> Node:
        node: Node = self.root
        for name in path:
            assert isinstance(node, Folder)
            node = node.seen[name]
        return node

    def _name(self, path: tuple[str, ...], node: Node | None) -> None:
        folder = self._at(path[:-1])
        assert isinstance(folder, Folder)
        folder.since.append((self._number, path[-1], node))
        if node is None:
            del folder.seen[path[-1]]
        else:
            folder.seen[path[-1]] = node

    def _change(self, call: Call) -> None:
        try:
            file = self._at(call.path)
        except KeyError:
            return  # of a file that has no name any more
        assert isinstance(file, File)
        data = call.data if call.kind is Kind.WRITE else None
        _apply(file.seen, call.offset, data)
        file.since.append((self._number, call.offset, data))

    def open_changes(self) -> list[int]:
        """Return the numbers of the changes that may be lost, of names and content."""
        found: set[int] = set()
        for node in self._nodes():
            found.update(change[0] for change in node.since)
        return sorted(found)

    def _nodes(self) -> Iterator[Node]:
        """Yield all nodes that may have a name after a power cut."""
        left: list[Node] = [self.root]
        met: set[int] = set()
        while left:
            node = left.pop()
            if id(node) in met:
                continue
            met.add(id(node))
            yield node
            if isinstance(node, Folder):
                left += node.kept.values()
                left += (new for _, _, new in node.since if new is not None)

    def after(self, fate: Callable[[int], Fate]) -> Tree:
        """Return what is there after a power cut with these fates of changes."""
        tree: Tree = {}
        left: list[tuple[tuple[str, ...], Node]] = [((), self.root)]
        while left:
            path, node = left.pop()
            if isinstance(node, File):
                tree[path] = _content(node, fate)
                continue
            tree[path] = None
            names = dict(node.kept)
            for number, name, new in node.since:
                if fate(number) is Fate.LOST:
                    continue
                if new is None:
                    names.pop(name, None)
                else:
                    names[name] = new
            left += (((*path, name), each) for name, each in names.items())
        return tree


def _content(file: File, fate: Callable[[int], Fate]) -> bytes:
    content = bytearray(file.kept)
    for number, at, data in file.since:
        match fate(number), data:
            case Fate.LOST, _:
                pass
            case Fate.HALF, bytes(whole):
                _apply(content, at, whole[: len(whole) // 2])
            case _:
                _apply(content, at, data)
    return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    """Write at an offset, zeros before it; without data, give the file that length."""
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


def _load(path: Path) -> Folder:
    folder = Folder()
    for each in path.iterdir():
        if each.is_dir():
            folder.seen[each.name] = _load(each)
        else:
            data = each.read_bytes()
            folder.seen[each.name] = File(data, [], bytearray(data))
    folder.kept = dict(folder.seen)
    return folder
