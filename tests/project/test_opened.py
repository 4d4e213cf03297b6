"""A project that is opened: its variables, the day it is judged on, and the user's own targets."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from odfbuild import app
from odfbuild.errors import ProjectError, ProjectErrors
from tests.support.process.inside import lay_out

VARIABLES = "odfbuild: 1\nvars: {region: {type: string}, n: {type: int, default: 1}}\n"


def test_variables_come_from_files_and_single_values(tmp_path: Path) -> None:
    root = lay_out(tmp_path, {"odfbuild.yaml": VARIABLES, "v.yaml": "region: eu\nn: 2\n"})
    opened = app.open_project(root, variables=["n=3"], vars_files=[root / "v.yaml"])
    assert opened.variables == {"region": "eu", "n": 3}


def test_what_reads_chains_only_needs_no_values(tmp_path: Path) -> None:
    opened = app.open_project(lay_out(tmp_path, {"odfbuild.yaml": VARIABLES}))
    assert list(opened.workspace.names()) == []
    with pytest.raises(ProjectErrors, match="the variable 'region' has no value"):
        _ = opened.variables


def test_changes_are_judged_on_the_day_that_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "odfbuild: 1\ngates: {breaking: warn}\nmoved: [{from: a, to: b}]\n"
    root = lay_out(tmp_path, {"odfbuild.yaml": text})
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-02-29")
    policy = app.open_project(root).policy
    assert (str(policy.today), policy.gates.breaking.value) == ("2024-02-29", "warn")
    assert [str(each.new) for each in policy.moved] == ["b"]
    monkeypatch.setenv("ODFBUILD_TODAY", "yesterday")
    with pytest.raises(ProjectError, match="ODFBUILD_TODAY is 'yesterday'"):
        app.open_project(root)


def test_otherwise_they_are_judged_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODFBUILD_TODAY", raising=False)
    before = datetime.now(UTC).date()
    policy = app.open_project(lay_out(tmp_path, {})).policy
    assert before <= policy.today <= datetime.now(UTC).date()


def test_targets_of_the_user_count_in_every_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "odfbuild"
    folder.mkdir(parents=True)
    (folder / "profiles.yaml").write_text("targets: {mine: {workspace: ../elsewhere}}\n")
    opened = app.open_project(lay_out(tmp_path / "project", {}), target="mine")
    assert opened.workspace.root == tmp_path / "project" / ".." / "elsewhere"
