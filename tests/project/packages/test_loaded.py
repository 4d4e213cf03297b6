"""Packages: templates, macros and datasets of other folders."""

from pathlib import Path

import pytest

from odfbuild.errors import ProjectErrors
from odfbuild.project.load import Project, load_project
from tests.project.templated import NAMED, SETTINGS, UNNAMED, described, lay_out

MACRO = "{% macro pair(a) %}{{ a }}/USD{{ suffix | default('') }}{% endmacro %}\n"


def loaded(tmp_path: Path, own: dict[str, str], common: dict[str, str]) -> Project:
    """Load a project with a package beside it."""
    root = lay_out(tmp_path / "project", own)
    for name, text in common.items():
        path = tmp_path / "common" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_project(root, packages={"common": tmp_path / "common"})


def test_macros_of_a_package_are_imported_by_its_name(tmp_path: Path) -> None:
    text = "\"{% import 'common/deep/m.j2' as m %}{{ m.pair('EUR') }}\""
    own = {"datasets/a.yaml.j2": NAMED.format(name="a", text=text)}
    (declared,) = loaded(tmp_path, own, {"macros/deep/m.j2": MACRO}).declared
    assert (described(declared), declared.package) == ("EUR/USD", None)


def test_templates_of_a_package_see_the_names_of_the_project_and_their_own_macros(
    tmp_path: Path,
) -> None:
    settings = (
        SETTINGS + "vars: {suffix: {type: string, default: '!'}}\n"
        "generate:\n  g: {template: common/templates/t.yaml.j2, for_each: {a: EUR}, name: x.a}\n"
    )
    text = "\"{% import 'm.j2' as m %}{{ m.pair(each.value) }}\""
    common = {"templates/t.yaml.j2": UNNAMED.replace("{text}", text), "macros/m.j2": MACRO}
    (declared,) = loaded(tmp_path, {"odfbuild.yaml": settings}, common).declared
    assert described(declared) == "EUR/USD!"
    assert (declared.instance, declared.package) == ("g=a", None)
    assert str(declared.span(("metadata", 0))) == "../common/templates/t.yaml.j2:6:7"


def test_datasets_of_a_package_are_taken_if_it_lists_them(tmp_path: Path) -> None:
    common = {
        "odfbuild.yaml": "odfbuild: 1\ndatasets: [defs]\nvars: {v: {type: int, default: 7}}\n",
        "defs/a.yaml": NAMED.format(name="c.a", text="plain"),
        "defs/b.yaml.j2": NAMED.format(name="c.b", text="'{{ v }}'"),
    }
    own = {
        "odfbuild.yaml": SETTINGS + "vars: {v: {type: int, default: 1}}\n",
        "datasets/o.yaml.j2": NAMED.format(name="o", text="'{{ v }}'"),
    }
    project = loaded(tmp_path, own, common)
    assert [(str(e.alias), described(e), e.package, e.file) for e in project.declared] == [
        ("c.a", "plain", "common", "../common/defs/a.yaml"),
        ("c.b", "7", "common", "../common/defs/b.yaml.j2"),
        ("o", "1", None, "datasets/o.yaml.j2"),
    ]


def test_datasets_of_a_package_are_left_out_if_it_lists_none(tmp_path: Path) -> None:
    common = {
        "odfbuild.yaml": "odfbuild: 1\n",
        "datasets/a.yaml": NAMED.format(name="c.a", text="plain"),
    }
    assert loaded(tmp_path, {}, common).declared == ()
    (tmp_path / "common" / "odfbuild.yaml").unlink()
    assert loaded(tmp_path, {}, {}).declared == ()


def test_a_package_with_settings_and_without_datasets_is_one_of_templates(tmp_path: Path) -> None:
    assert loaded(tmp_path, {}, {"odfbuild.yaml": "odfbuild: 1\n"}).declared == ()


def test_problems_of_a_package_are_told_with_its_folder(tmp_path: Path) -> None:
    common = {
        "odfbuild.yaml": "odfbuild: 1\ndatasets: [defs]\n"
        "generate:\n  g: {template: defs/a.yaml.j2, for_each: {a: 1}, name: x_y}\n",
        "defs/a.yaml.j2": UNNAMED.replace("{text}", "x"),
        "defs/b.yaml": "kind: [\n",
    }
    with pytest.raises(ProjectErrors) as caught:
        loaded(tmp_path, {}, common)
    assert [str(each.span) for each in caught.value.found] == [
        "../common/defs/b.yaml:1:8",
        "../common/odfbuild.yaml:4:57",
    ]


def test_settings_of_a_package_that_are_wrong_are_told_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ProjectErrors) as caught:
        loaded(tmp_path, {}, {"odfbuild.yaml": "odfbuild: 1\ndatasets: [nowhere]\n"})
    assert [str(each.span) for each in caught.value.found] == ["../common/odfbuild.yaml:2:12"]


def test_a_package_and_the_project_may_not_declare_one_name(tmp_path: Path) -> None:
    common = {
        "odfbuild.yaml": "odfbuild: 1\ndatasets: [datasets]\n",
        "datasets/a.yaml": NAMED.format(name="a", text="x"),
    }
    with pytest.raises(ProjectErrors, match="'a' is already declared"):
        loaded(tmp_path, {"datasets/a.yaml": NAMED.format(name="a", text="y")}, common)


def test_python_of_a_package_does_not_run(tmp_path: Path) -> None:
    common = {
        "odfbuild.yaml": "odfbuild: 1\ndatasets: [defs]\nmacros: {python: true}\n",
        "defs/a.yaml.j2": NAMED.format(name="a", text="'{{ py is defined }}'"),
        "macros/m.py": "raise RuntimeError\n",
    }
    (declared,) = loaded(tmp_path, {}, common).declared
    assert described(declared) == "false"


def test_a_package_sees_of_the_environment_what_the_project_declares_as_well(
    tmp_path: Path,
) -> None:
    text = "'{{ env.A | default(0) }}{{ env.B | default(0) }}'"
    common = {
        "odfbuild.yaml": "odfbuild: 1\ndatasets: [defs]\nenv: [A, B]\n",
        "defs/a.yaml.j2": NAMED.format(name="a", text=text),
    }
    loaded(tmp_path, {"odfbuild.yaml": SETTINGS + "env: [B]\n"}, common)
    (declared,) = load_project(
        tmp_path / "project",
        env={"A": "a", "B": "b"},
        packages={"common": tmp_path / "common"},
    ).declared
    assert described(declared) == "0b"
