"""Chains of linear and grouped queries that Spark made, and what running their steps again finds.

A process of its own replays them on a given Spark, because a process has one:
`python -m tests.executors.engine.spark.replaying MASTER FOLDER`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.transform.step import transform
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import RecordedStep, Replayed, recorded_steps, replay
from odfbuild.odf.events import DatasetKind, SetTransform, SetVocab, TransformInput
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from tests.planner.builders import sql
from tests.support.workshop import Workshop, ledger

__all__ = ["QUERIES", "Built", "again", "built"]

QUERIES = {
    "linear": ("src", "select t, g, v * 2 as w, x from src where v % 5 > 0"),
    "grouped": (
        "linear",
        "select max(t) as t, g, count(1) as n, sum(w) as w, sum(x) as x from linear group by g",
    ),
    "placed": (
        "grouped",
        "select t, g, n, row_number() over (partition by n order by w, g) as place from grouped",
    ),
    "windowed": (
        "src",
        "select cast(window.start as date) as t, g, count(1) as n "
        "from src group by window(cast(t as timestamp), '2 days'), g",
    ),
}
_COLUMNS = ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT", "g STRING", "x DOUBLE")


class Built(Workshop):
    """A root that Spark makes, and derivatives whose steps are run one by one."""

    def __init__(self, folder: Path, spark: Engine) -> None:
        super().__init__(folder)
        self.spark = spark

    def site(self) -> Site:
        return replace(super().site(), engine=self.spark)

    def derive(self, name: str, source: str, query: str) -> None:
        """Make a derivative of one dataset."""
        inputs = (TransformInput(self.dataset(source).id, source),)
        events = (SetTransform(inputs, sql(query)), SetVocab(event_time_column="t"))
        self.workspace.create(
            DatasetAlias.parse(name), DatasetKind.DERIVATIVE, CommitRequest(events, self.now)
        )

    def day(self, number: int, rows: Sequence[str]) -> None:
        """Bring rows into the root, and run a step of each derivative."""
        self.now = Timestamp.parse(f"2025-01-{number:02}T00:00:00Z")
        self.file(f"{number}.csv", *rows, header="t,k,v,g,x")
        assert not self.apply([ledger("src", *_COLUMNS)]).failures
        for name, (source, query) in QUERIES.items():
            if number == 1:
                self.derive(name, source, query)
            transform(self.site(), self.dataset(name), lambda _: None)

    def recorded(self, name: str, past: RecordedHistories) -> Sequence[RecordedStep]:
        """Return the steps of a dataset."""
        history = past.history(self.dataset(name).id)
        assert history is not None
        return recorded_steps(history)


def built(folder: Path, engine: Engine) -> Built:
    """Return four days of chains: rows come to groups that are there and to new ones, some late."""
    made = Built(folder, engine)
    for day in range(1, 5):
        rows = [
            f"2024-01-{max(1, day - n % 2):02},k{day}-{n},{n},g{n % (day + 1)},{n / 7 + day}"
            for n in range(12)
        ]
        made.day(day, rows)
    return made


def again(made: Built, name: str, engine: Engine) -> list[Replayed]:
    """Run the steps of a dataset again."""
    past = RecordedHistories(made.workspace)
    return [replay(step, past, engine, made.workspace) for step in made.recorded(name, past)]


def main(master: str, folder: Path) -> Mapping[str, list[list[str]]]:
    """Return the findings of every step, on a Spark of this kind and with rows in files."""
    with SparkEngine(folder / "other", master=master, limit=-1) as spark:
        made = Built(folder, spark)
        return {
            name: [list(each.findings) for each in again(made, name, spark)] for name in QUERIES
        }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
