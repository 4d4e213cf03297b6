"""An input that has no row yet counts as empty, where its definition tells its columns."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.ingest.push.push import Pushing, push
from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    MergeStrategyAppend,
    ReadStepNdJson,
    SetTransform,
    SetVocab,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from tests.planner.builders import declare
from tests.support.workshop import Workshop

pytestmark = pytest.mark.spark

QUERIES = {
    "union": "select t, k, v from loud union all select t, k, v from middle",
    "full": "select coalesce(l.t, q.t) as t, coalesce(l.k, q.k) as k, coalesce(l.v, q.v) as v "
    "from loud l full join middle q on l.k = q.k",
    "left": "select l.t, l.k, coalesce(q.v, l.v) as v from loud l left join middle q on l.k = q.k",
    "anti": "select l.t, l.k, l.v from loud l left anti join middle q on l.k = q.k",
}
QUIET = [("a", 1), ("b", 2)]
AFTER = {
    "union": [("a", 1), ("b", 2), ("a", 7)],
    "full": [("a", 1), ("b", 2)],
    "left": [("a", 7), ("b", 2)],
    "anti": [("b", 2)],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


def test_a_step_over_an_input_without_rows_gives_what_the_others_have(
    tmp_path: Path, engine: SparkEngine
) -> None:
    shop = Workshop(tmp_path, engine)  # type: ignore[arg-type]
    declared = [
        source("loud"),
        source("quiet"),
        derived("middle", "select t, k, v from quiet", "quiet"),
        *(derived(name, query, "loud", "middle") for name, query in QUERIES.items()),
    ]
    assert not shop.apply(declared).failures
    assert shop.kinds("quiet") == ["Seed", "SetVocab", "AddPushSource"]
    add(shop, "loud", *QUIET)
    assert not shop.apply(declared).failures
    for name in QUERIES:
        assert standing(shop, name) == Counter(QUIET), name
    add(shop, "quiet", ("a", 7))
    assert not shop.apply(declared).failures
    for name, rows in AFTER.items():
        assert standing(shop, name) == Counter(rows), name


def test_the_plan_says_for_which_input_a_step_waits(tmp_path: Path, engine: SparkEngine) -> None:
    shop = Workshop(tmp_path, engine)  # type: ignore[arg-type]
    declared = [
        source("loud"),
        source("quiet", known=False),
        derived("both", "select k from loud union all select k from quiet", "loud", "quiet"),
    ]
    assert not shop.apply(declared).failures
    add(shop, "loud", *QUIET)
    assert not shop.apply(declared).failures
    assert shop.dataset("both").slices() == ()
    (note,) = [e for e in shop.plan(declared).notes if e.code == "input-without-columns"]
    assert "both waits for the first rows of quiet" in note.what
    assert "the read step declares no schema" in note.why


def source(name: str, *, known: bool = True) -> Declared:
    """Declare a root that rows are pushed to."""
    ddl = ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT")
    read = ReadStepNdJson(ddl_schema=ddl if known else None)
    pushed = AddPushSource(source_name="in", read=read, merge=MergeStrategyAppend())
    return declare(name, DatasetKind.ROOT, (SetVocab(event_time_column="t"), pushed))


def derived(name: str, query: str, *inputs: str) -> Declared:
    refs = tuple(TransformInput(DatasetAlias.parse(each), each) for each in inputs)
    transform = SetTransform(
        inputs=refs, transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    )
    return declare(name, DatasetKind.DERIVATIVE, (SetVocab(event_time_column="t"), transform))


def add(shop: Workshop, name: str, *rows: tuple[str, int]) -> None:
    """Push rows into a root."""
    path = shop.folder / f"{name}.ndjson"
    records = ({"t": "2024-01-01", "k": k, "v": v} for k, v in rows)
    path.write_text("".join(json.dumps(each) + "\n" for each in records), "utf-8")
    push(shop.site(), shop.dataset(name), Pushing(name=path.name, path=path), called=name)


def standing(shop: Workshop, name: str) -> Counter[tuple[str, int]]:
    """Return the keys and values of the current rows."""
    found: Counter[tuple[str, int]] = Counter()
    for _, path in shop.dataset(name).slices():
        table: pa.Table = pq.read_table(path)
        for row in table.to_pylist():
            found[row["k"], row["v"]] += 1 if row["op"] in {0, 3} else -1
    return +found
