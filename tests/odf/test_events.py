"""Value classes act as frozen dataclasses, and all that is generated is current."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DisablePollingSource,
    MergeStrategyAppend,
    OffsetInterval,
    Seed,
    SourceState,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.record import Record
from odfbuild.odf.wire.layout import TABLES
from tests.support.values.strategies import records

ROOT = Path(__file__).parents[2]
CLASSES = sorted(TABLES, key=lambda cls: cls.__name__)
any_record = st.sampled_from(CLASSES).flatmap(records)


def test_what_is_generated_is_current() -> None:
    command = [sys.executable, "schemas/generate.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_fields_stand_in_the_order_of_the_wire(cls: type[Record]) -> None:
    fields = [field.name for field in dataclasses.fields(cls)]
    slots = [slot.slot for slot in TABLES[cls].slots]
    assert fields == [slot.name for slot in TABLES[cls].slots]
    assert slots == sorted(slots)
    assert not hasattr(object.__new__(cls), "__dict__")


@given(any_record)
def test_equal_values_have_equal_hashes_and_texts(value: Record) -> None:
    same = dataclasses.replace(value)
    assert same == value
    assert hash(same) == hash(value)
    assert repr(same) == repr(value)


@given(any_record)
def test_values_survive_copying_and_pickling(value: Record) -> None:
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


@given(any_record)
def test_no_field_can_be_assigned_or_deleted(value: Record) -> None:
    names = [field.name for field in dataclasses.fields(value)]
    for name in [*names, "other"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, name)


def test_values_of_different_classes_differ_even_without_fields() -> None:
    assert DisablePollingSource() == DisablePollingSource()
    assert len({DisablePollingSource(), MergeStrategyAppend(), DisablePollingSource()}) == 2
    assert OffsetInterval(0, 1) != (0, 1)


def test_values_are_taken_apart_by_match_and_changed_by_replace() -> None:
    match OffsetInterval(1, 2):
        case OffsetInterval(start, end):
            assert (start, end) == (1, 2)
    assert dataclasses.replace(OffsetInterval(1, 2), end=3) == OffsetInterval(1, 3)


def test_values_show_their_fields() -> None:
    seed = Seed(DatasetId(bytes(32)), DatasetKind.ROOT)
    assert repr(seed).startswith("Seed(dataset_id=DatasetId(")
    assert repr(AddData()).count("=None") == 7
    assert repr(SourceState("a", "b", "c")) == "SourceState(source_name='a', kind='b', value='c')"


def test_fields_after_an_optional_one_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        SqlQueryStep("select 1")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        TransformSql("spark")  # type: ignore[call-arg]
