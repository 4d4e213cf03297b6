"""Chains that a newer version of the format has written to: shown, checked, never acted on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.engine.context import Site
from odfbuild.executors.ingest.poll import ingest
from odfbuild.odf.chain.state import fold
from odfbuild.odf.events import MetadataBlock, MetadataEvent, SetInfo
from odfbuild.odf.identity import Multihash
from odfbuild.odf.opaque import UnsupportedVariantError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import without_jvm
from tests.support.values.newer import as_newer, in_envelope


def source_of(project: Path) -> Dataset:
    dataset = Workspace(project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert dataset is not None
    return dataset


def append(dataset: Dataset, event: MetadataEvent, union: str, tag: int) -> Multihash:
    """Append an event, a member of a union in it being of a newer version."""
    state = dataset.state()
    assert state is not None
    block = MetadataBlock(
        system_time=state.system_time,
        prev_block_hash=state.head,
        sequence_number=state.sequence + 1,
        event=event,
    )
    data = in_envelope(as_newer(block, union, tag))
    head = dataset.append([data], on=state).head
    assert dataset.stores.blocks.get(head) == data
    return head


def lines(text: str, start: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith(start)]


def test_an_event_that_is_not_known_is_copied_and_shown(project: Path) -> None:
    head = append(source_of(project), SetInfo(), "MetadataEvent", 14)
    for command in ("status", "verify"):
        done = without_jvm(command, cwd=project)
        assert (done.code, done.err) == (0, "")
    assert head.short() in without_jvm("status", cwd=project).out
    shown = without_jvm("log", "src", cwd=project).out
    first, rest = shown.split("\n\n", maxsplit=1)
    assert first.startswith(f"block {head}\n")
    assert first.endswith("Unknown\n    union: MetadataEvent\n    tag: 14")
    assert "AddData" in rest


def test_nothing_is_to_do_after_an_event_that_is_not_known(project: Path) -> None:
    append(source_of(project), SetInfo(), "MetadataEvent", 14)
    done = without_jvm("plan", cwd=project)
    assert (done.code, done.err) == (0, "")
    done = without_jvm("apply", "--yes", cwd=project)
    assert (done.code, done.err) == (0, "")


def test_blocks_are_committed_after_an_event_that_is_not_known(project: Path) -> None:
    append(source_of(project), SetInfo(), "MetadataEvent", 14)
    (project / "data" / "2.csv").write_text((project / "data" / "1.csv").read_text("utf-8"))
    done = without_jvm("apply", "--yes", cwd=project)
    assert done.code == 0, done.err
    assert "ingest:src: 1 block" in done.err
    assert without_jvm("verify", cwd=project).code == 0


def test_an_event_that_is_not_known_is_never_ours_to_write(project: Path) -> None:
    dataset = source_of(project)
    head = append(dataset, SetInfo(), "MetadataEvent", 14)
    block, state = dataset.block(head), dataset.state()
    assert state is not None
    with pytest.raises(UnsupportedVariantError, match="MetadataEvent has no variant number 14"):
        dataset.commit(CommitRequest((block.event,), state.system_time), on=dataset.state(head))
    assert dataset.head() == head


def test_a_source_that_is_not_known_is_shown_and_replaced_by_the_declared_one(
    project: Path,
) -> None:
    dataset = source_of(project)
    state = dataset.state()
    assert state is not None
    assert state.polling is not None
    append(dataset, state.polling, "FetchStep", 200)
    shown = without_jvm("log", "src", cwd=project).out.split("\n\n")[0]
    assert "    fetch:\n      kind: Unknown\n      union: FetchStep\n      tag: 200" in shown
    assert lines(without_jvm("plan", cwd=project).out, "~")
    done = without_jvm("apply", "--yes", cwd=project)
    assert done.code == 0, done.err
    replaced = source_of(project).state()
    assert replaced is not None
    assert replaced.polling == state.polling


def test_a_source_that_is_not_known_is_not_polled(project: Path) -> None:
    dataset = source_of(project)
    state = dataset.state()
    assert state is not None
    assert state.polling is not None
    head = append(dataset, state.polling, "FetchStep", 200)
    site = Site(
        workspace=Workspace(project / ".odfbuild"),
        engine=FakeEngine(),
        clock=lambda: state.system_time,
        project_dir=project,
        env={},
    )
    with pytest.raises(UnsupportedVariantError, match="FetchStep has no variant number 200"):
        ingest(site, dataset, lambda _: None)
    assert dataset.head() == head


def test_the_state_goes_on_as_if_the_event_were_not_there(project: Path) -> None:
    dataset = source_of(project)
    before = dataset.state()
    assert before is not None
    head = append(dataset, SetInfo(), "MetadataEvent", 14)
    after = fold(before, dataset.block(head), head)
    assert replace(after, head=before.head, sequence=before.sequence) == before
    assert Workspace(project / ".odfbuild").states()[DatasetAlias.parse("src")] == after
