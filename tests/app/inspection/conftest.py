"""A project that was built in three applies: rows corrected and taken back, and rows only added."""

import csv
import io
from pathlib import Path

import pytest

import odfbuild
from tests.app.inspection import HOSTILE
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import derivative, root


def _csv(*rows: tuple[object, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("t", "k", "v"), *rows])
    return text.getvalue()


_STOCK = root(
    "acme.stock", merge="{kind: Snapshot, primaryKey: [k]}", fetch="{kind: FilesGlob, path: s/*}"
)
_PORTIONS = (
    {
        "datasets/stock.yaml": _STOCK,
        "datasets/log.yaml": root("log", fetch="{kind: FilesGlob, path: l/*}"),
        "datasets/copy.yaml": derivative("copy", "log"),
        "s/1.csv": _csv(("2024-01-01", "a", 1), ("2024-01-02", "b", 2), ("2024-01-02", "c", 3)),
        "l/1.csv": _csv(("2024-01-01", "a", 1), ("2024-01-02", HOSTILE, 2)),
    },
    {"s/2.csv": _csv(("2024-01-03", "a", 5), ("2024-01-02", "c", ""), ("2024-01-04", "d", 4))},
    {
        "s/3.csv": _csv(("2024-01-03", "a", 5), ("2024-01-05", "b", 7)),
        "l/2.csv": _csv(("2024-01-09", "z", "")),
    },
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the project; no test changes it."""
    folder = tmp_path_factory.mktemp("reading") / "project"
    for files in _PORTIONS:
        done = without_jvm("apply", "--yes", cwd=lay_out(folder, dict(files)))
        assert done.code == 0, done.err
    return folder


@pytest.fixture(scope="session")
def project(built: Path) -> odfbuild.DataProject:
    """Return the opened project."""
    return odfbuild.open_project(built)
