"""The project file: what it may say, what it means when it says less, and where it is found."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.config import (
    NoProjectError,
    SparkOptions,
    Target,
    UnknownTargetError,
    find_project,
    load_config,
    parse_config,
)


def test_the_shortest_project_file_gets_the_defaults() -> None:
    config = parse_config("odfbuild: 1\n", default_name="folder")
    assert (config.name, config.datasets) == ("folder", ("datasets",))
    assert config.target() == Target("dev", "./.odfbuild", SparkOptions(None, None))


def test_a_target_has_a_workspace_and_options_of_its_own() -> None:
    config = parse_config(
        """\
odfbuild: 1
name: markets
datasets: [a, ./b/]
engine: {spark: {memory: 2g}}
default_target: prod
targets:
  dev:
  prod: {workspace: ../shared, engine: {spark: {master: "local[2]"}}}
""",
        default_name="folder",
    )
    assert (config.name, config.datasets) == ("markets", ("a", "b"))
    assert config.target() == Target("prod", "../shared", SparkOptions("local[2]", "2g"))
    assert config.target("dev") == Target("dev", "./.odfbuild", SparkOptions(None, "2g"))


def test_the_only_target_is_the_default_one() -> None:
    config = parse_config("odfbuild: 1\ntargets: {prod: {}}", default_name="x")
    assert config.target().name == "prod"


def test_options_for_spark_hold_without_any_target() -> None:
    config = parse_config("odfbuild: 1\nengine: {spark: {master: local}}", default_name="x")
    assert config.target().spark == SparkOptions("local", None)


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    config = parse_config("odfbuild: 1\ntargets: {dev: {}, prod: {}}", default_name="x")
    with pytest.raises(UnknownTargetError, match="no target named 'prd'") as caught:
        config.target("prd")
    assert caught.value.fix == "did you mean 'prod'?"


def test_all_problems_of_the_settings_are_told_together() -> None:
    text = "name: 7\ndatsets: []\ntargets: {dev: {engine: {spark: {memory: lots}}}}\n"
    with pytest.raises(ProjectErrors) as caught:
        parse_config(text, default_name="x")
    assert len(caught.value.found) == 4


def test_the_project_is_the_nearest_folder_above(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "odfbuild.yaml").touch()
    assert find_project(inner) == tmp_path
    (inner.parent / "odfbuild.yaml").touch()
    assert find_project(inner) == inner.parent


def test_a_folder_that_is_given_must_be_the_project_itself(tmp_path: Path) -> None:
    (tmp_path / "odfbuild.yaml").touch()
    (tmp_path / "a").mkdir()
    assert find_project(Path("elsewhere"), tmp_path) == tmp_path
    with pytest.raises(NoProjectError, match=r"no odfbuild\.yaml in"):
        find_project(tmp_path, tmp_path / "a")


def test_without_a_project_init_is_offered(tmp_path: Path) -> None:
    with pytest.raises(NoProjectError) as caught:
        find_project(tmp_path / "x")
    assert "odfbuild init" in caught.value.fix


def test_a_project_is_called_as_its_folder(tmp_path: Path) -> None:
    root = tmp_path / "My Data"
    (root / "datasets").mkdir(parents=True)
    (root / "odfbuild.yaml").write_text("odfbuild: 1\n")
    assert load_config(root).name == "My Data"


def test_the_folder_of_definitions_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\n")
    with pytest.raises(ProjectErrors, match="there is no folder 'datasets'"):
        load_config(tmp_path)


def test_a_project_file_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "odfbuild.yaml").mkdir()
    with pytest.raises(NoProjectError, match=r"cannot read odfbuild\.yaml"):
        load_config(tmp_path)


PIECES = [
    line + "\n"
    for case in sorted((Path(__file__).parent / "bad_settings").glob("*.yaml"))
    for line in case.read_text("utf-8").splitlines()
]


@given(st.lists(st.sampled_from(PIECES), unique=True, max_size=8).map("".join))
def test_any_mix_of_lines_gives_settings_or_findings(text: str) -> None:
    try:
        config = parse_config(text, default_name="x")
    except ProjectErrors as errors:
        assert all(each.span is not None for each in errors.found)
    else:
        assert config.target().name == config.default_target
