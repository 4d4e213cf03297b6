"""Rows taken back at the root reach two and three levels of derivatives, and nothing stays behind.

Two snapshots -> sums of one -> their join with the other -> counts and sums of that.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetKind,
    DataTypeInt32,
    DataTypeOption,
    DataTypeString,
    FetchStepFilesGlob,
    MergeStrategySnapshot,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from tests.executors.ingest.rounds import Rounds

pytestmark = pytest.mark.spark

SUMS = "select max(event_time) as event_time, shop, sum(amount) as total from stock group by shop"
PLACED = (
    "select s.event_time, s.shop, p.city, s.total from sums s left join places p on s.shop = p.shop"
)
CITIES = (
    "select max(event_time) as event_time, city, count(*) as shops, sum(total) as total "
    "from placed group by city"
)
Stock = dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.mark.parametrize("seed", range(2))
def test_what_a_root_takes_back_is_gone_at_every_level(
    tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rounds, draw = Rounds(tmp_path, engine, monkeypatch), Random(seed)
    stock = snapshot(rounds, "stock", ("shop", "item"), "amount")
    places = snapshot(rounds, "places", ("shop",), "city")
    sums = derivative(rounds, "sums", SUMS, stock=stock)
    placed = derivative(rounds, "placed", PLACED, sums=sums, places=places)
    cities = derivative(rounds, "cities", CITIES, placed=placed)
    for day in range(1, 6):
        rounds.now = Timestamp.parse(f"2030-01-0{day}T00:00:00Z")
        amounts, towns = tables(draw)
        rounds.ingest(stock, csv("shop,item,amount", [(*key, n) for key, n in amounts.items()]))
        rounds.ingest(places, csv("shop,city", list(towns.items())))
        for each in (sums, placed, cities):
            rounds.transform(each)
        totals = totals_of(amounts)
        assert standing(sums, "shop", "total") == Counter(totals.items())
        rows = [(shop, towns.get(shop), total) for shop, total in totals.items()]
        assert standing(placed, "shop", "city", "total") == Counter(rows)
        assert standing(cities, "city", "shops", "total") == by_city(rows), f"day {day}"
    operations = {op for each in (sums, placed, cities) for op in column(each, "op")}
    assert operations == {0, 1, 2, 3}


def tables(draw: Random) -> tuple[Stock, dict[str, str]]:
    """Return what the shops have, and where they are; never nothing at all."""
    shops = draw.sample("abcde", draw.randint(1, 5))
    amounts = {(shop, item): draw.randint(1, 3) for shop in shops for item in draw.sample("xyz", 2)}
    known = draw.sample("abcde", draw.randint(1, 5))
    return amounts, {shop: draw.choice(["Rome", "Bari"]) for shop in known}


def totals_of(amounts: Stock) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for (shop, _), amount in amounts.items():
        found[shop] += amount
    return found


def by_city(rows: list[tuple[str, str | None, int]]) -> Counter[tuple[object, ...]]:
    totals: dict[str | None, list[int]] = defaultdict(list)
    for _, city, total in rows:
        totals[city].append(total)
    return Counter((city, len(each), sum(each)) for city, each in totals.items())


# --- datasets --------------------------------------------------------------------------------


def snapshot(rounds: Rounds, name: str, key: tuple[str, ...], value: str) -> Dataset:
    kind = DataTypeInt32() if value == "amount" else DataTypeString()
    fields = (*(DataField(each, DataTypeString()) for each in key),)
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="played"),
        read=ReadStepCsv(
            schema=DataSchema((*fields, DataField(value, DataTypeOption(kind)))), header=True
        ),
        merge=MergeStrategySnapshot(primary_key=key),
    )
    return rounds.create(name, DatasetKind.ROOT, [source])


def derivative(rounds: Rounds, name: str, query: str, **inputs: Dataset) -> Dataset:
    sql = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    refs = tuple(TransformInput(dataset_ref=each.id, alias=at) for at, each in inputs.items())
    return rounds.create(name, DatasetKind.DERIVATIVE, [SetTransform(inputs=refs, transform=sql)])


def csv(header: str, rows: list[tuple[object, ...]]) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def column(dataset: Dataset, name: str) -> list[object]:
    return [x for _, path in dataset.slices() for x in pq.read_table(path).column(name).to_pylist()]


def standing(dataset: Dataset, *columns: str) -> Counter[tuple[object, ...]]:
    left: Counter[tuple[object, ...]] = Counter()
    for _, path in dataset.slices():
        for row in pq.read_table(path).to_pylist():
            left[tuple(row[name] for name in columns)] += 1 if row["op"] in {0, 3} else -1
    assert min(left.values(), default=0) >= 0
    return +left
