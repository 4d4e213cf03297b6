"""Columns of a source with names of system columns: stored under other names, and reported."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read.system_columns import renamed_columns
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
)
from odfbuild.odf.schema.columns import own_names
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out

SOURCE = """kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: 'data/*.csv'}
      read: {kind: Csv, header: true, inferSchema: true}
      merge: {kind: Append}
    - kind: SetVocab
      eventTimeColumn: t
      offsetColumn: number
"""
NAMES = st.sampled_from(["offset", "op", "system_time", "_op", "__op", "_offset", "n", "m"])


def test_a_renamed_column_is_a_warning_with_place_and_way_on_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "datasets/src.yaml": SOURCE,
        "data/1.csv": "t,op,number,offset\n2024-01-01,x,1,2\n",
    }
    here = Inside(lay_out(tmp_path / "p", files), capsys, monkeypatch, FakeEngine())
    done = here("apply", "--yes")
    assert done.code == 0, done.err
    assert "datasets/src.yaml:9:7: warning[renamed-column]: data/1.csv has columns" in done.err
    assert "'op' is stored as '_op', 'number' is stored as '_number'" in done.err
    assert "'offset'" not in done.err
    assert "preprocess" in done.err
    shown = here("show", "src").out
    assert "_op" in shown
    assert "_number" in shown
    lay_out(tmp_path / "p", {"data/2.csv": "t,op,number,offset\n2024-01-02,y,1,2\n"})
    assert "renamed-column" not in here("apply", "--yes").err


@given(st.lists(NAMES, unique=True), st.booleans())
def test_other_names_are_free_and_each_is_reported(names: list[str], operations: bool) -> None:
    vocab = DatasetVocabulary()
    merge = (
        MergeStrategyChangelogStream(primary_key=("n",)) if operations else MergeStrategyAppend()
    )
    found = own_names(names, vocab, operations=operations)
    system = {"offset", "system_time", *(() if operations else ("op",))}
    assert set(found) == system & set(names)
    assert not set(found.values()) & ({*names} | system)
    assert len(set(found.values())) == len(found)
    told = list(renamed_columns(names, vocab, merge, None, "in"))
    assert bool(told) == bool(found)
    assert all(repr(new) in told[0].what for new in found.values())
