"""Named references to blocks: `head`, which commits move, and any other name that people give.

A branch is a name and nothing else: its blocks and files are those of the dataset.  A name goes
forward only, to a block that has the present one among its ancestors, and by compare-and-swap.
"""

import re
from collections.abc import Iterator, Mapping

from odfbuild.errors import ProtocolError, StateError
from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.texts.redaction import excerpt
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_PART = re.compile(r"[0-9a-f]{6,}")
_NUMBER = re.compile(r"[0-9]+")


class UnknownRefError(StateError):
    """A dataset has no reference of that name."""

    code = "unknown-ref"


class UnknownBlockError(StateError):
    """A text does not name a block of a dataset."""

    code = "unknown-block"


class AmbiguousBlockError(StateError):
    """A part of a hash matches several blocks."""

    code = "ambiguous-block"


class ProtectedRefError(StateError):
    """The head cannot be set or deleted by hand."""

    code = "protected-ref"


class NotFastForwardError(StateError):
    """A reference would move back, or to another branch."""

    code = "not-fast-forward"

    def __init__(self, name: str, current: Multihash, new: Multihash) -> None:
        super().__init__(
            what=f"the reference {name} is {current}, which does not come before {new}",
            why="references only move forward, so that their readers do not lose blocks",
            fix="choose another name, or delete this one and set it again",
        )
        self.current = current
        self.new = new


@dataclass(frozen=True, slots=True, kw_only=True)
class RefPosition:
    """Where a reference stands: the number of its block, and the blocks between it and the head.

    `behind` of them only the head reaches, `ahead` only the reference.  `problem` says why nothing
    of this is known.
    """

    name: str
    block: Multihash
    sequence: int | None = None
    behind: int = 0
    ahead: int = 0
    problem: str | None = None


def ancestry(
    dataset: Dataset, block: Multihash | None
) -> Iterator[tuple[Multihash, MetadataBlock]]:
    """Yield a block and all that come before it, newest first."""
    while block is not None:
        found = dataset.block(block)
        yield block, found
        block = found.prev_block_hash


def refs(dataset: Dataset) -> Mapping[str, Multihash]:
    """Return all references of a dataset by name."""
    heads = dataset.stores.heads
    found = ((name, heads.read(name)) for name in heads.names())
    return {name: block for name, block in found if block is not None}


def find_ref(dataset: Dataset, name: str) -> Multihash:
    """Return the block of a reference, or raise UnknownRefError."""
    known = refs(dataset)
    if name not in known:
        raise UnknownRefError(
            what=f"the dataset has no reference named {name!r}",
            why="it was never set, or was deleted",
            fix=did_you_mean(name, known) or "odfbuild ref list shows them",
        )
    return known[name]


def find_block(dataset: Dataset, text: str) -> Multihash:
    """Return the one block that a text means.

    It is the name of a reference; else a sequence number on the head's chain; else a hash, or at
    least six characters of its start or end, of a block that some reference reaches.  Raises
    UnknownBlockError or AmbiguousBlockError.
    """
    known = refs(dataset)
    if text in known:
        return known[text]
    if _NUMBER.fullmatch(text) and (found := _numbered(dataset, text)) is not None:
        return found
    part = text.lower()
    if _PART.fullmatch(part):
        matching = {hash for hash, _ in _reached(dataset, known) if _matches(str(hash), part)}
        if len(matching) > 1:
            raise _ambiguous(text, matching)
        if matching:
            return matching.pop()
    raise _unknown(dataset, text)


def positions(dataset: Dataset) -> tuple[RefPosition, ...]:
    """Return where all references stand: the head first, then by name."""
    known = refs(dataset)
    wanted = set(known.values())
    chain: dict[Multihash, int] = {}
    for hash, block in ancestry(dataset, dataset.head()):
        chain[hash] = block.sequence_number
        wanted.discard(hash)
        if not wanted:
            break
    names = sorted(known, key=lambda name: (name != HEAD, name))
    return tuple(_position(dataset, name, known[name], chain) for name in names)


