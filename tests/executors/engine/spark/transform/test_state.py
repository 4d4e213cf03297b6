"""Steps that go on from what was counted give what a look at everything gives, bit for bit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.transform import state as accumulated
from odfbuild.odf.events import DataSchema, DatasetVocabulary, OffsetInterval, TransformSql
from odfbuild.odf.identity import Multihash
from odfbuild.odf.schema.arrow import from_arrow
from tests.executors.engine.spark.keeping import Keeping, Whole
from tests.rule.histories import history
from tests.rule.steps import played

pytestmark = pytest.mark.spark

_T = "event_time"
QUERIES = {
    "count": f"select max({_T}) as {_T}, k, count(*) as c, count(n) as d from a group by k",
    "ends": f"select max({_T}) as {_T}, k, sum(n) as s, min(m) as lo, max(x) as hi, min(x) as lx, "
    "max(concat(k, m)) as t from a group by k",
    "average": f"select max({_T}) as {_T}, k, avg(cast(n as decimal(12, 2))) as s, "
    "avg(cast(m - 1 as decimal(9, 4))) as t from a group by k",
    "having": f"select max({_T}) as {_T}, k, sum(n) as s from a group by k "
    "having count(*) > 1 or s = 0",
    "filter": f"select max({_T}) as {_T}, k, count(*) filter (where n > 1) as c, "
    "min(n) filter (where m > 0) as lo from a group by k",
    "expressions": f"select upper(k) as u, m + 1, min({_T}) as {_T}, sum(n) * 2 - count(1) as c "
    "from a where x is not null group by upper(k), m + 1",
    "without its key": f"select max({_T}) as {_T}, max(n) as n, count(m) as c from a group by k",
    "floating key": f"select max({_T}) as {_T}, x, count(n) as c from a group by x",
    "nested key": f"select max({_T}) as {_T}, array(x, n) as y, count(k) as c "
    "from a group by array(x, n)",
    "union": f"select k, max({_T}) as {_T}, min(n) as lo, sum(n) as s from "
    f"(select {_T}, k, n from a union all select {_T}, k, w from b) group by k",
    "inside": f"select s * 2 as t, {_T} from (select k, max({_T}) as {_T}, sum(n) as s from a "
    "where m >= 0 group by 1) where s >= 0",
    "types": f"select s, h, l, d, max({_T}) as {_T}, min(z) as z, max(u) as u, max(y) as y, "
    "sum(j), min(f) as f, min(g) as g, avg(d) as a, count(o) as o, "
    "sum(cast(q as decimal(28, 9))) as q from c where q is null or q between -9 and 9 "
    "group by s, h, l, d",
    "flat types": f"select i, f, u, y, q, max({_T}) as {_T}, min(x) as x, max(z) as z, sum(i) as t "
    "from c group by all",
    "exploded": f"select y, max({_T}) as {_T}, count(*) as c from a "
    "lateral view explode(array(n, m)) e as y group by y",
}
HISTORIES = 10
SELDOM = {"without its key", "floating key", "nested key", "flat types", "exploded", "inside"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that can be played."""

    text: str

    @property
    def transform(self) -> TransformSql:
        return TransformSql(engine="spark", query=self.text)


