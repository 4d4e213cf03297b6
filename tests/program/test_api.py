"""The package as a library."""

import subprocess
import sys
from pathlib import Path

import pytest

import odfbuild
from odfbuild.cli.commands.author.init import init


def test_a_project_is_planned_from_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(tmp_path / "shop")
    capsys.readouterr()
    project = odfbuild.open_project(tmp_path / "shop")
    plan = odfbuild.plan(project)
    assert [str(alias) for alias in plan.datasets] == ["shop.orders", "shop.items"]
    assert not plan.is_empty


def test_every_public_name_is_there() -> None:
    for name in odfbuild.__all__:
        assert getattr(odfbuild, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'shop'"):
        _ = odfbuild.shop


def test_errors_of_the_project_can_be_caught(tmp_path: Path) -> None:
    with pytest.raises(odfbuild.ProjectError, match=r"no odfbuild\.yaml"):
        odfbuild.open_project(tmp_path)


def test_importing_the_package_imports_no_module_of_it() -> None:
    code = "import sys, odfbuild; print([m for m in sys.modules if m.startswith('odfbuild.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
