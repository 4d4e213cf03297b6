"""Published definitions run from files to rows, which are those that DuckDB makes of them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml

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


# --- derivatives ----------------------------------------------------------------------------------

_VIDEO = (
    "video_id title channel_id channel_title video_owner_channel_id video_owner_channel_title",
    "published_at",
    "view_count like_count comment_count favorite_count",
)
_EVENT = (
    "block_hash transaction_hash token_symbol event_name",
    "",
    "block_number transaction_index log_index",
    "amount eth_amount",
)
NOT_PUBLISHED = {
    "com.defillama.chains.tvl": ("chain_name", "", "", "tvl_usd"),
    "com.defillama.protocols": (
        "name address symbol chain description category twitter gecko_id cmcId",
        "listed_at",
        "",
        "",
        "misrepresented_tokens",
    ),
    "com.youtube.channel.kamu-data.videos.stats": _VIDEO,
    "io.codex.tokens.olhcv": (
        "symbol network_name address",
        "",
        "network_id transactions buyers sellers",
        "close volume buy_volume sell_volume",
    ),
    "net.rocketpool.reth.tokens-burned": (f"{_EVENT[0]} from", *_EVENT[1:]),
    "net.rocketpool.reth.tokens-minted": (f"{_EVENT[0]} to", *_EVENT[1:]),
}
"""Inputs that are published without a form that can be read: texts, times, integers, doubles and
conditions that the queries read of them."""
KINDS: dict[str, Callable[[str, int], Any]] = {
    "STRING": lambda name, number: f"{name} {number}",
    "TIMESTAMP": lambda _, number: f"2024-05-{number + 1:02}T10:00:00Z",
    "BIGINT": lambda _, number: number * 7,
    "DOUBLE": lambda _, number: number + 0.25,
    "BOOLEAN": lambda _, number: number % 2 == 0,
}
DERIVATIVES = {
    "com.defillama.chains.tvl.deriv": ROWS,
    "com.defillama.pools.deriv": ROWS,
    "com.defillama.pools.yield.deriv": 2,
    "com.defillama.protocols.deriv": 3,
    "community.youtube.videos.stats": 2 * ROWS,
    "io.codex.tokens.prices": ROWS,
    "net.rocketpool.reth.mint-burn": 2 * ROWS,
}
"""How many rows each has; two leave out rows by a condition."""


def lay_out_derivatives(place: Path, form: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Write the derivatives for DataFusion and what they read; return their queries and inputs."""
    found, needed = {}, set()
    for number, path in enumerate(sorted(form.rglob("*.yaml"))):
        for each in yaml.safe_load_all(path.read_text("utf-8")):
            content = {} if each is None else each["content"]
            for event in content.get("metadata", ()):
                if event["kind"] == "SetTransform" and event["transform"]["engine"] == "datafusion":
                    inputs = {
                        e.get("alias", e["datasetRef"]): e["datasetRef"] for e in event["inputs"]
                    }
                    found[content["name"]] = event["transform"]["query"], inputs
                    needed |= {*inputs.values()}
                    (place / "datasets" / f"d{number}.yaml").write_text(path.read_text("utf-8"))
    list(lay_out_sources(place, form))
    for path in place.glob("datasets/[0-9]*.yaml"):
        if yaml.safe_load(path.read_text("utf-8"))["content"]["name"] not in needed:
            path.unlink()
    for name in NOT_PUBLISHED.keys() & needed:
        lay_out_input(place, name)
    return found


def lay_out_input(place: Path, name: str) -> None:
    words = zip(KINDS, NOT_PUBLISHED[name], strict=False)
    columns = {"event_time": "TIMESTAMP"}
    columns |= {each: kind for kind, names in words for each in names.split()}
    rows = [{each: KINDS[kind](each, n) for each, kind in columns.items()} for n in range(ROWS)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (place / "data" / f"{name}.ndjson").write_text(lines)
    source = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "FilesGlob", "path": f"data/{name}.ndjson"},
        "read": {"kind": "NdJson", "schema": [f"`{n}` {kind}" for n, kind in columns.items()]},
        "merge": {"kind": "Append"},
    }
    content = {"name": name, "kind": "Root", "metadata": [source]}
    definition = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    (place / "datasets" / f"{name}.yaml").write_text(yaml.safe_dump(definition), "utf-8")


def in_duck(query: str) -> str:
    """Return a published query with names of tables and reserved words in quotes."""
    query = re.sub(r"from '([\w.-]+)'", r'from "\1"', query)
    return re.sub(r"\b(to|from) as\b", r'"\1" as', query)


def test_derivatives_for_datafusion_run_to_the_rows_of_duckdb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "p"
    (place / "datasets").mkdir(parents=True)
    (place / "odfbuild.yaml").write_text("odfbuild: 1\nname: community\nengine: {ingest: arrow}\n")
    top = next(path for path in MANIFESTS[0].parents if path.name.startswith("manifests"))
    published = lay_out_derivatives(place, top.parent / "manifests")
    done = Within(place, capsys, monkeypatch)("apply", "--yes")
    assert done.code == 0, done.err
    numbers = {}
    for name, (query, inputs) in published.items():
        database = duckdb.connect(config={"threads": 1})
        database.execute("set timezone = 'UTC'")
        for alias, ref in inputs.items():
            rows = odfbuild.read(ref, project=place)
            database.register(alias, rows.append_column("op", pa.repeat(0, rows.num_rows)))
        wanted = database.sql(in_duck(query)).to_arrow_table()
        rows = odfbuild.read(name, project=place)
        numbers[name] = rows.num_rows
        names = {*wanted.column_names} - {"op"}
        assert {*rows.column_names} == names, name
        found = sorted(plain(row, names) for row in rows.to_pylist())
        assert found == sorted(plain(row, names) for row in wanted.to_pylist()), name
    assert numbers == DERIVATIVES
