"""Names of datasets: what a check passes can be made."""

from pathlib import Path

import pytest

from odfbuild.errors import ProjectErrors
from odfbuild.odf.refs import LONGEST_ALIAS, DatasetAlias
from odfbuild.project.load import load_project
from odfbuild.state.workspace import UnusableNameError, Workspace
from tests.support.process.inside import lay_out

SOURCE = """
kind: DatasetSnapshot
version: 1
content: {{name: {name}, kind: Root, metadata: []}}
"""
LENGTHS = (1, 100, *range(LONGEST_ALIAS - 4, LONGEST_ALIAS + 5), 1000)


def passes(folder: Path, name: str) -> bool:
    try:
        load_project(lay_out(folder, {"datasets/a.yaml": SOURCE.format(name=name)}))
    except ProjectErrors as errors:
        assert {each.code for each in errors.diagnostics()} == {"unusable-name"}
        return False
    return True


def names_a_file(folder: Path, name: str) -> bool:
    try:
        return Workspace(folder / "workspace").open(DatasetAlias.parse(name)) is None
    except UnusableNameError:
        return False


@pytest.mark.parametrize("account", ["", "An-Account/"])
def test_a_name_passes_if_a_workspace_can_hold_it(tmp_path: Path, account: str) -> None:
    seen = set()
    for length in LENGTHS:
        name = account + "Aa.b"[: max(1, length - len(account))]
        name = name.ljust(length, "x")
        passed = passes(tmp_path, name)
        assert passed is names_a_file(tmp_path, name), length
        seen.add(passed)
    assert seen == {True, False}
