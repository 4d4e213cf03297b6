"""Verification of a dataset: blocks rehashed and rechecked, data files rehashed and read.

`chain`: block bytes hash to their names, links and rules hold from the seed on, for the head and
every other reference; blocks that several of them reach are looked at once.  `data`: each file
has the physical hash, size, rows and logical hash that its block records, the columns of the schema
in force, and rows that keep the rules (`data.checks.rows`); what they take back is there
(`data.retractions`).
`inputs`: the blocks and offsets that steps say they read are on the chains of the inputs
(`recorded_inputs`).  `clocks`: no block is of the future.

Data that others can make again may be encoded in another way: in a derivative dataset a file with
other bytes passes if its rows are the recorded ones (ODF 0.34.1, "Dataset Validation").  No footer
may say anything of the rows that is not so, because steps go by it.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.checks.files import cause_of, file_problems
from odfbuild.executors.verify.clocks import current_time, is_ahead
from odfbuild.executors.verify.read_heads import LOOKS, UNCERTAIN, have_changed, references
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.checks.rows import RowRules, Tail


BlockFilter = Callable[[MetadataBlock], bool]
Inputs = Callable[[ExecuteTransform, Timestamp, ChainState | None], tuple[str, ...]]
"""Say what does not hold of what a step recorded of its inputs: at a system time, after a state."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that does not hold; `block` is the one it is about, None if it is the head."""

    block: Multihash | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was looked at, and everything that does not hold (empty: all is well).

    `reencoded_files` names data files that have other bytes than recorded, but the recorded rows.
    `head` is the last block, as it was when the look began.  `is_uncertain` tells that others moved
    the references during each look, so that only what every look found is among the findings.
    """

    blocks: int
    files: int
    bytes: int
    findings: tuple[Fault, ...]
    reencoded_files: tuple[Multihash, ...] = ()
    head: ChainState | None = None
    is_uncertain: bool = False

    @property
    def reencoded(self) -> int:
        """Count the files that have other bytes than recorded."""
        return len(self.reencoded_files)


def verify(
    dataset: Dataset,
    looked: Callable[[], None] = lambda: None,
    *,
    wanted: BlockFilter | None = None,
    inputs: Inputs = lambda *_: (),
    now: Callable[[], Timestamp] = current_time,
    ahead: Callable[[Collection[Multihash]], None] = lambda _: None,
    turn: AbstractContextManager[object] | None = None,
) -> Verified:
    """Check all of one dataset; `looked` is called after each block, `now` gives the time.

    Of blocks that are not `wanted`, the files and the inputs are left alone; without them, what
    others take back is not looked up.  Once the references are read, `ahead` is given their blocks,
    and may bring what will be looked at; blocks and files are looked at within `turn`.

    What is found while others move a reference is looked for once more, as they may have given up
    what it reached.  Raises UnreachableRepositoryError.
    """
    lasting: set[str] | None = None
    for _ in range(LOOKS):
        targets = references(dataset)
        ahead([each for each in targets.values() if isinstance(each, Multihash)])
        look = _ChainView(dataset, looked, wanted, inputs, now)
        with turn or nullcontext():
            for name, target in targets.items():
                look.chain(name, target)
        if not look.findings or not have_changed(dataset, targets):
            return look.result()
        whats = {each.what for each in look.findings}
        lasting = whats if lasting is None else lasting & whats
    found = look.result()
    findings = tuple(each for each in found.findings if each.what in (lasting or ()))
    uncertain = () if len(findings) == len(found.findings) else (Fault(None, UNCERTAIN),)
    return replace(found, findings=(*findings, *uncertain), is_uncertain=True)


class _ChainView:
    """What was seen of one dataset so far."""

    def __init__(
        self,
        dataset: Dataset,
        looked: Callable[[], None],
        wanted: BlockFilter | None,
        inputs: Inputs,
        now: Callable[[], Timestamp],
    ) -> None:
        self.seen: set[Multihash] = set()
        self.files = self.size = 0
        self.reencoded_files: list[Multihash] = []
        self.findings: list[Fault] = []
        self.head: ChainState | None = None
        self._dataset = dataset
        self._looked = looked
        self._wanted = wanted
        self._inputs = inputs
        self._now = now
        self._rows: dict[Multihash, _Rows] = {}

    def chain(self, ref: str, found: Multihash | Exception | None) -> None:
        """Recheck the chain of one reference; `found` is its block, or why it cannot be read."""
        of = "" if ref == HEAD else f"the reference {ref}: "
        target = found if isinstance(found, Multihash) else None
        try:
            if isinstance(found, Exception):
                raise found
            if target is None and ref == HEAD:
                self.findings.append(Fault(None, "the dataset has no head"))
            if target is None or target in self.seen:
                return
            state = self._walk(target)
            if ref == HEAD:
                self.head = state
        except UnreachableRepositoryError:  # of which nothing can be said
            raise
        except OdfBuildError as error:
            self.findings.append(Fault(target, f"{of}{error.what}"))
        except Exception as error:  # whatever bytes bring about that nobody thought of
            self.findings.append(Fault(target, f"{of}it cannot be verified: {cause_of(error)}"))

    def result(self) -> Verified:
        """Return what was found."""
        return Verified(
            blocks=len(self.seen),
            files=self.files,
            bytes=self.size,
            findings=tuple(self.findings),
            reencoded_files=tuple(self.reencoded_files),
            head=self.head,
        )

    def _walk(self, target: Multihash) -> ChainState | None:
        """Recheck the blocks up to one, each with what it brings."""
        state, course, before = None, _Course(), len(self.findings)
        for name, block in self._dataset.blocks(upto=target):
            check_append(state, block)
            past, state = state, fold(state, block, name)
            if course.seed is None:
                course.seed = block.system_time.millis
            course.last = name
            is_new = name not in self.seen
            self.seen.add(name)
            if is_new:
                self._time(name, block)
            if is_new and (self._wanted is None or self._wanted(block)):
                self._block(name, block, state, course)
                self._read(name, block, past)
            course.follow(name, block, self._rows.get(name))
            if is_new:
                self._looked()
        if len(self.findings) == before:
            self._rows_back(state, course)
        return state

    def _time(self, name: Multihash, block: MetadataBlock) -> None:
        """Recheck that a block is not of the future."""
        now = self._now()
        if is_ahead(block.system_time, now):
            what = f"its system time is {block.system_time}, and now is {now}"
            self.findings.append(Fault(name, what))

    def _read(self, name: Multihash, block: MetadataBlock, before: ChainState | None) -> None:
        """Recheck what a step says of its inputs."""
        if isinstance(block.event, ExecuteTransform):
            found = self._inputs(block.event, block.system_time, before)
            self.findings += [Fault(name, what) for what in found]

    def _block(
        self, name: Multihash, block: MetadataBlock, state: ChainState, course: "_Course"
    ) -> None:
        """Recheck the files of a block."""
        for each in _objects(block.event):
            self.files += 1
            self.size += each.size
            rules = self._rules(each, block, state, course)
            problems, reencoded = file_problems(self._dataset, each, state.kind, rules)
            self.reencoded_files += [each.physical_hash] if reencoded else []
            self.findings += [Fault(name, what) for what in problems]
            if rules is not None and rules.first_op is not None:
                self._rows[name] = _Rows(rules.tail, rules.takes_back)

    def _rules(
        self,
        piece: DataSlice | Checkpoint,
        block: MetadataBlock,
        state: ChainState,
        course: "_Course",
    ) -> "RowRules | None":
        from odfbuild.executors.data.checks.rows import RowRules, SliceTerms
        from odfbuild.odf.schema.arrow import to_arrow

        schema = schema_in_force(state)
        if not isinstance(piece, DataSlice) or schema is None:
            return None
        terms = SliceTerms(
            vocab=state.vocab,
            start=piece.offset_interval.start,
            latest=block.system_time.millis,
            earliest=course.seed,
            exact=state.kind is DatasetKind.DERIVATIVE,
            before=course.tail,
        )
        return RowRules(terms, to_arrow(schema))

    def _rows_back(self, state: ChainState | None, course: "_Course") -> None:
        """Recheck that the rows of a chain are there that others take back."""
        from odfbuild.executors.data.checks.rows import CORRECT_FROM
        from odfbuild.executors.data.retractions import rows_in_vain

        if course.tail.op == CORRECT_FROM:
            what = "its last record is a -C, and no +C follows it"
            self.findings.append(Fault(course.last, what))
        schema = None if state is None else schema_in_force(state)
        if state is None or schema is None or self._wanted is not None or not course.takes_back:
            return
        paths = [self._dataset.data_path(each.physical_hash) for _, each in course.slices]
        for at in rows_in_vain(paths, schema, state.vocab):
            block = next(name for name, each in course.slices if at <= each.offset_interval.end)
            what = f"the record at offset {at} takes back a row that is not there"
            self.findings.append(Fault(block, what))


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the rows of one slice are for those after it."""

    tail: "Tail"
    takes_back: bool


class _Course:
    """What the blocks of one chain leave for the next: the last record, and the slices."""

    def __init__(self) -> None:
        from odfbuild.executors.data.checks.rows import START, Tail

        self.seed: int | None = None
        self.last: Multihash | None = None
        self.tail = START
        self.takes_back = False
        self.slices: list[tuple[Multihash, DataSlice]] = []
        self._unknown = Tail()

    def follow(self, name: Multihash, block: MetadataBlock, rows: _Rows | None) -> None:
        """Go on behind a block; None for rows that nobody looked at."""
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform) or event.new_data is None:
            return
        self.slices.append((name, event.new_data))
        self.tail = self._unknown if rows is None else rows.tail
        self.takes_back |= rows is not None and rows.takes_back


def _objects(event: object) -> Iterator[DataSlice | Checkpoint]:
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        yield event.new_data
    if event.new_checkpoint is not None:
        yield event.new_checkpoint
