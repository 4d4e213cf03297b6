"""Other users of the machine get nothing from the folder of a workspace."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.files.disk import Disk
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.keys import KeyFolder
from odfbuild.state.lease import Worker, take_lease
from odfbuild.state.memory.applied import record_applied
from odfbuild.state.memory.engine_answers import Answers
from odfbuild.state.runs import RunSummary, begin_run, new_run_id
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import OUR_ID
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.market import FILES

SRC = DatasetAlias.parse("src")
NOON = Timestamp.parse("2031-04-02T12:00:00Z")


@pytest.fixture(params=[0o000, 0o022])
def open_handed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have a umask by which others get what nobody forbids."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def stage(root: Path) -> None:
    with Workspace(root).staging():
        pass


def lease(root: Path) -> None:
    by = Worker(user="me", host="here", pid=1, since="today", command="apply")
    take_lease(root, by, written=[SRC])[0].release()


def begin(root: Path) -> None:
    summary = RunSummary(
        id=new_run_id(1, 1), command="apply", started=NOON, user="me", host="here", pid=1,
        project="shop", target="dev", version="1", steps=0,
    )  # fmt: skip
    begun = begin_run(root, summary, "{}")
    assert begun is not None
    begun.close()


FIRST: dict[str, Callable[[Path], object]] = {
    "cache": lambda root: Workspace(root).cache,
    "room": lambda root: Workspace(root).make_room(OUR_ID),
    "creation": lambda root: Workspace(root).create(
        SRC, DatasetKind.ROOT, CommitRequest((), NOON, ())
    ),
    "staging": stage,
    "key": lambda root: KeyFolder(root / "keys").new_dataset_key(),
    "lease": lease,
    "run": begin,
    "applied": lambda root: record_applied(Workspace(root), {SRC: "ok"}),
    "answers": lambda root: Answers(root / "cache" / "answers.sqlite").put("why", "so"),
    "in full": lambda root: make_workspace_folder(root, root / "a" / "b"),
    "on disk": lambda root: make_workspace_folder(root, root / "a" / "b", disk=Disk()),
}


@pytest.mark.holds("local-workspace")
@pytest.mark.usefixtures("open_handed")
@pytest.mark.parametrize("first", FIRST)
def test_a_workspace_is_private_whatever_is_made_in_it_first(first: str, tmp_path: Path) -> None:
    root = tmp_path / "missing" / "workspace"
    FIRST[first](root)
    assert any(root.iterdir())
    assert root.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "missing").stat().st_mode & 0o005 == 0o005  # which is not ours


@pytest.mark.holds("local-workspace")
@pytest.mark.usefixtures("open_handed")
@pytest.mark.parametrize("first", FIRST)
def test_one_that_its_owner_shares_stays_shared(first: str, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    FIRST[first](tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755


@pytest.mark.holds("local-workspace")
@pytest.mark.usefixtures("open_handed")
def test_every_command_that_makes_a_workspace_makes_it_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    project = lay_out(tmp_path / "project", FILES)
    (tmp_path / "rows.csv").write_text("x")
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    ask = Within(project, capsys, monkeypatch)
    commands = {
        "plan": (),
        "check": (),
        "lock": (),
        "lineage add": ("src", "out"),
        "import": (str(tmp_path / "nothing"),),
        "ingest": ("src", str(tmp_path / "rows.csv")),
        "sql": ("select 1 as one",),
        "apply": ("--yes",),
    }
    made = set()
    for name, arguments in commands.items():
        ask(*name.split(), *arguments)
        for folder in (project / ".odfbuild", tmp_path / "home" / "odfbuild" / "plans"):
            if folder.exists():
                made.add(name)
                assert folder.stat().st_mode & 0o777 == 0o700, name
                shutil.rmtree(folder)
    assert {"plan", "import", "sql", "apply"} <= made
