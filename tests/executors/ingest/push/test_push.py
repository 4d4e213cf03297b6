"""Pushes: exactly one commit per input, whatever is repeated, lost or killed on the way."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.ingest.commit import add
from odfbuild.executors.ingest.push.ids import push_state
from odfbuild.executors.ingest.push.push import Pushed, Pushing, push
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MetadataEvent,
    ReadStepNdJson,
    SetVocab,
)
from odfbuild.odf.opaque import Opaque, UnsupportedVariantError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.workspace import Workspace
from tests.support.data.disks import Crash, StoppingDisk, verified
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command
from tests.support.projects.pushes import pushed_to, rows
from tests.support.workshop import Workshop

COLUMNS = ("t TIMESTAMP", "k STRING NOT NULL", "v BIGINT")


def source(merge: MergeStrategy, name: str = "in") -> AddPushSource:
    return AddPushSource(source_name=name, read=ReadStepNdJson(ddl_schema=COLUMNS), merge=merge)


class Pushes(Workshop):
    """A workspace with one dataset that is pushed to, row by row."""

    def __init__(self, folder: Path, *sources: AddPushSource) -> None:
        super().__init__(folder)
        self.numbers = count()
        events: tuple[MetadataEvent, ...]
        events = (*(sources or (source(MergeStrategyAppend()),)), SetVocab(event_time_column="t"))
        prepared = CommitRequest(events, self.now)
        self.made = self.workspace.create(DatasetAlias.parse("d"), DatasetKind.ROOT, prepared)

    def given(self, key: str, id: str | None = None) -> Pushing:
        path = self.folder / f"{next(self.numbers)}.ndjson"
        path.write_text(f'{{"k": "{key}"}}\n', "utf-8")
        return Pushing(name=path.name, path=path, id=id)

    def push(self, key: str, id: str | None = None) -> Pushed:
        return push(self.site(), self.made, self.given(key, id), called="d")

    def taken(self) -> list[object]:
        """Return the keys of all rows, in the order of offsets."""
        return [row[2] for row in self.rows("d")]


def test_an_input_is_one_commit(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    first, second = pushes.push("a"), pushes.push("b")
    assert (first.blocks, first.records, first.source) == (2, 1, "in")
    assert (second.blocks, second.head) == (1, pushes.made.head())
    assert pushes.kinds("d") == ["Seed", "AddPushSource", "SetVocab", "SetDataSchema",
                                 "AddData", "AddData"]  # fmt: skip


def test_the_engine_hears_of_what_will_come_to_it(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    heard: list[int] = []
    site, given = pushes.site(), pushes.given("a", "1")
    push(site, pushes.made, given, called="d", soon=heard.append)
    push(site, pushes.made, given, called="d", soon=heard.append)
    assert heard == [given.path.stat().st_size]  # not of one that was made before
    small, large = pushes.given("b"), pushes.given("c")
    small.path.write_text("{")
    large.path.write_text("{" + " " * (1 << 21))
    for bad in (small, large):
        with pytest.raises(InvalidSourceError):
            push(site, pushes.made, bad, called="d", soon=heard.append)
    assert heard[1:] == [large.path.stat().st_size]


def test_a_source_of_a_newer_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = AddPushSource(
        source_name="in",
        read=ReadStepNdJson(ddl_schema=COLUMNS),
        merge=Opaque("MergeStrategy", 99),  # type: ignore[arg-type]
    )
    pushes = Pushes(tmp_path)
    state = pushes.made.state()
    assert state is not None
    there = replace(state, push={"in": newer})
    monkeypatch.setattr(Dataset, "state", lambda *_: there)
    with pytest.raises(UnsupportedVariantError):
        pushes.push("a")


def test_a_push_without_an_id_says_none(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    pushes.push("a", "1")
    pushes.push("b")
    said = [
        block.event.new_source_state
        for _, block in pushes.made.blocks()
        if isinstance(block.event, AddData)
    ]
    assert said == [push_state("in", "1"), None]
    assert pushes.push("a", "1").repeated


# races


@contextmanager
def racing(
    pushes: Pushes, patch: pytest.MonkeyPatch, first: Sequence[Callable[[], object]]
) -> Iterator[list[int]]:
    """Let others commit, one each time, when a push has made its rows and is about to commit."""
    engine, left, asked = pushes.engine, list(first), [0]
    ingest = engine.ingest

    def slow(request: IngestRequest) -> Frame:
        made = ingest(request)
        asked[0] += 1
        if left:
            todo = left.pop(0)
            with patch.context() as still:
                still.setattr(engine, "ingest", ingest)
                todo()
        return made

    with patch.context() as here:
        here.setattr(engine, "ingest", slow)
        yield asked


def test_a_lost_race_is_run_again_on_the_new_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = Pushes(tmp_path, source(MergeStrategyLedger(primary_key=("k",))))
    with racing(pushes, monkeypatch, [lambda: pushes.push("b"), lambda: pushes.push("c")]):
        assert pushes.push("a").records == 1
    assert pushes.taken() == ["b", "c", "a"]
    verified(pushes.made)


def test_of_two_pushes_of_one_id_one_wins_and_the_other_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = Pushes(tmp_path)
    with racing(pushes, monkeypatch, [lambda: pushes.push("a", "1")]) as asked:
        assert pushes.push("a", "1").repeated
    assert asked == [1]
    assert pushes.taken() == ["a"]


def test_a_race_that_is_always_lost_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(tmp_path)
    others = [lambda: pushes.push("b")] * 20
    with racing(pushes, monkeypatch, others), pytest.raises(HeadMovedError):
        pushes.push("a")
    assert "a" not in pushes.taken()


def test_many_at_once_are_each_made_once(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    ids = [str(number % 4) for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda id: pushes.push(f"k{id}", id), ids))
    assert sorted(map(str, pushes.taken())) == ["k0", "k1", "k2", "k3"]
    assert sum(each.repeated for each in done) == 8
    verified(pushes.made)


# crashes


def test_a_crash_anywhere_leaves_the_push_made_or_not_made(tmp_path: Path) -> None:
    steps = 0
    for at in range(60):
        folder = tmp_path / str(at)
        folder.mkdir()
        pushes = Pushes(folder)
        disk = StoppingDisk(at)
        site = pushes.site()
        crashing = Workspace(folder / "workspace", disk=disk)
        dataset = crashing.dataset(pushes.made.id)
        with suppress(Crash):
            push(pushes.site(), dataset, pushes.given("a", "1"), called="d")
            steps = at
        again = push(site, pushes.made, pushes.given("a", "1"), called="d")
        assert again.repeated == (again.blocks == 0)
        assert pushes.taken() == ["a"]
        verified(pushes.made)
        if steps:
            break
    assert steps > 5


def test_a_killed_process_leaves_the_push_made_or_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = pushed_to(tmp_path / "project")
    program, environment = command("ingest", "readings", "in/c.ndjson", "--id", "1")
    for wait in (0.2, 0.6, 0.9, 1.2):
        process = subprocess.Popen(
            program, cwd=project, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait)
        process.kill()
        process.wait()
    run = Inside(project, capsys, monkeypatch, FakeEngine())
    monkeypatch.chdir(project)
    assert run("ingest", "readings", "in/c.ndjson", "--id", "1").code == 0
    assert rows(run("show", "readings", "-o", "json").out) == [("c", 3)]
    assert run("verify").code == 0


# laws

_PUSHED = st.tuples(
    st.sampled_from("abcdef"),  # the id, and the key of the row
    st.sampled_from(["done", "crash after the commit", "fail before it"]),
)


@settings(max_examples=25, deadline=None)
@given(pushed=st.lists(_PUSHED, max_size=10))
def test_any_retries_and_repetitions_are_as_the_distinct_ids(
    pushed: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    pushes = Pushes(tmp_path_factory.mktemp("law"))
    expected: list[str] = []
    for id, how in pushed:
        if how != "fail before it" and id not in expected:
            expected.append(id)
        with pytest.MonkeyPatch.context() as patch, suppress(Crash):
            _go_wrong(patch, how, pushes.engine)
            pushes.push(id, id)
    assert pushes.taken() == expected
    ids = [
        state.value
        for _, block in pushes.made.blocks()
        if (state := getattr(block.event, "new_source_state", None)) is not None
    ]
    assert ids == expected
    verified(pushes.made)


def _go_wrong(patch: pytest.MonkeyPatch, how: str, engine: FakeEngine) -> None:
    def crash(*_: object) -> Frame:
        raise Crash

    def added(*given: object) -> object:
        add(*given)  # type: ignore[arg-type]
        raise Crash

    if how == "crash after the commit":
        patch.setattr(sys.modules["odfbuild.executors.ingest.push.push"], "add", added)
    elif how == "fail before it":
        patch.setattr(engine, "ingest", crash)


def test_the_system_time_does_not_go_back(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    pushes.push("a")
    pushes.now = Timestamp.parse("2001-01-01T00:00:00Z")
    pushes.push("b")
    times = [block.system_time for _, block in pushes.made.blocks()]
    assert times == sorted(times)