def advance(dataset: Dataset, name: str, block: Multihash) -> Multihash | None:
    """Set a reference to a block that comes after its present one; return that, None if new.

    Raises, having changed nothing: ProtectedRefError for the head, NotFastForwardError,
    HeadMovedError when somebody else was faster.
    """
    _refuse_head(name, "set")
    heads = dataset.stores.heads
    with heads.lock():  # of what no reference reaches, nothing goes meanwhile
        current = heads.read(name)
        dataset.block(block)
        if current == block:
            return current
        if current is not None and not any(hash == current for hash, _ in ancestry(dataset, block)):
            raise NotFastForwardError(name, current, block)
        heads.swap(name, expected=current, new=block)
    return current


def remove(dataset: Dataset, name: str) -> Multihash:
    """Delete a reference and return the block that it had; nothing else is deleted.

    Raises UnknownRefError, ProtectedRefError for the head, or HeadMovedError.
    """
    _refuse_head(name, "deleted")
    current = find_ref(dataset, name)
    dataset.stores.heads.delete(name, expected=current)
    return current


def _numbered(dataset: Dataset, text: str) -> Multihash | None:
    number = int(text) if len(text) < 20 else None
    if number is None:
        return None
    for hash, block in ancestry(dataset, dataset.head()):
        if block.sequence_number <= number:
            return hash if block.sequence_number == number else None
    return None


def _reached(
    dataset: Dataset, known: Mapping[str, Multihash]
) -> Iterator[tuple[Multihash, MetadataBlock]]:
    """Yield every block that some reference reaches, once."""
    seen: set[Multihash] = set()
    for target in known.values():
        for hash, block in ancestry(dataset, target):
            if hash in seen:
                break
            seen.add(hash)
            yield hash, block


def _matches(hash: str, part: str) -> bool:
    return hash.startswith(part) or hash.endswith(part) or hash[5:].startswith(part)


def _position(
    dataset: Dataset, name: str, target: Multihash, chain: Mapping[Multihash, int]
) -> RefPosition:
    newest = max(chain.values(), default=-1)
    if target in chain:
        number = chain[target]
        return RefPosition(name=name, block=target, sequence=number, behind=newest - number)
    try:
        return _off_head(dataset, name, target, chain, newest)
    except (StateError, ProtocolError) as error:
        return RefPosition(name=name, block=target, problem=error.what)


def _off_head(
    dataset: Dataset, name: str, target: Multihash, chain: Mapping[Multihash, int], newest: int
) -> RefPosition:
    """Place a reference that the head does not reach, from where its chain leaves the head's."""
    ahead, fork = 0, -1
    for hash, _ in ancestry(dataset, target):
        if hash in chain:
            fork = chain[hash]
            break
        ahead += 1
    return RefPosition(
        name=name, block=target, sequence=fork + ahead, behind=newest - fork, ahead=ahead
    )


def _refuse_head(name: str, verb: str) -> None:
    if name == HEAD:
        raise ProtectedRefError(
            what=f"{HEAD!r} cannot be {verb} by hand",
            why="it is the end of the dataset, and moves when blocks are appended",
            fix="choose another name; odfbuild apply moves the head",
        )


def _unknown(dataset: Dataset, text: str) -> UnknownBlockError:
    state = dataset.state()
    last = "" if state is None else f", a number from 0 to {state.sequence}"
    return UnknownBlockError(
        what=f"{excerpt(text, 100)!r} is not a block of the dataset",
        why=f"a block is named by a reference such as {HEAD!r}{last}, a hash, or six characters of "
        "its start or end",
        fix="odfbuild log shows the blocks, odfbuild ref list the references",
    )


def _ambiguous(text: str, matching: set[Multihash]) -> AmbiguousBlockError:
    shown = ", ".join(sorted(map(str, matching))[:3])
    return AmbiguousBlockError(
        what=f"{text!r} may be {len(matching)} blocks: {shown}",
        why="exactly one block must match",
        fix="give more characters of its hash",
    )
