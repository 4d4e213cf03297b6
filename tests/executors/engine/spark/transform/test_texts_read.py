"""A step reads each text once: that of its query, and what it makes of it for Spark."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.transform import step
from odfbuild.odf.events import SetTransform
from tests.executors.engine.spark.transform.test_quiet_inputs import add, derived, source
from tests.reads import texts_read
from tests.support.workshop import Workshop

pytestmark = pytest.mark.spark

QUERIES = {
    "linear": ("select t, upper(k) as k, v from a where v > 0", ("a",)),
    "join": ("select a.t, a.k, b.v from a join b on a.k = b.k", ("a", "b")),
    "outer": ("select a.t, a.k, b.v from a left join b on a.k = b.k", ("a", "b")),
    "state": ("select max(t) as t, k, sum(v) as v from a group by k", ("a",)),
    "folded": ("select max(t) as t, k, avg(cast(v as double)) as v from a group by k", ("a",)),
    "window": (
        "select window.start as t, k, sum(v) as v from a group by tumble(t, interval '1' day), k",
        ("a",),
    ),
    "whole": ("select t, k, v from a order by t, k, v limit 2", ("a",)),
    "log": ("select t, op, k, v from a", ("a",)),
}


@pytest.mark.parametrize("limit", [1 << 20, -1], ids=["in memory", "in files"])
def test_no_text_is_read_twice_in_a_step(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[tuple[str, Counter[str]]] = []
    attempt = step._attempt

    def counted(site: Any, dataset: Any, done: Any) -> Any:
        state = dataset.state()
        assert isinstance(state.transform, SetTransform)
        queries = state.transform.transform.queries
        assert queries
        text = queries[0].query
        with texts_read() as read:
            left = attempt(site, dataset, done)
        attempts.append((text, read))
        return left

    monkeypatch.setattr(step, "_attempt", counted)
    with SparkEngine(tmp_path / "jvm", cores=2, limit=limit) as engine:
        shop = Workshop(tmp_path, engine)  # type: ignore[arg-type]
        made = [derived(name, query, *of) for name, (query, of) in QUERIES.items()]
        for rows in ([("x", 1), ("y", 2)], [("x", 3), ("z", 4)], [("y", 5)]):
            add(shop, "a", *rows) if attempts else None
            add(shop, "b", *rows) if attempts else None
            assert not shop.apply([source("a"), source("b"), *made]).failures
    assert {text for text, _ in attempts} == {query for query, _ in QUERIES.values()}
    again = {text: read for text, read in attempts if max(read.values(), default=0) > 1}
    assert not again
    assert all(read[text] == 1 for text, read in attempts if read)
