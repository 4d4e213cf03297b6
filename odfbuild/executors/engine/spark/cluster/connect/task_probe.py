"""Probe of the executors of a server, by tasks of Python: their versions, and whether they reach a
store.

Nothing of what they report is run here: it comes as text.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.executors.engine.spark.cluster.driver import mapped
from odfbuild.executors.engine.spark.cluster.probe import (
    COLUMNS,
    ProbePlace,
    Report,
    Versions,
    report,
)
from odfbuild.host.json_text import parse_json
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TEXTS: Final = ("spark", "java", "python", "zone", "encoding", "package")


def task_reports(session: "SparkSession", place: ProbePlace, tasks: int) -> list[Report]:
    """Let so many tasks look at a place, and return what they report."""
    said = [f"{text} AS {name}" for name, text in COLUMNS.items()]
    rows = session.range(0, tasks, 1, tasks).selectExpr(*said)
    found = mapped(rows, Looking(place), "report STRING").toArrow()
    return [read_report(each) for each in found["report"].to_pylist()]


@dataclass(frozen=True, slots=True)
class Looking:
    """What a task does: it yields a report for each row that it gets."""

    place: ProbePlace

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = [_text(report(self.place, row)) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pydict({"report": pa.array(texts, pa.string())})


def _text(found: Report) -> str:
    there = found.versions
    said: dict[str, Any] = {name: getattr(there, name) for name in _TEXTS}
    said |= {"packages": dict(there.packages), "host": found.host, "folder": found.folder}
    return json.dumps(said | {"answer": found.answer, "reads_home": found.reads_home})


def read_report(text: str) -> Report:
    """Return the report that a task wrote."""
    said: Any = parse_json(text.encode())
    return Report(
        host=str(said["host"]),
        versions=Versions(
            packages={str(name): str(value) for name, value in said["packages"].items()},
            **{name: str(said[name]) for name in _TEXTS},
        ),
        folder=str(said["folder"]),
        answer=str(said["answer"]),
        reads_home=said["reads_home"] is True,
    )
