"""A project of two roots that are pushed to, a polled one and a derivative, for tests of pushes."""

import json
from pathlib import Path

from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import GOOD, derivative, root

__all__ = ["CSV", "NDJSON", "PAIR", "PUSHED", "pushed_to", "rows"]

CSV = "t,k,v\n2024-01-01T00:00:00Z,a,1\n,b,2\n"
NDJSON = '{"t": "2024-02-01T00:00:00Z", "k": "c", "v": 3}\n'
PUSHED = """\
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: manual
      read: {kind: Csv, header: true, schema: [t TIMESTAMP, k STRING NOT NULL, v BIGINT]}
      merge: {kind: Ledger, primaryKey: [k]}
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: [t TIMESTAMP, k STRING NOT NULL, v BIGINT]}
      merge: {kind: Append}
    - kind: SetVocab
      eventTimeColumn: t
"""
PAIR = (
    PUSHED.replace("readings", "pair")
    .replace("manual", "left")
    .replace("sourceName: default", "sourceName: right")
)


def pushed_to(folder: Path) -> Path:
    """Lay the project out and apply it."""
    files = {
        "datasets/readings.yaml": PUSHED,
        "datasets/pair.yaml": PAIR,
        "datasets/polled.yaml": root("polled"),
        "datasets/out.yaml": derivative("out", "readings"),
        "data/1.csv": GOOD,
        "in/a.csv": CSV,
        "in/c.ndjson": NDJSON,
    }
    project = lay_out(folder, files)
    done = without_jvm("apply", "--yes", cwd=project)
    assert done.code == 0, done.err
    return project


def rows(shown: str) -> list[tuple[object, ...]]:
    """Return keys and values of what `show -o json` printed, in the order of offsets."""
    return [(row["k"], row["v"]) for row in json.loads(shown)]
