"""A project that was built once, and copies of it."""

import shutil
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import engine as spark
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out, without_jvm
from tests.support.process.placed import Placed
from tests.support.process.within import Within
from tests.support.projects.market import FILES
from tests.support.projects.texts import GOOD, derivative, root


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay_out(
        tmp_path_factory.mktemp("built") / "project",
        {
            "datasets/src.yaml": root(),
            "datasets/out.yaml": derivative(),
            "data/1.csv": GOOD,
        },
    )
    done = without_jvm("apply", "--yes", cwd=folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(_built: Path, tmp_path: Path) -> Path:
    """Return a root and a derivative of it, applied; the folder may be changed."""
    return shutil.copytree(_built, tmp_path / "project")


@pytest.fixture
def placed(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Placed:
    """Return `project` with new files, and programs that engines of it may run."""
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    return Placed(Within(project, capsys, monkeypatch))


@pytest.fixture(scope="session")
def _market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay_out(tmp_path_factory.mktemp("market") / "project", FILES)
    done = without_jvm("apply", "--yes", cwd=folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def market(_market: Path, tmp_path: Path) -> Path:
    """Return the project of two roots and two derivatives, applied; it may be changed."""
    return shutil.copytree(_market, tmp_path / "market")


@pytest.fixture
def ask(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Run commands of that project in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    return Inside(market, capsys, monkeypatch, FakeEngine())
