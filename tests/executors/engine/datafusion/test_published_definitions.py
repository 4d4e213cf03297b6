"""Published definitions run from files to rows, which are those that DuckDB makes of them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import odfbuild
from tests.executors.engine.datafusion.published_sources import ROWS, Source, lay_out_sources
from tests.sql.published import MANIFESTS
from tests.support.process.within import Within

pytestmark = pytest.mark.skipif(
    not MANIFESTS, reason="the published manifests are not in ../shared"
)

WORDS = """
create macro to_timestamp_seconds(n) as make_timestamp(cast(n as bigint) * 1000000);
create macro to_timestamp(t) as cast(t as timestamp);
create macro json_get_str(j, k) as json_extract_string(j, k);
create macro json_get_float(j, k) as cast(json_extract(j, k) as double);
"""
"""Functions that DuckDB has under other names."""


def applied(
    form: str, engines: set[str | None], place: Path, run: Within
) -> Iterator[tuple[Source, pa.Table]]:
    top = next(path for path in MANIFESTS[0].parents if path.name.startswith("manifests"))
    sources = [*lay_out_sources(place, top.parent / form)]
    left = [each.name for each in sources if each.engine not in engines]
    done = run("apply", "--yes", *(f"--exclude={name}" for name in left))
    assert done.code == 0, done.err
    for each in sources:
        if each.name not in left:
            yield each, odfbuild.read(each.name, project=place)


def duck(source: Source) -> list[Mapping[str, Any]]:
    """Return what the preprocess query gives in DuckDB."""
    database = duckdb.connect(config={"threads": 1})
    database.execute("set timezone = 'UTC'")
    database.execute(WORDS)
    rows = [{"geometry": b"", **row} for row in source.rows]
    database.register("input", pa.Table.from_pylist(rows))
    for alias, text in source.queries[:-1]:
        database.execute(f'create view "{alias}" as {text}')
    found: list[Mapping[str, Any]] = (
        database.sql(source.queries[-1][1]).to_arrow_table().to_pylist()
    )
    return found


def plain(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return these columns of a row as they are compared."""
    return repr([(name, _plain(row[name])) for name in sorted(names)])


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=UTC).isoformat()
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC).isoformat()
        case Decimal() | float():
            return float(value)
    return value


@pytest.mark.parametrize(
    ("form", "number", "same"), [("manifests", 26, 18), ("manifests-ddl", 14, 10)]
)
def test_definitions_without_spark_run_to_the_rows_of_duckdb(
    form: str,
    number: int,
    same: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "p"
    place.mkdir()
    (place / "odfbuild.yaml").write_text("odfbuild: 1\nname: community\nengine: {ingest: arrow}\n")
    run = Within(place, capsys, monkeypatch)
    seen = compared = 0
    for source, rows in applied(form, {None, "datafusion"}, place, run):
        assert rows.num_rows == ROWS, source.name
        seen += 1
        if source.queries:
            wanted = duck(source)
            names = wanted[0].keys() - {"geometry"}
            assert names <= set(rows.column_names)
            found = sorted(plain(row, names) for row in rows.to_pylist())
            assert found == sorted(plain(row, names) for row in wanted), source.name
            compared += 1
    assert (seen, compared) == (number, same)
