"""Published derivatives that Spark computes, on a few made-up rows.

Those for other engines whose text Spark reads are run as Spark's: daily counts in TUMBLE windows.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.protocol import TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import MILLIS, rows_of, sql, work_on
from tests.sql.published import MANIFESTS, Published, published

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not MANIFESTS, reason="the published manifests are not in ../shared"),
]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NEXT = datetime(2024, 5, 2, 12, tzinfo=UTC)


def named(name: str) -> Published:
    return next(each for each in published() if each.name == name)


def table(time: str, *rows: tuple[datetime, dict[str, Any]]) -> pa.Table:
    """Return a slice of appended rows with text columns."""
    fields = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", MILLIS), (time, MILLIS)]
    texts = [(name, pa.string()) for name in rows[0][1]]
    return pa.Table.from_pylist(
        [
            {"offset": at, "op": 0, "system_time": NOON, time: when, **row}
            for at, (when, row) in enumerate(rows)
        ],
        pa.schema([*fields, *texts]),
    )


def work(each: Published, folder: Path, *tables: pa.Table) -> TransformWork:
    inputs = {f"i{number}": [slice] for number, slice in enumerate(tables)}
    (step,) = each.steps
    made = work_on(folder, sql(step.text), **inputs)
    frames = tuple(
        replace(frame, alias=alias, vocab=each.vocab)
        for frame, alias in zip(made.inputs, each.inputs, strict=True)
    )
    query = query_over(made.query.transform, frames, each.vocab)
    return replace(made, inputs=frames, query=query, vocab=each.vocab)


def test_a_union_of_four_tables_is_all_their_rows(engine: SparkEngine, tmp_path: Path) -> None:
    each = named("ca.vancouver.opendata.property.tax-report")
    text = each.steps[0].text.split("FROM `")[0].split("SELECT")[1]
    columns = [name.strip() for name in text.split(",") if name.strip() != "REPORT_YEAR"]
    tables = [
        table("REPORT_YEAR", (NOON, dict.fromkeys(columns, f"report {number}")))
        for number in range(4)
    ]
    found = rows_of(engine.transform(work(each, tmp_path, *tables)))
    assert [row["PID"] for row in found] == [f"report {number}" for number in range(4)]
    assert {row["op"] for row in found} == {0}
    assert list(found[0])[:2] == ["op", "REPORT_YEAR"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (
            "org.geonames.altnames",
            "alternateNameId geonameid isolanguage alternateName isPreferredName isShortName "
            "isColloquial isHistoric from to",
        ),
        ("org.geonames.cities.by-name", "alternatenames country_code geonameid name asciiname"),
    ],
)
def test_definitions_without_an_event_time_are_refused_in_words(
    name: str, columns: str, engine: SparkEngine, tmp_path: Path
) -> None:
    rows = table("event_time", (NOON, dict.fromkeys(columns.split(), "1")))
    with pytest.raises(InvalidQueryError, match="the query has no result column 'event_time'"):
        engine.transform(work(named(name), tmp_path, rows))


@pytest.mark.parametrize("where", ["ca.bccdc.covid19", "ca.ontario.data.covid19"])
def test_cases_of_a_day_are_counted_when_it_is_over(
    where: str, engine: SparkEngine, tmp_path: Path
) -> None:
    each = named(f"{where}.daily-cases")
    time = each.vocab.event_time_column
    assert each.vocab == DatasetVocabulary(event_time_column=time)
    rows = table(time, (NOON, {"id": "a"}), (NOON, {"id": "b"}), (NEXT, {"id": "c"}))
    step = replace(work(each, tmp_path, rows), watermark=Timestamp.parse("2024-05-02T12:00:00Z"))
    assert rows_of(engine.transform(step)) == [
        {"op": 0, time: "2024-05-01T00:00:00.000Z", "total_daily": 2}
    ]
