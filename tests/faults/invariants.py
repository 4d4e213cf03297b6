"""What holds after any fault: chains that are whole, as the run found or was to leave them.

Chains are read here with nothing of the workspace's own reading but the codec of blocks: no index,
no cache, no lock.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.odf.events import (
    AddData,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetTransform,
)
from odfbuild.odf.wire.blocks import decode_block
from tests.faults.server import Outcome, Runner

__all__ = ["Broken", "Chain", "Law", "chains", "leftovers"]

_BAD_OUTPUT = re.compile(
    r"Traceback \(most|Fatal Python error|Exception in thread|Exception ignored|core dumped"
    r"|^\s+at [\w.$]+\(\w+\.(?:java|scala):\d+\)",
    re.M,
)
_UNFINISHED = re.compile(r"\.pending-|\.tmp$|\.part$|\.new$|~$")


class Broken(AssertionError):
    """Something that has to hold does not."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A dataset without what differs from run to run: its definitions, its rows with offsets."""

    events: tuple[str, ...]
    rows: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.events)} definitions and {len(self.rows)} rows"

    def is_before(self, other: "Chain") -> bool:
        """Say whether this may become the other by adding to it."""
        return (
            other.events[: len(self.events)] == self.events
            and other.rows[: len(self.rows)] == self.rows
        )


def chains(project: Path) -> Mapping[str, Chain]:
    """Return the chains of all datasets that have a name; Broken if anything of one is amiss."""
    root = project / ".odfbuild"
    found = {}
    for path in _visible(root / "names"):
        id, name, _ = path.read_text("ascii").split("\n")
        folder = root / "datasets" / id.removeprefix("did:odf:")
        found[name] = _chain(folder)
    return found


def _visible(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.glob("*")) if not each.name.startswith(".")]


def _object(folder: Path, part: str, name: str) -> bytes:
    path = folder / part / name
    if not path.is_file():
        raise Broken(f"{part} {name} is missing")
    data = path.read_bytes()
    if "f1620" + hashlib.sha3_256(data).hexdigest() != name:
        raise Broken(f"{part} {name} is damaged: {len(data)} bytes")
    return data


def _blocks(folder: Path) -> Iterator[MetadataBlock]:
    """Yield the blocks of a chain, newest first."""
    head = folder / "refs" / "head"
    if not head.is_file():
        raise Broken(f"a dataset with a name has no head: {folder.name}")
    at = head.read_text("ascii")
    while True:
        block = decode_block(_object(folder, "blocks", at))
        yield block
        if block.prev_block_hash is None:
            return
        at = str(block.prev_block_hash)


def _chain(folder: Path) -> Chain:
    events: list[str] = []
    rows: list[str] = []
    for block in reversed(list(_blocks(folder))):
        match block.event:
            case AddData() | ExecuteTransform() as event:
                rows += _rows(folder, event, len(rows))
            case Seed(dataset_kind=kind):
                events.append(f"Seed {kind}")
            case event:
                events.append(_without_ids(event))
    return Chain(tuple(events), tuple(rows))


def _without_ids(event: MetadataEvent) -> str:
    if isinstance(event, SetTransform):
        inputs = tuple(each.alias for each in event.inputs)
        return f"SetTransform {inputs} {event.transform}"
    return repr(event)


def _rows(folder: Path, event: AddData | ExecuteTransform, offset: int) -> Iterator[str]:
    if event.new_checkpoint is not None:
        _object(folder, "checkpoints", str(event.new_checkpoint.physical_hash))
    if event.new_data is None:
        return
    name = str(event.new_data.physical_hash)
    data = _object(folder, "data", name)
    if event.new_data.offset_interval.start != offset:
        raise Broken(f"rows at {event.new_data.offset_interval} where {offset} is next")
    yield from _rows_of(data)


@lru_cache(10_000)
def _rows_of(data: bytes) -> tuple[str, ...]:
    """Return the rows of a slice but for the time at which it was made."""
    rows = pq.read_table(pa.BufferReader(data)).to_pylist()
    hidden = "system_time"
    return tuple(
        json.dumps({k: v for k, v in row.items() if k != hidden}, default=str) for row in rows
    )


