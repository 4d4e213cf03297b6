"""The history that a merge reads: with or without a condensed one, the rows are the same."""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.executors.ingest import history as module
from odfbuild.executors.ingest.commit import Intake, Receiver, add
from odfbuild.executors.ingest.history import condense, history
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.files.lock import open_locked
from odfbuild.state.workspace import Workspace
from tests.support.effort import examples
from tests.support.engines import FakeEngine
from tests.support.oracles import merge as oracle

NOW = Timestamp.parse("2030-01-01T00:00:00Z")
KEY = ("k", "n")
SCHEMA = pa.schema([("t", pa.date32()), ("k", pa.string()), ("n", pa.int64()), ("v", pa.int64())])
LEDGER = MergeStrategyLedger(primary_key=KEY)
SNAPSHOT = MergeStrategySnapshot(primary_key=KEY)
UPSERT = MergeStrategyUpsertStream(primary_key=KEY)
Row = dict[str, Any]
Keyed = MergeStrategyLedger | MergeStrategySnapshot | MergeStrategyUpsertStream


class Poll:
    """A root dataset whose inputs the test gives."""

    def __init__(self, folder: Path, merge: Keyed) -> None:
        self.engine = FakeEngine()
        self.merge = merge
        self.folder = folder
        self.site = Site(
            workspace=Workspace(folder / "workspace"),
            engine=self.engine,
            clock=lambda: NOW,
            project_dir=folder,
            env={},
        )
        source = SetPollingSource(
            fetch=FetchStepFilesGlob(path="*.csv"), read=ReadStepCsv(header=True), merge=merge
        )
        events = CommitRequest((source, SetVocab(event_time_column="t")), NOW)
        alias = DatasetAlias.parse("src")
        self.dataset = self.site.workspace.create(alias, DatasetKind.ROOT, events)
        self.source = source

    def __call__(self, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> list[Row]:
        """Add rows; return those that were stored for them."""
        before = self.dataset.head()
        frame = Frame.of(pa.Table.from_pylist(list(rows), schema=schema))
        intake = Intake(name="test", frame=frame, event_time=NOW, state=None)
        with self.site.workspace.staging() as staging:
            add(self.receiver, intake, staging)
        return self.rows(after=before)

    @property
    def receiver(self) -> Receiver:
        return Receiver(
            site=self.site,
            dataset=self.dataset,
            state=self.state,
            source=self.source,
            source_name="default",
            now=NOW,
        )

    @property
    def state(self) -> ChainState:
        state = self.dataset.state()
        assert state is not None
        return state

    @property
    def kept(self) -> Path:
        """Return the folder of condensed histories."""
        return self.site.workspace.root / "cache" / "merge" / self.dataset.id.multibase

    @property
    def history(self) -> tuple[Path, ...]:
        return history(self.site, self.dataset, self.state, self.merge)

    def request(self, merge: MergeStrategy) -> IngestRequest:
        return IngestRequest(
            source=Frame.of(SCHEMA.empty_table()),
            preprocess=None,
            merge=merge,
            vocab=self.state.vocab,
            history=(),
            in_force=schema_in_force(self.state),
            staging=self.folder,
            infer=False,
        )

    def condense(self, merge: Keyed | None = None) -> None:
        condense(self.site, self.dataset, self.state, self.request(merge or self.merge))

    def rows(self, after: Multihash | None = None) -> list[Row]:
        return [
            row
            for _, block in self.dataset.blocks(after=after)
            if (piece := getattr(block.event, "new_data", None)) is not None
            for row in pq.read_table(self.dataset.data_path(piece.physical_hash)).to_pylist()
        ]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every slice be reason enough to condense."""
    monkeypatch.setattr(module, "_LEAST_ROWS", 0)
    monkeypatch.setattr(module, "_SHARE", 1 << 40)


def rows(*keys: int, v: int = 0) -> list[Row]:
    return [{"t": date(2030, 1, 1), "k": "a", "n": n, "v": v} for n in keys]


# whatever happens between polls

values = st.fixed_dictionaries(
    {
        "t": st.sampled_from([date(2030, 1, day) for day in (1, 2, 3)]),
        "k": st.sampled_from("ab"),
        "n": st.integers(0, 2),
        "v": st.none() | st.integers(0, 2),
    }
)
inputs = st.lists(values, max_size=6, unique_by=lambda row: (row["k"], row["n"]))
places = st.floats(0, 1, exclude_max=True)
happenings = st.one_of(
    st.just(("nothing",)),
    st.just(("condense",)),
    st.just(("other strategy",)),
    st.just(("other key",)),
    st.tuples(st.sampled_from(["flip", "cut", "delete"]), places, places),
    st.tuples(st.just("reset"), places),
)


def happen(poll: Poll, what: tuple[Any, ...], heads: list[tuple[Multihash, int]]) -> None:
    """Do to the cache, or the chain, what may happen to it."""
    match what:
        case ("condense",):
            poll.condense()
        case ("other strategy",):
            poll.condense(UPSERT if isinstance(poll.merge, MergeStrategyLedger) else LEDGER)
        case ("other key",):
            poll.condense(type(poll.merge)(primary_key=("v",)))
        case ("reset", place):
            del heads[1 + int(place * len(heads)) :]
            head = poll.dataset.head()
            assert head is not None
            if heads[-1][0] != head:
                poll.dataset.set_head(heads[-1][0], head)
        case (("flip" | "cut" | "delete") as how, file, byte):
            files = sorted(path for path in poll.kept.rglob("*") if path.is_file())
            if files:
                damage(files[int(file * len(files))], how, byte)
        case _:
            pass


def damage(path: Path, how: str, place: float) -> None:
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    if how == "delete":
        path.unlink()
    elif how == "cut":
        path.write_bytes(data[:at])
    elif data:
        data[at] ^= 0x10
        path.write_bytes(data)


def expected(merge: MergeStrategy, old: list[Row], new: list[Row]) -> list[Row]:
    match merge:
        case MergeStrategyLedger():
            return oracle.ledger(old, new, KEY, "t")
        case MergeStrategySnapshot():
            return oracle.snapshot(old, new, KEY, "t")
        case _:
            return oracle.upsert_stream(old, new, KEY, "t")


def by_all(found: Sequence[Row], *, in_order: bool) -> list[list[Any]]:
    shown = [[row[name] for name in ("op", "t", "k", "n", "v")] for row in found]
    return shown if in_order else sorted(shown, key=repr)


@pytest.mark.parametrize("merge", [LEDGER, SNAPSHOT, UPSERT], ids=lambda it: type(it).__name__)
@settings(
    max_examples=examples(10, 25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.tuples(inputs, happenings), min_size=2, max_size=6))
@pytest.mark.usefixtures("eager")
def test_rows_do_not_depend_on_what_is_kept_of_the_history(
    merge: Keyed,
    steps: list[tuple[list[Row], tuple[Any, ...]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    poll, log = Poll(tmp_path_factory.mktemp("poll"), merge), list[Row]()
    heads = [(poll.state.head, 0)]
    for new, what in steps:
        wanted = expected(merge, log, new)
        stored = poll(new)
        in_order = not isinstance(merge, MergeStrategyLedger)  # which the engine here leaves as is
        assert by_all(stored, in_order=in_order) == by_all(wanted, in_order=in_order)
        log = poll.rows()
        heads.append((poll.state.head, len(log)))
        happen(poll, what, heads)
        log = log[: heads[-1][1]]


# what is kept, and when


@pytest.mark.usefixtures("eager")
def test_a_merge_reads_what_was_condensed_and_the_slices_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = Poll(tmp_path, LEDGER)
    poll(rows(1, 2))
    poll(rows(2, 3))
    monkeypatch.setattr(module, "_LEAST_ROWS", 10)
    poll(rows(3, 4))
    first, *since = poll.history
    assert first.is_relative_to(poll.kept)
    assert sorted(pq.read_table(first).column("n").to_pylist()) == [1, 2, 3]
    assert since == [poll.dataset.slices()[-1][1]]


def test_a_short_history_is_read_as_it_is(tmp_path: Path) -> None:
    poll = Poll(tmp_path, SNAPSHOT)
    poll(rows(1))
    poll(rows(1, 2))
    assert poll.history == tuple(path for _, path in poll.dataset.slices())
    assert not poll.kept.exists()


def test_many_slices_are_condensed_however_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLICES", 2)
    poll = Poll(tmp_path, LEDGER)
    for n in range(3):
        poll(rows(n))
    assert len(poll.history) == 1
    poll(rows(3))
    assert len(poll.history) == 2


@pytest.mark.usefixtures("eager")
def test_blocks_before_a_condensed_history_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = Poll(tmp_path, UPSERT)
    for n in range(5):
        poll(rows(n))
    state, blocks = poll.state, poll.dataset.stores.blocks
    asked: list[Multihash] = []
    monkeypatch.setattr(type(blocks), "get", lambda _, hash: asked.append(hash))
    assert len(history(poll.site, poll.dataset, state, UPSERT)) == 1
    assert asked == []


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "error", [EngineFailedError("it broke", "so", "none"), OSError(28, "full")]
)
def test_what_cannot_be_condensed_is_a_warning(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: CondenseRequest) -> NoReturn:
        raise error

    poll = Poll(tmp_path, LEDGER)
    poll(rows(1))
    kept = poll.history
    monkeypatch.setattr(poll.engine, "condense", fail)
    assert by_all(poll(rows(1, 2)), in_order=True) == by_all(
        [{"op": 0, **rows(2)[0]}], in_order=True
    )
    assert "was not condensed" in caplog.text
    assert poll.history[:1] == kept
    assert len(list(poll.kept.iterdir())) == 1


@pytest.mark.usefixtures("eager")
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    poll = Poll(tmp_path, LEDGER)
    poll.kept.parent.mkdir(parents=True)
    poll.kept.write_text("no folder")
    poll(rows(1))
    assert [row["n"] for row in poll(rows(1, 2))] == [2]


@pytest.mark.usefixtures("eager")
def test_one_condensed_history_is_kept_and_what_others_write_is_left_alone(tmp_path: Path) -> None:
    poll = Poll(tmp_path, LEDGER)
    dead, alive = poll.kept / ".pending-dead", poll.kept / ".pending-alive"
    dead.mkdir(parents=True)
    alive.mkdir()
    lock = open_locked(alive)
    assert lock is not None
    poll(rows(1))
    poll(rows(2))
    os.close(lock)
    left = sorted(path.name for path in poll.kept.iterdir())
    assert left[0] == alive.name
    assert len(left) == 2


@pytest.mark.usefixtures("eager")
def test_a_column_that_came_since_makes_nothing_anew(tmp_path: Path) -> None:
    poll = Poll(tmp_path, UPSERT)
    poll(rows(1))
    (kept,) = poll.history
    wider = SCHEMA.append(pa.field("w", pa.int64()))
    found = poll([{**rows(1)[0], "w": 5}], wider)
    assert [(row["op"], row["w"]) for row in found] == [(2, None), (3, 5)]
    assert poll.history != (kept,)
    assert poll.engine.asked.count("condense") == 2
