"""Where a workspace, or a folder of it, is something else, commands say so and change nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.files.folder import WorkspaceFolderError, check_folders
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import NOON
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import root

ELSE: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("x"),
    "a pipe": os.mkfifo,
    "a link that leads nowhere": lambda path: path.symlink_to("nothing"),
}
INNER = ("", "cache", "datasets", "disabled", "keys", "names", "runs", "sources", "staging")
COMMANDS = ("check", "plan", "apply --yes", "status", "verify", "gc", "runs", "drift", "list")


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("kind", ELSE)
def test_what_is_no_folder_is_named(
    kind: str,
    inner: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Inside(tmp_path, capsys, monkeypatch, FakeEngine())
    lay_out(run.project, {"odfbuild.yaml": "odfbuild: 1\n", "datasets/src.yaml": root("src")})
    place = run.project / ".odfbuild" / inner
    place.parent.mkdir(exist_ok=True)
    ELSE[kind](place)
    before = sorted((run.project / ".odfbuild").rglob("*"))
    for command in COMMANDS:
        done = run(*command.split())
        assert done.code == 1, command
        is_link = kind.startswith("a link") and inner
        assert ("workspace-link" if is_link else "workspace-folder") in done.err, command
        assert str(place) in done.err, command
    assert sorted((run.project / ".odfbuild").rglob("*")) == before


def test_a_workspace_of_this_program_is_one(tmp_path: Path) -> None:
    check_folders(tmp_path / "none")
    workspace = Workspace(tmp_path)
    workspace.create(DatasetAlias.parse("foo"), DatasetKind.ROOT, CommitRequest((), NOON))
    assert workspace.cache.is_dir()
    check_folders(tmp_path)
    (tmp_path / "runs").write_text("")
    with pytest.raises(WorkspaceFolderError):
        check_folders(tmp_path)