def leftovers(project: Path) -> list[str]:
    """Return what nobody needs below a workspace that was collected and that nobody is using."""
    root = project / ".odfbuild"
    ids = {path.read_text("ascii").split("\n")[0] for path in _visible(root / "names")}
    known = {id.removeprefix("did:odf:") for id in ids}
    found = [path for path in root.rglob("*") if _UNFINISHED.search(path.name)]
    found += (root / "staging").glob("*")
    found += (path for path in (root / "datasets").glob("*") if path.name not in known)
    found += (path for path in (root / "keys").glob("*") if path.stem not in known)
    found += (root / "cache" / "spark").glob("*")
    found += (root / "cache" / "locks").glob("*")
    for name in known & {path.name for path in (root / "datasets").glob("*")}:
        found += _unreached(root / "datasets" / name)
    return sorted({str(path.relative_to(root)) for path in found})


def _unreached(folder: Path) -> Iterator[Path]:
    at = (folder / "refs" / "head").read_text("ascii")
    kept = {at}
    for block in _blocks(folder):
        kept.add(str(block.prev_block_hash))
        if isinstance(block.event, AddData | ExecuteTransform):
            for each in (block.event.new_data, block.event.new_checkpoint):
                if each is not None:
                    kept.add(str(each.physical_hash))
    for part in ("blocks", "data", "checkpoints"):
        yield from (path for path in (folder / part).glob("*") if path.name not in kept)


@dataclass(frozen=True, slots=True)
class Law:
    """What a command finds, and what it leaves where nothing disturbs it."""

    before: Mapping[str, Chain]
    after: Mapping[str, Chain]
    apply: tuple[str, ...]

    def check_end(self, outcome: Outcome) -> None:
        """Check how a disturbed command ended and what it said."""
        if outcome.code is None:
            raise Broken("it did not end in time")
        if outcome.code < 0 and outcome.code != -9:
            raise Broken(f"it ended by signal {-outcome.code}")
        if (bad := _BAD_OUTPUT.search(outcome.out)) is not None:
            raise Broken(f"it said: {outcome.out[bad.start() : bad.start() + 4000]}")

    def check_chains(self, project: Path, *, done: bool) -> None:
        """Check that every chain is whole and between old and new; new if the command is done."""
        now = chains(project)
        for name in self.before.keys() | now.keys():
            if name not in now:
                raise Broken(f"{name} is gone")
            if name not in self.after:
                raise Broken(f"{name} should not be")
            if name in self.before and not self.before[name].is_before(now[name]):
                raise Broken(f"{name} lost something: {now[name]}, had {self.before[name]}")
            if not now[name].is_before(self.after[name]):
                raise Broken(f"{name} is {now[name]}, not on its way to {self.after[name]}")
        if done and now != self.after:
            wrong = [name for name in self.after if now.get(name) != self.after[name]]
            raise Broken(f"the command ended with 0, yet {', '.join(wrong)} lack something")

    def settle(self, runner: Runner, project: Path, *, wholly: bool) -> None:
        """Go on as a user would, and check that this ends as if there had been no fault.

        Chains are checked in any case; `wholly` asks the program, too, what it thinks of them.
        """
        if wholly:
            self._ends(runner, project, "verify")
            status = runner.run(project, "status")
            if "locked by" in status.out:
                raise Broken(f"a lock is left: {status.out}")
        self._ends(runner, project, *self.apply, "--lock-timeout", "0")
        self.check_chains(project, done=True)
        if wholly:
            plan = runner.run(project, "plan")
            if plan.code != 0 or not plan.out.startswith("No changes."):
                raise Broken(f"there is still something to do: {plan.out}")
        self._ends(runner, project, "gc", "--older-than", "0s")
        self.check_chains(project, done=True)
        if left := leftovers(project):
            kinds = Counter(str(Path(each).parent) for each in left)
            raise Broken(f"gc left {', '.join(f'{n} in {kind}' for kind, n in kinds.items())}")
        if wholly:
            self._ends(runner, project, "verify")

    def _ends(self, runner: Runner, project: Path, *command: str) -> None:
        outcome = runner.run(project, *command)
        self.check_end(outcome)
        if outcome.code != 0:
            raise Broken(f"{' '.join(command)} ended with {outcome.code}: {outcome.out[-3000:]}")
