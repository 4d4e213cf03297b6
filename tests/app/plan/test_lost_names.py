"""Datasets whose names are gone: an error, unless another process takes them away meanwhile."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from odfbuild.app.load_project import MissingNameError, load, wrong_of
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.load import Project
from odfbuild.project.opened import Opened, open_project
from odfbuild.state.chain.heads import HEAD
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import root

SRC = DatasetAlias.parse("src")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with one dataset that was applied."""
    settings = "odfbuild: 1\nname: p\nengine: {ingest: arrow}\n"
    rows = "t,k,v\n2024-01-01,a,1\n"
    files = {"odfbuild.yaml": settings, "datasets/src.yaml": root("src"), "data/1.csv": rows}
    lay_out(tmp_path, files)
    done = odfbuild("apply", "--yes", cwd=tmp_path)
    assert done.code == 0, done.err
    return tmp_path


def read(folder: Path) -> tuple[Opened, Project, Mapping[DatasetId, Multihash]]:
    """Return a project and what a plan reads of it first."""
    project = open_project(folder)
    heads = project.workspace.heads()
    project.workspace.states(heads=heads)
    return project, load(project, partly=True), heads


def test_a_dataset_that_another_takes_away_while_a_plan_reads_has_lost_nothing(
    folder: Path,
) -> None:
    project, loaded, heads = read(folder)
    ((id, head),) = heads.items()
    open_project(folder).workspace.remove(SRC, id, head)
    assert not wrong_of(project, loaded, heads).errors


def test_a_dataset_of_which_another_takes_the_head_next_has_lost_nothing(folder: Path) -> None:
    project, loaded, heads = read(folder)
    ((id, head),) = heads.items()
    (folder / ".odfbuild" / "names" / "src").unlink()
    far = project.workspace.dataset(id).stores.heads
    thread = threading.Timer(0.1, lambda: far.delete(HEAD, expected=head))
    thread.start()
    assert not wrong_of(project, loaded, heads).errors
    thread.join()


def test_a_dataset_that_has_a_head_and_no_name_is_an_error(folder: Path) -> None:
    project, loaded, heads = read(folder)
    (folder / ".odfbuild" / "names" / "src").unlink()
    assert isinstance(wrong_of(project, loaded, heads).errors[SRC], MissingNameError)
