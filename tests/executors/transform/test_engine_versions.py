"""A step is for the version of the engine that its transform records, or is not run."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import EngineVersionError, engine_version
from odfbuild.state.chain.commit_request import CommitRequest
from tests.executors.runs.test_scheduler import copy
from tests.support.workshop import Workshop, ledger

DECLARED = [ledger(), copy("out", "src")]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a root with a row that its derivative has read, and one that it has not."""
    made = Workshop(tmp_path)
    made.file("1.csv", "2024-01-01,a,1")
    assert not made.apply(DECLARED).failures
    made.file("2.csv", "2024-01-02,b,2")
    return made


def record(shop: Workshop, version: str | None) -> None:
    """Say that the query of the derivative is for a version."""
    dataset = shop.dataset("out")
    state = dataset.state()
    assert state is not None
    assert state.transform is not None
    sql = replace(state.transform.transform, version=version)
    event = replace(state.transform, transform=sql)
    dataset.commit(CommitRequest((event,), state.system_time), on=state)


def test_a_transform_records_the_installed_version(shop: Workshop) -> None:
    state = shop.dataset("out").state()
    assert state is not None
    assert state.transform is not None
    assert state.transform.transform.version == engine_version("spark")


def test_a_step_of_another_version_is_refused_and_names_the_way_out(shop: Workshop) -> None:
    record(shop, "4.2.0+odfbuild.1")
    head = shop.dataset("out").head()
    ((step, failed),) = shop.apply(DECLARED).failures
    assert step.id == "transform:out"
    assert isinstance(failed.error, EngineVersionError)
    assert "spark 4.2.0+odfbuild.1" in failed.error.what
    assert str(engine_version("spark")) in failed.error.what
    assert "odfbuild engine upgrade out" in failed.error.fix
    assert shop.dataset("out").head() == head


def test_a_dataset_that_is_up_to_date_is_left_in_peace(shop: Workshop) -> None:
    shop.apply(DECLARED)
    record(shop, "4.2.0+odfbuild.1")
    assert not shop.apply(DECLARED).failures


def test_a_transform_without_a_version_goes_on(shop: Workshop) -> None:
    record(shop, None)
    assert not shop.apply(DECLARED).failures
    assert shop.kinds("out")[-2:] == ["SetTransform", "ExecuteTransform"]


def test_after_a_mere_change_of_version_the_columns_stay_those_that_were_accepted(
    shop: Workshop,
) -> None:
    wider = ledger("src", "t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT", "w STRING")
    record(shop, None)
    shop.file("2.csv", "2024-01-02,b,2,new", header="t,k,v,w")
    assert not shop.apply([wider, DECLARED[1]]).failures
    files = [shop.dataset(name).slices()[-1][1] for name in ("src", "out")]
    assert [pq.read_schema(path).names[4:] for path in files] == [["k", "v", "w"], ["k", "v"]]
