"""The merge strategies against the worked cases of the reference, in memory and through files."""

from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.arrow.merging.rules import MergeInputError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.frames import from_table
from odfbuild.executors.engine.spark.ingest.merge_parts import state_text
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.events import DatasetVocabulary
from tests.executors.engine.spark.tables import ingest_request, rows_of, strategy_of, table_of
from tests.support.cases import load

pytestmark = pytest.mark.spark

CASES = [
    case
    for name in (
        "merge-append",
        "merge-ledger",
        "merge-snapshot",
        "merge-upsert-stream",
        "merge-changelog-stream",
    )
    for case in load(name)["cases"]
]


def vocab_of(case: dict[str, Any]) -> DatasetVocabulary:
    return DatasetVocabulary(event_time_column=case["vocab"]["eventTimeColumn"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vectors_of_merge_strategies_hold(
    case: dict[str, Any], either_way: SparkEngine, tmp_path: Path
) -> None:
    history = [] if case["existing"] is None else [table_of(case["existing"])]
    request = ingest_request(
        tmp_path,
        table_of(case["input"]),
        strategy_of(case["strategy"]),
        history,
        vocab=vocab_of(case),
        as_file=True,
    )
    if "error" in case["expect"]:
        with pytest.raises(MergeInputError, match=case["expect"]["error"]):
            either_way.ingest(request)
        return
    expected = table_of(case["expect"]["output"])
    merged = either_way.ingest(request)
    assert merged.schema.names == expected.schema.names
    assert [f.type for f in merged.schema] == [f.type for f in expected.schema]
    rows = rows_of(merged)
    assert rows == (RETRACTED_AND_APPENDED if case.get("quirk") else expected.to_pylist())


# The reference emits nothing for a table that is all key; the specification asks for both rows.
RETRACTED_AND_APPENDED = [
    {"op": 0, "year": None, "city": "lviv"},
    {"op": 1, "year": 2020, "city": "odessa"},
]


@pytest.mark.parametrize("case", load("merge-snapshot-project")["cases"], ids=lambda c: c["id"])
def test_vectors_of_the_current_state_hold(
    case: dict[str, Any], engine: SparkEngine, tmp_path: Path
) -> None:
    session = engine._sessions.session(StepSize.SMALL)
    views = Views(session)
    views.add("history", from_table(session, table_of(case["existing"])))
    expected = table_of(case["expect"]["state"])
    columns = ", ".join(expected.schema.names)
    key = case["strategy"]["primaryKey"]
    text = state_text(key, vocab_of(case), "history", columns, hidden="the_")
    with views:
        found = session.sql(f"SELECT the_state.* FROM ({text})").toArrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected.to_pylist()))
