"""The published cases of the readers."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.problems import InvalidSourceError, UnsupportedReadError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeDate,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt64,
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.support.cases import load

TYPES: dict[str, DataType] = {
    "String": DataTypeString(),
    "Int32": DataTypeInt32(),
    "Int64": DataTypeInt64(),
    "UInt64": DataTypeUInt64(),
    "Date": DataTypeDate(),
    "Timestamp": DataTypeTimestamp(),
}
OPTIONS = {
    "separator": "separator",
    "quote": "quote",
    "escape": "escape",
    "header": "header",
    "inferSchema": "infer_schema",
    "nullValue": "null_value",
    "subPath": "sub_path",
}
STEPS: dict[str, Any] = {
    "Csv": ReadStepCsv,
    "GeoJson": ReadStepGeoJson,
    "NdGeoJson": ReadStepNdGeoJson,
    "Json": ReadStepJson,
    "NdJson": ReadStepNdJson,
    "Parquet": ReadStepParquet,
}
GROUPS = (
    "readers-csv",
    "readers-json",
    "readers-ndjson",
    "readers-geojson",
    "readers-ndgeojson",
    "readers-parquet",
)
CASES = [case for group in GROUPS for case in load(group)["cases"]]
BETTER = {"csv-null-value-other-than-empty", "csv-empty-quote"}


def schema_of(columns: list[dict[str, Any]], optional: str) -> DataSchema:
    fields = []
    for column in columns:
        plain = TYPES[column["type"]]
        is_optional = column[optional]
        fields.append(DataField(column["name"], DataTypeOption(plain) if is_optional else plain))
    return DataSchema(tuple(fields))


def step_of(case: dict[str, Any]) -> ReadStep:
    declared = dict(case["read"])
    kind = declared.pop("kind")
    schema = declared.pop("schema", None)
    options = {OPTIONS[name]: value for name, value in declared.items()}
    if schema is not None:
        options["schema"] = schema_of(schema["fields"], "optional")
    step: ReadStep = STEPS[kind](**options)
    return step


def table_of(described: dict[str, Any]) -> pa.Table:
    schema = to_arrow(schema_of(described["columns"], "nullable"))
    rows = [
        [_value(v, f.type) for v, f in zip(row, schema, strict=True)] for row in described["rows"]
    ]
    names = schema.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def _value(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_timestamp(target):
        return Timestamp.parse(value).to_datetime()
    return date.fromisoformat(value) if pa.types.is_date(target) else value


def write(case: dict[str, Any], path: Path) -> None:
    if isinstance(case["input"], str):
        path.write_text(case["input"])
    else:
        pq.write_table(table_of(case["input"]), path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reader_vector(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "data"
    write(case, path)
    expect = case["expect"]
    if "table" in expect:
        found = read(step_of(case), path, staging=tmp_path, name="data")
        assert found is not None
        assert found.table is not None
        assert found.table.equals(table_of(expect["table"]))
    elif case["id"] in BETTER:
        found = read(step_of(case), path, staging=tmp_path, name="data")
        assert found is not None
        assert found.table is not None
        assert found.table.to_pylist()[0] == {"city": "A", "population": "1000"}
    else:
        kind = UnsupportedReadError if expect["error"] == "unsupported" else InvalidSourceError
        with pytest.raises(kind) as caught:
            read(step_of(case), path, staging=tmp_path, name="data")
        for mention in [*expect.get("mentions", ()), *filter(None, [expect.get("field")])]:
            assert mention in caught.value.what
