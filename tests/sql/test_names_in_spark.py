"""What a name is taken for is where its values come from when Spark runs the query.

python -m tests.sql.test_names_in_spark --count N runs many.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.keys.keyed import QueryParts
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.statement import SqlTextError
from tests.sql.drawn_selects import drawn_query

pytestmark = pytest.mark.spark

INPUTS = {
    "a": parse_ddl("k STRING, n STRING, m STRING, s STRUCT<k: STRING, j: STRING>"),
    "b": parse_ddl("k STRING, n STRING, w STRING"),
}
VALUES: Mapping[tuple[str, str], set[Any]] = {
    ("a", "k"): {"k1", "k2"},
    ("a", "n"): {"an1", "an2"},
    ("a", "m"): {"am1", "am2"},
    ("a", "s"): {("sk1", "sj1"), ("sk2", "sj2")},
    ("b", "k"): {"k1", "k2"},
    ("b", "n"): {"bn1", "bn2"},
    ("b", "w"): {"bw1", "bw2"},
}
_VIEWS = {
    "a": "select 'k' || i as k, 'an' || i as n, 'am' || i as m, if(i > 0, named_struct("
    "'k', if(i > 0, 'sk' || i, null), 'j', if(i > 0, 'sj' || i, null)), null) as s "
    "from (select explode(array(1, 2)) as i)",
    "b": "select 'k' || i as k, 'bn' || i as n, 'bw' || i as w "
    "from (select explode(array(1, 2)) as i)",
}


class Names:
    """Runs queries, and compares what comes out with what the resolver says."""

    def __init__(self, engine: SparkEngine) -> None:
        engine._sessions.start(0)
        self.session = engine._sessions.session(StepSize.SMALL)
        for name, text in _VIEWS.items():
            self.session.sql(text).createOrReplaceTempView(name)
        self.counts: Counter[str] = Counter()

    def check(self, text: str) -> None:
        """Fail if a column is taken for one whose values it does not have."""
        rows = self._run(text)
        if rows is None:
            self.counts["refused"] += 1
            return
        for inputs in (INPUTS, dict.fromkeys(INPUTS)):
            known = inputs is INPUTS
            try:
                shape = read(text).shape
            except SqlTextError:
                self.counts["unread"] += 1
                return
            parts = QueryParts({}, inputs)
            part = parts.query(shape)
            if part.name == "whole":
                self.counts[f"whole {part.because}"] += known
                continue
            self.counts[part.name] += known
            names = [each.name for each in part.rows.columns]
            if not part.rows.open:
                self.counts["named"] += known
                assert names == list(rows), text
            found = {name: part.rows.token((name,)) for name in rows}
            held = {}  # type: dict[int, set[Any]]
            for name, tokens in parts.uses:
                for column, token in tokens.items():
                    values = VALUES.get((name, column), set())
                    held.setdefault(parts.root(token), set()).update(values)
            for each, of in found.items():
                if of is not None:
                    self.counts["found"] += known
                    assert set(rows[each]) <= held[parts.root(of)] | {None}, f"{each} of {text}"

    def _run(self, text: str) -> Mapping[str, list[Any]] | None:
        from pyspark.errors import PySparkException

        try:
            found = self.session.sql(text)
        except PySparkException:
            return None
        if len(set(found.columns)) < len(found.columns):
            return None  # no dataset has such columns
        table = found.toArrow()
        return {
            name: [tuple(v.values()) if isinstance(v, dict) else v for v in table[name].to_pylist()]
            for name in table.column_names
        }


def test_a_name_is_the_column_whose_values_it_gives(tmp_path: Path) -> None:
    with SparkEngine(tmp_path / "jvm", cores=2) as engine:
        names = Names(engine)
        for number in range(80):
            names.check(drawn_query(Random(f"names {number}")))
    assert names.counts["found"] > 20


def main() -> None:
    """Check as many queries as asked for; those that fail are told, and the run goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    chosen = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=2) as engine:
        names = Names(engine)
        for number in range(chosen.first, chosen.first + chosen.count):
            try:
                names.check(drawn_query(Random(f"names {number}")))
            except Exception as error:
                failed.append(number)
                print(number, str(error)[:600], flush=True)
    print(dict(names.counts.most_common()))
    raise SystemExit(f"these fail: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
