"""Lineage that chains tell: folded by hand, recorded with commits, caught up with, as of a time."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.runs.lineage import FILE, catch_up, lineage_of, relations_at
from odfbuild.lineage.chains import ChainInput, inputs_of, put_inputs, trace
from odfbuild.lineage.ids import node_id
from odfbuild.lineage.model import LineageDirection, LineageRelation
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset, SqliteLineageResource
from odfbuild.odf.events import (
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.planner.builders import sql
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

MORE = derivative("more", "out", "select t, k, v from made").replace("alias: src", "alias: made")
A, B, C, D = (DatasetId(bytes([n]) * 32) for n in range(4))


def declares(**inputs: DatasetId) -> SetTransform:
    found = tuple(TransformInput(dataset, alias) for alias, dataset in inputs.items())
    return SetTransform(found, sql("select 1"))


def reads(*datasets: DatasetId, upto: int | None = 7) -> ExecuteTransform:
    return ExecuteTransform(
        query_inputs=tuple(
            ExecuteTransformInput(dataset_id=each, new_block_hash=sha3_256(b"x"), new_offset=upto)
            for each in datasets
        ),
        prev_checkpoint=None,
        prev_offset=None,
        new_data=None,
        new_checkpoint=None,
        new_watermark=None,
    )


def chain(*events: MetadataEvent) -> list[tuple[Multihash, MetadataBlock]]:
    now = Timestamp.from_millis(0)
    return [
        (sha3_256(b"%d" % n), MetadataBlock(system_time=now, sequence_number=n, event=event))
        for n, event in enumerate(events)
    ]


def told(*inputs: ChainInput) -> dict[DatasetId, tuple[str, bool]]:
    return {each.dataset: (each.classifier, each.is_read) for each in inputs}


def test_inputs_are_known_from_when_they_are_declared() -> None:
    blocks = chain(declares(a=A, b=B))
    assert told(*trace((), blocks)) == {A: ("a", False), B: ("b", False)}
    assert told(*trace((), [*blocks, *chain(reads(A, B))])) == {A: ("a", True), B: ("b", True)}


def test_what_was_read_stays_and_what_was_only_declared_goes() -> None:
    blocks = chain(declares(a=A, b=B), reads(A), declares(c=C))
    assert told(*trace((), blocks)) == {A: ("a", True), C: ("c", False)}


def test_an_input_that_had_no_records_yet_was_not_read() -> None:
    blocks = chain(declares(a=A, b=B), reads(A), reads(B, upto=None), declares(a=A))
    assert told(*trace((), blocks)) == {A: ("a", True)}
    assert {each.block for each in trace((), blocks[:3])} == {blocks[1][0], blocks[0][0]}


def test_the_alias_last_in_force_is_the_classifier() -> None:
    blocks = chain(declares(a=A), reads(A), declares(x=A, b=B), reads(A, B), declares(b=B))
    assert told(*trace((), blocks)) == {A: ("x", True), B: ("b", True)}


def test_a_dataset_read_under_two_names_has_both() -> None:
    assert told(*trace((), chain(declares(a=A, again=A)))) == {A: ("a, again", False)}


def test_the_block_is_that_of_the_first_reading() -> None:
    blocks = chain(declares(a=A), reads(A), reads(A), declares(a=A, b=B), reads(A, B))
    assert {each.dataset: each.block for each in trace((), blocks)} == {
        A: blocks[1][0],
        B: blocks[4][0],
    }


@pytest.mark.parametrize("cut", range(8))
def test_going_on_from_any_block_is_the_same_as_from_the_seed(cut: int) -> None:
    blocks = chain(
        declares(a=A, b=B),
        reads(A),
        declares(a=A, c=C),
        reads(A, C),
        declares(z=A),
        reads(A),
        declares(b=B),
    )
    assert trace(trace((), blocks[:cut]), blocks[cut:]) == trace((), blocks)


def test_relations_that_a_chain_tells_no_more_go_and_others_stay() -> None:
    store = SqliteLineageResource()
    first, second = sha3_256(b"1"), sha3_256(b"2")
    by_hand = LineageRelation("by hand", node_id(D), node_id(C))
    store.bulk_add([by_hand])
    put_inputs(store, C, first, [ChainInput(A, "a", first), ChainInput(B, "b", first, True)])
    head, inputs = inputs_of(store, C)
    assert head == first
    assert set(inputs) == {ChainInput(A, "a", first), ChainInput(B, "b", first, True)}
    put_inputs(store, C, second, [ChainInput(B, "other", first, True)])
    assert set(store.get_all_lineage()) == {
        by_hand,
        LineageRelation("other", node_id(B), node_id(C)),
    }
    assert store.get_datasets()[node_id(B)] == KnownDataset(B)


# with a project


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = lay_out(
        tmp_path / "project",
        {
            "datasets/src.yaml": root(),
            "datasets/out.yaml": derivative(),
            "datasets/more.yaml": MORE,
            "data/1.csv": GOOD,
        },
    )
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.fixture
def workspace(run: Inside) -> Workspace:
    return Workspace(run.project / ".odfbuild")


@pytest.fixture
def store(workspace: Workspace) -> Iterator[SqliteLineageResource]:
    workspace.root.mkdir(exist_ok=True)
    found = lineage_of(workspace)
    yield found
    found.close()


def dataset(workspace: Workspace, name: str) -> Dataset:
    found = workspace.open(DatasetAlias.parse(name))
    assert found is not None
    return found


def held(store: SqliteLineageResource, workspace: Workspace) -> dict[tuple[str, str], str]:
    names = {node_id(id): str(name) for name, id in workspace.names().items()}
    return {
        (names[each.derived_id], names[each.source_id]): each.classifier
        for each in store.get_all_lineage()
    }


EXPECTED = {("out", "src"): "src", ("more", "out"): "made"}


def test_a_run_records_what_its_commits_read(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    assert held(store, workspace) == EXPECTED
    head, inputs = inputs_of(store, dataset(workspace, "out").id)
    assert head == dataset(workspace, "out").head()
    assert [(each.classifier, each.is_read) for each in inputs] == [("src", True)]


def test_a_run_is_not_disturbed_by_a_store_that_cannot_be_used(
    run: Inside, workspace: Workspace
) -> None:
    workspace.root.mkdir()
    (workspace.root / FILE).write_bytes(b"nothing of the kind" * 100)
    assert run("apply", "--yes").code == 0
    with pytest.raises(OdfBuildError, match="lineage cannot be read"):
        catch_up(workspace, lineage_of(workspace))


def test_what_was_not_recorded_is_found_in_the_chains(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    store.tables.close()
    (workspace.root / FILE).unlink()
    for suffix in ("-wal", "-shm"):
        (workspace.root / (FILE + suffix)).unlink(missing_ok=True)
    again = lineage_of(workspace)
    assert catch_up(workspace, again) == ()
    assert held(again, workspace) == EXPECTED
    assert {str(each.name) for each in again.get_datasets().values()} == {"src", "out", "more"}
    before = Path(workspace.root / FILE).stat().st_mtime_ns
    assert catch_up(workspace, again) == ()
    assert Path(workspace.root / FILE).stat().st_mtime_ns == before
    again.close()


def test_relations_that_were_removed_come_back_from_the_chain(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    store.remove(dataset(workspace, "more").id, LineageDirection.SOURCES)
    assert held(store, workspace) == {}
    catch_up(workspace, store)
    assert held(store, workspace) == EXPECTED


def test_a_chain_is_right_again_after_an_update(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    catch_up(workspace, store)
    src, out, more = (dataset(workspace, each).id for each in ("src", "out", "more"))
    said = LineageRelation("wrong", source_id=node_id(src), derived_id=node_id(out))
    noted = LineageRelation("x", source_id=UUID(int=1), derived_id=node_id(more))
    store.merge(LineageRelations(relations=[said, noted]), allow_updates=True)
    catch_up(workspace, store)
    assert LineageRelation("x", UUID(int=1), node_id(more)) in set(store.get_all_lineage())
    store.remove_relation(more, UUID(int=1))
    assert held(store, workspace) == EXPECTED


def test_a_chain_that_was_set_back_is_read_anew(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    catch_up(workspace, store)
    out = dataset(workspace, "out")
    head = out.head()
    assert head is not None
    seed = next(iter(out.blocks()))[0]
    out.set_head(seed, expected=head)
    catch_up(workspace, store)
    assert held(store, workspace) == {("more", "out"): "made"}
    out.set_head(head, expected=seed)
    catch_up(workspace, store)
    assert held(store, workspace) == EXPECTED


def test_a_chain_that_contradicts_what_was_added_is_named(
    run: Inside, workspace: Workspace, store: SqliteLineageResource
) -> None:
    assert run("apply", "--yes").code == 0
    ids = {str(name): node_id(id) for name, id in workspace.names().items()}
    with closing(sqlite3.connect(workspace.root / FILE)) as db, db:
        db.executescript("delete from relation; delete from input; delete from chain;")
    db.close()
    store.bulk_add([LineageRelation("x", source_id=ids["more"], derived_id=ids["src"])])
    (wrong,) = catch_up(workspace, store)
    assert wrong.dataset in {dataset(workspace, each).id for each in ("out", "more")}
    assert len(wrong.why.cycle) == 3
    assert len(list(store.get_all_lineage())) == 2


def test_lineage_as_of_a_time_is_what_chains_said_by_then(
    run: Inside, workspace: Workspace
) -> None:
    assert run("apply", "--yes").code == 0
    out = dataset(workspace, "out")
    blocks = list(out.blocks())
    first = blocks[0][1].system_time
    long_ago = Timestamp.from_millis(0)
    later = max(block.system_time for _, block in dataset(workspace, "more").blocks())
    assert relations_at(workspace, long_ago).relations == []
    whole = relations_at(workspace, later)
    assert {each.classifier for each in whole.relations} == {"src", "made"}
    exact = relations_at(workspace, first, {out.id: blocks[0][0]})
    assert [each for each in exact.relations if each.derived_id == node_id(out.id)] == []
