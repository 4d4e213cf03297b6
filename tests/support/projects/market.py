"""A project of two roots and two derivatives, as files, and how its answers are made comparable."""

import re
from pathlib import Path
from time import time

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.events import MetadataEvent
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.projects.texts import GOOD, derivative, root

__all__ = ["FILES", "SETTINGS", "append", "dataset", "steady", "workspace"]

SETTINGS = """\
odfbuild: 1
name: market
defaults:
  "path:datasets/raw": {tags: [raw, daily], owner: ops}
  "path:datasets/report.yaml": {tags: [heavy]}
selectors:
  nightly: "tag:daily+ --exclude tag:heavy"
"""
SIDE = "{kind: FilesGlob, path: side/*.csv}"
FILES = {
    "odfbuild.yaml": SETTINGS,
    "datasets/raw/src.yaml": root(),
    "datasets/raw/side.yaml": root("acme/side", fetch=SIDE),
    "datasets/out.yaml": derivative(),
    "datasets/report.yaml": derivative(
        "report", "out", "select t, k, v as total from src where v > 0"
    ),
    "data/1.csv": GOOD,
    "side/1.csv": GOOD,
}
LATER = Timestamp.parse("2040-01-01T00:00:00Z")
SOON = Timestamp.from_millis((int(time()) + 3600) * 1000)  # as by another clock, which may be

_HASH = re.compile(r"\b(?:f1620[0-9a-f]{64}|[0-9a-f]{8})\b")


def steady(text: str) -> str:
    """Return an answer without what differs from one run to the next."""
    return _HASH.sub("HASHHASH", text).replace(engine_version("spark") or "", "VERSION")


def workspace(project: Path) -> Workspace:
    return Workspace(project / ".odfbuild")


def dataset(project: Path, name: str) -> Dataset:
    found = workspace(project).open(DatasetAlias.parse(name))
    assert found is not None
    return found


def append(project: Path, name: str, *events: MetadataEvent, at: Timestamp = SOON) -> None:
    """Append to a chain as somebody else would."""
    found = dataset(project, name)
    found.commit(CommitRequest(events, at, ()), on=found.state())
