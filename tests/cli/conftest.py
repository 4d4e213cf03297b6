"""A project that was built once, and copies of it."""

import shutil
from pathlib import Path

import pytest

from tests.inside import lay_out, without_jvm
from tests.texts import GOOD, derivative, root


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
