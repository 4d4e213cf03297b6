"""Watermarks moved by hand: forward only, and everything else stays as it is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.manual_watermark import (
    NotARootError,
    WatermarkChange,
    move_watermark,
)
from odfbuild.odf.events import AddData, DatasetKind, MetadataEvent, SourceState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.cases import load

(CASE,) = load("watermark-manual")["cases"]
NOON = Timestamp.parse("2024-01-01T12:00:00Z")


def root(folder: Path, *events: MetadataEvent, kind: DatasetKind = DatasetKind.ROOT) -> Dataset:
    """Make a dataset that starts with these events."""
    alias = DatasetAlias.parse("src")
    return Workspace(folder / "workspace").create(alias, kind, CommitRequest(events, NOON))


def move(dataset: Dataset, to: Timestamp, now: Timestamp = NOON) -> WatermarkChange:
    return move_watermark(dataset, to, now=now, source="default")


def last(dataset: Dataset) -> AddData:
    *_, event = [block.event for _, block in dataset.blocks()]
    assert isinstance(event, AddData)
    return event


def test_vector_watermarks_move_forward_only(tmp_path: Path) -> None:
    dataset, step = root(tmp_path), dict[str, Any]()
    for step in CASE["steps"]:
        before = len(list(dataset.blocks()))
        moved = move(dataset, Timestamp.parse(step["set"]))
        state = dataset.state()
        assert state is not None
        assert moved.after == state.watermark == Timestamp.parse(step["watermark"])
        assert (moved.before != moved.after) == (step["expect"] == "updated")
        assert len(list(dataset.blocks())) - before == step["blocksAdded"]


@given(seconds=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=6))
def test_the_watermark_is_the_latest_that_was_asked_for(
    seconds: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    dataset = root(tmp_path_factory.mktemp("moved"))
    for number, each in enumerate(seconds, 1):
        moved = move(dataset, Timestamp(each * 10**9))
        assert moved.after == Timestamp(max(seconds[:number]) * 10**9)
    assert last(dataset).new_watermark == Timestamp(max(seconds) * 10**9)


def test_the_state_of_the_source_is_kept(tmp_path: Path) -> None:
    known = SourceState("default", "odf/etag", "v1")
    dataset = root(tmp_path, AddData(new_watermark=NOON, new_source_state=known))
    later = Timestamp(NOON.nanos + 1)
    assert move(dataset, later) == WatermarkChange(NOON, later, dataset.head())
    assert last(dataset) == AddData(new_watermark=later, new_source_state=known)


def test_the_block_is_not_older_than_the_one_before_it(tmp_path: Path) -> None:
    dataset = root(tmp_path)
    move(dataset, NOON, now=Timestamp(0))
    *_, block = [each for _, each in dataset.blocks()]
    assert block.system_time == NOON


def test_the_watermark_of_a_derivative_is_that_of_its_inputs(tmp_path: Path) -> None:
    dataset = root(tmp_path, kind=DatasetKind.DERIVATIVE)
    head = dataset.head()
    with pytest.raises(NotARootError, match="is no root dataset"):
        move(dataset, NOON)
    assert dataset.head() == head
