"""Workspaces of strangers: `.odfbuild` with links in it, that came with a repository."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from odfbuild.odf.identity import DatasetId
from odfbuild.state.files.links import WorkspaceLinkError
from odfbuild.state.gc import find_leftovers
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

ID = DatasetId(bytes(32))
PLACES = (
    *(
        "staging",
        "datasets",
        "names",
        "keys",
        "cache",
        "runs",
        "disabled",
        "sources",
        "index.sqlite",
    ),
    *("staging/x", "names/x", "keys/x.pem", "cache/fetch", "cache/applied", "cache/spark"),
    *("runs/x", "disabled/x", f"cache/fetch/{ID.multibase}", f"datasets/{ID.multibase}"),
)
PARTS = tuple(f"datasets/{ID.multibase}/{each}" for each in ("refs", "blocks", "data"))
COMMANDS = (("gc", "--older-than", "0s"), ("apply", "--yes"), ("import", "theirs"), ("plan",))


@pytest.fixture
def ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD, "photos/2020/1.jpg": "mine"}
    return Inside(lay_out(tmp_path / "ours", files), capsys, monkeypatch, FakeEngine())


def link(project: Path, place: str) -> Path:
    """Make a place in the workspace a link to a folder of photos, and return the photo."""
    path = project / ".odfbuild" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(project / "photos")
    return project / "photos" / "2020" / "1.jpg"


@pytest.mark.holds("bytes-workspace-links")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_workspace_with_a_link_in_it_is_refused(ours: Inside, command: tuple[str, ...]) -> None:
    photo = link(ours.project, "staging")
    done = ours(*command)
    assert done.code == 1
    assert "error[workspace-link]" in done.err, done.err
    assert [each.name for each in photo.parent.parent.rglob("*")] == ["2020", "1.jpg"]


@pytest.mark.holds("bytes-workspace-links")
@pytest.mark.parametrize("place", (*PLACES, *PARTS))
def test_nothing_is_swept_over_a_link(ours: Inside, place: str) -> None:
    photo = link(ours.project, place)
    workspace = Workspace(ours.project / ".odfbuild")
    with pytest.raises(WorkspaceLinkError):
        find_leftovers(workspace.root, (), before=float("inf"))
    with pytest.raises(WorkspaceLinkError) if place in ("staging", *PARTS) else nullcontext():
        if place in PARTS:
            workspace.make_room(ID)
        else:
            with workspace.staging():
                pass
    assert photo.read_text() == "mine"


@pytest.mark.holds("bytes-workspace-links")
@pytest.mark.parametrize("place", ["bad-rows", f"bad-rows/{ID.multibase}", "comes-later/x"])
def test_rows_are_put_aside_in_no_folder_behind_a_link(ours: Inside, place: str) -> None:
    settings = "odfbuild: 1\ndefaults: {'kind:root': {bad_rows: divert}}\n"
    (ours.project / "odfbuild.yaml").write_text(settings)
    (ours.project / "data" / "2.csv").write_text(GOOD + "no date at all,x,y\n")
    photo = link(ours.project, place)
    done = ours("apply", "--yes")
    assert done.code == 1
    assert "error[workspace-link]" in done.err, done.err
    assert [each.name for each in photo.parent.parent.rglob("*")] == ["2020", "1.jpg"]


@pytest.mark.holds("bytes-workspace-links")
def test_a_workspace_may_be_a_link_itself_and_a_plan_says_so(ours: Inside, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (ours.project / ".odfbuild").symlink_to(tmp_path / "disk")
    assert f"workspace   {tmp_path}/disk" in ours("plan").out
    done = ours("apply", "--yes")
    assert done.code == 0, done.err