def hashes(
    engine: Keeping | Whole, folder: Path, query: str, seed: int
) -> list[tuple[int, int, Multihash | None]]:
    """Return number, rows and logical hash of the changes of each step of a random history."""
    folder.mkdir()
    found = history(Random(seed), ("c",) if " from c" in query else ("a", "b"))
    steps = played(cast("SparkEngine", engine), folder, Asked(query), found)
    pieces = [(each, each.sealed.slice) for each in steps]
    return [(e.number, len(e.changes), None if p is None else p.logical_hash) for e, p in pieces]


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in SELDOM])
def test_what_is_kept_gives_what_everything_gives(
    name: str, engine: SparkEngine, tmp_path: Path
) -> None:
    assert compared(engine, tmp_path, name, 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_kept_gives_what_everything_gives_in_many_histories(
    name: str, engine: SparkEngine, tmp_path: Path
) -> None:
    changed = 0
    for seed in range(HISTORIES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        changed += compared(engine, folder, name, seed)
    assert changed


def compared(engine: SparkEngine, folder: Path, name: str, seed: int) -> int:
    """Hold both ways against each other in one history; return how many rows changed."""
    query, number = QUERIES[name], seed + 100 * list(QUERIES).index(name)
    expected = hashes(Whole(engine), folder / "whole", query, number)
    keeping = Keeping(engine, folder, forgets=4 if seed % 3 == 1 else 0)
    assert hashes(keeping, folder / "kept", query, number) == expected
    return sum(rows for _, rows, _ in expected)


@pytest.mark.parametrize("way", ["in Spark", pytest.param("through files", marks=pytest.mark.slow)])
def test_many_groups_give_what_few_do(
    way: str, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hashes(Whole(engine), tmp_path / "whole", QUERIES["ends"], 7)
    monkeypatch.setattr(accumulated, "_FEW", -1)
    if way == "through files":
        monkeypatch.setattr(engine, "_limit", -1)
    assert hashes(Keeping(engine, tmp_path), tmp_path / "kept", QUERIES["ends"], 7) == expected


def test_too_many_groups_are_looked_up(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hashes(Whole(engine), tmp_path / "whole", QUERIES["ends"], 3)
    monkeypatch.setattr(accumulated, "MOST", 1)
    keeping = Keeping(engine, tmp_path)
    assert hashes(keeping, tmp_path / "kept", QUERIES["ends"], 3) == expected
    assert pq.read_table(keeping.checkpoints[-1]).num_rows == 0


def test_a_checkpoint_for_another_query_is_left_aside(engine: SparkEngine, tmp_path: Path) -> None:
    keeping = Keeping(engine, tmp_path)
    hashes(keeping, tmp_path / "count", QUERIES["count"], 5)
    expected = hashes(Whole(engine), tmp_path / "whole", QUERIES["ends"], 5)
    assert hashes(keeping, tmp_path / "ends", QUERIES["ends"], 5) == expected


def test_equal_groups_make_equal_checkpoints(engine: SparkEngine, tmp_path: Path) -> None:
    """Step by step, or counted all at once at the last step."""
    keeping = Keeping(engine, tmp_path)
    hashes(keeping, tmp_path / "kept", QUERIES["ends"], 11)
    steps = len(keeping.checkpoints)
    assert steps > 2
    (tmp_path / "other").mkdir()
    other = Keeping(engine, tmp_path / "other", forgets=steps - 1)
    hashes(other, tmp_path / "other" / "kept", QUERIES["ends"], 11)
    assert other.checkpoints[-1].read_bytes() == keeping.checkpoints[-1].read_bytes()


# Edges of numbers

VOCAB = DatasetVocabulary()
_MILLIS = pa.timestamp("ms", tz="UTC")


class Stepping:
    """Feeds steps with rows of a key and a value, and keeps what they give."""

    def __init__(self, folder: Path, kind: pa.DataType, query: str) -> None:
        self.folder, self.query = folder, query
        fields = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", _MILLIS)]
        self.schema = pa.schema([*fields, (_T, _MILLIS), ("k", pa.string()), ("v", kind)])
        self.slices: list[Path] = []
        self.output: list[Path] = []
        self.rows = 0
        folder.mkdir(exist_ok=True)

    def step(
        self, engine: Keeping | Whole | SparkEngine, rows: Sequence[tuple[int, str, object]]
    ) -> pa.Table:
        names = self.schema.names
        records = [
            dict(zip(names, (self.rows + n, op, 0, 0, key, value), strict=True))
            for n, (op, key, value) in enumerate(rows)
        ]
        path = self.folder / f"rows-{self.rows}.parquet"
        pq.write_table(pa.Table.from_pylist(records, self.schema), path)
        frame = TransformInputFrame(
            alias="a", paths=(path,), schema=from_arrow(self.schema), vocab=VOCAB,
            interval=OffsetInterval(self.rows, self.rows + len(rows) - 1), past=tuple(self.slices),
        )  # fmt: skip
        query = query_over(TransformSql(engine="spark", query=self.query), (frame,), VOCAB)
        work = TransformWork(
            inputs=(frame,), query=query,
            vocab=VOCAB, staging=self.folder, output=tuple(self.output), in_force=self._in_force(),
        )  # fmt: skip
        found = engine.transform(work).table
        assert found is not None
        self.slices.append(path)
        self.rows += len(rows)
        self._wrote(found)
        return found

    def _in_force(self) -> DataSchema | None:
        return from_arrow(pq.read_schema(self.output[-1])) if self.output else None

    def _wrote(self, found: pa.Table) -> None:
        numbers = pa.array(range(found.num_rows), pa.int64())
        stored = found.append_column("offset", numbers)
        stored = stored.append_column("system_time", pa.array([0] * found.num_rows, _MILLIS))
        path = self.folder / f"output-{len(self.slices)}.parquet"
        pq.write_table(stored, path)
        self.output.append(path)


@pytest.mark.parametrize("kind", [(11, 3), (12, 4), (18, 18), (15, 2)])
def test_averages_are_rounded_as_sparks_own(
    kind: tuple[int, int], engine: SparkEngine, tmp_path: Path
) -> None:
    draw = Random(sum(kind))
    query = f"select max({_T}) as {_T}, k, avg(v) as m, sum(v) as s from a group by k"
    unit = Decimal(1).scaleb(-kind[1])
    most = 10 ** kind[0] - 1 if kind[0] > 11 else 10**6
    chosen = [0, 1, -1, 2, -7, most, -most, most // 3, *(draw.randint(-most, most) for _ in "123")]
    steps = [
        [(0, f"k{n}", draw.choice(chosen) * unit) for n in range(40) for _ in range(1 + n % 9)]
        for _ in range(2)
    ]
    kept = Stepping(tmp_path / "kept", pa.decimal128(*kind), query)
    whole = Stepping(tmp_path / "whole", pa.decimal128(*kind), query)
    keeping = Keeping(engine, tmp_path)
    for rows in steps:
        assert kept.step(keeping, rows).equals(whole.step(Whole(engine), rows))


def test_a_sum_that_is_too_large_fails_and_one_that_is_not_any_more_goes_on(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = f"select max({_T}) as {_T}, k, sum(v) as s from a group by k"
    keeping, most = Keeping(engine, tmp_path), 2**63 - 1
    steps = Stepping(tmp_path / "kept", pa.int64(), query)
    assert steps.step(keeping, [(0, "x", most), (0, "y", 1)]).column("s").to_pylist() == [most, 1]
    again = Stepping(tmp_path / "again", pa.int64(), query)
    with pytest.raises(Exception, match=r"(?i)overflow|out of range|cast"):
        again.step(Keeping(engine, tmp_path / "again"), [(0, "x", most), (0, "x", 1)])
    changes = steps.step(keeping, [(0, "x", most), (0, "x", -most)])
    assert changes.num_rows == 0
    changes = steps.step(keeping, [(1, "x", most), (0, "x", None)])
    assert changes.column("s").to_pylist() == [most, 0]
    changes = steps.step(keeping, [(1, "x", most), (1, "x", -most)])
    assert changes.select(["op", "s"]).to_pylist() == [{"op": 2, "s": 0}, {"op": 3, "s": None}]


def test_what_a_group_lost_is_read_again(engine: SparkEngine, tmp_path: Path) -> None:
    query = f"select max({_T}) as {_T}, k, min(v) as lo, max(v) as hi from a group by k"
    keeping = Keeping(engine, tmp_path)
    steps = Stepping(tmp_path / "kept", pa.int64(), query)
    steps.step(keeping, [(0, "x", n) for n in (3, 1, 2)] + [(0, "y", n) for n in (5, 6)])
    changes = steps.step(keeping, [(1, "x", 1), (1, "y", 6), (0, "y", 7)])
    ends = [(row["op"], row["k"], row["lo"], row["hi"]) for row in changes.to_pylist()]
    assert ends == [(2, "x", 1, 3), (3, "x", 2, 3), (2, "y", 5, 6), (3, "y", 5, 7)]
    changes = steps.step(keeping, [(1, "x", 2), (1, "x", 3)])
    assert [(row["op"], row["k"]) for row in changes.to_pylist()] == [(1, "x")]


def test_taking_back_more_than_there_is_names_the_record(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = f"select max({_T}) as {_T}, k, count(*) as c from a group by k"
    keeping = Keeping(engine, tmp_path)
    steps = Stepping(tmp_path / "kept", pa.int64(), query)
    steps.step(keeping, [(0, "x", 1), (0, "y", 1)])
    with pytest.raises(InvalidChangelogError, match="at offset 4 "):
        steps.step(keeping, [(0, "y", 2), (1, "x", 1), (1, "x", 1)])


def test_rows_of_another_query_are_taken_back_as_they_were_written(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """Groups that the new query did not touch yet hold what the old one made of them."""
    old = f"select max({_T}) as {_T}, k, count(*) as c from a group by k"
    new = f"select max({_T}) as {_T}, k, count(*) + 10 as c from a group by k"
    found = []
    for folder in ("kept", "keyed"):
        steps = Stepping(tmp_path / folder, pa.int64(), old)
        steps.step(Keeping(engine, tmp_path / folder), [(0, "x", 1), (0, "y", 1)])
        steps.query = new
        asked: Keeping | SparkEngine = Keeping(engine, tmp_path / folder)
        asked = asked if folder == "kept" else engine
        steps.step(asked, [(0, "x", 2)])
        found.append(steps.step(asked, [(0, "x", 3), (0, "y", 3)]))
    assert found[0].select(["op", "k", "c"]).to_pylist() == [
        {"op": 2, "k": "x", "c": 12},
        {"op": 3, "k": "x", "c": 13},
        {"op": 2, "k": "y", "c": 1},
        {"op": 3, "k": "y", "c": 12},
    ]
    assert found[0].equals(found[1])
