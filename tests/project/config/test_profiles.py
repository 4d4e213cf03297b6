"""Profiles: targets of a machine on top of the project's, and nothing secret in them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import ProjectErrors
from odfbuild.host.user_folders import config_folder
from odfbuild.project.config.project_file import Config, load_config, parse_config
from odfbuild.project.config.targets import (
    EngineOptions,
    ProfilesFile,
    SparkOptions,
    Target,
    looks_secret,
)

GUARDED = "odfbuild: 1\ntargets: {prod: {protect: true, require_plan_file: true}}\n"


def profiled(project: str, *profiles: str) -> Config:
    given = [ProfilesFile(f"{n}.yaml", text) for n, text in enumerate(profiles)]
    return parse_config(project, default_name="x", profiles=given)


def problems(project: str, *profiles: str) -> str:
    with pytest.raises(ProjectErrors) as caught:
        profiled(project, *profiles)
    return render_diagnostics(caught.value.found)


def test_a_profile_adds_targets_and_changes_single_keys() -> None:
    config = profiled(
        "odfbuild: 1\nengine: {spark: {memory: 1g}}\ntargets: {dev: {workspace: ../w}}\n",
        "targets: {dev: {engine: {spark: {memory: 8g}}}, big: {workspace: /data/odf}}",
    )
    assert config.targets == {
        "dev": Target("dev", "../w", EngineOptions(SparkOptions(None, "8g"))),
        "big": Target("big", "/data/odf", EngineOptions(SparkOptions(None, "1g"))),
    }
    assert config.default_target == "dev"


def test_the_profile_beside_the_project_goes_before_that_of_the_user(tmp_path: Path) -> None:
    root, user = tmp_path / "project", tmp_path / "user"
    (root / "datasets").mkdir(parents=True)
    user.mkdir()
    (root / "odfbuild.yaml").write_text("odfbuild: 1\n")
    (user / "profiles.yaml").write_text("targets: {dev: {workspace: u, protect: true}}\n")
    assert load_config(root).target() == Target("dev")
    assert load_config(root, user_folder=user).target() == Target("dev", "u", protect=True)
    (root / "profiles.yaml").write_text("targets: {dev: {workspace: p}}\n")
    assert load_config(root, user_folder=user).target() == Target("dev", "p", protect=True)


def test_targets_of_a_profile_do_not_become_the_default() -> None:
    config = profiled("odfbuild: 1\ntargets: {prod: {}}", "targets: {dev: {}, test: {}}")
    assert config.default_target == "prod"


def test_the_default_target_may_be_one_of_a_profile() -> None:
    config = profiled("odfbuild: 1\ndefault_target: mine\n", "targets: {mine: {workspace: w}}")
    assert config.target().workspace == "w"


def test_a_profile_may_guard_a_target_but_not_lift_its_guards() -> None:
    assert profiled("odfbuild: 1\n", "targets: {dev: {protect: true}}").target().protect
    assert profiled(GUARDED, "targets: {prod: {protect: true}}").target().require_plan_file
    assert problems(GUARDED, "targets:\n  prod: {protect: false}\n") == (
        "0.yaml:2:19: error[config]: 'protect' cannot be relaxed by a profile\n"
        "  2 |   prod: {protect: false}\n"
        "    |                   ^^^^^\n"
        "  why: another file of the project protects the target for everyone\n"
        "  fix: remove the line, or change the other file in agreement with its owners"
    )


def test_a_profile_holds_targets_and_repositories_only() -> None:
    found = problems("odfbuild: 1\n", "default_target: dev\ntargets: []\n")
    assert "0.yaml:1:1: error[config]: unknown key 'default_target'" in found
    assert "0.yaml:2:10: error[config]: 'targets' must be a mapping" in found
    assert "0.yaml:2:1" in problems("odfbuild: 1\n", "---\ntargets: 1\n")


def test_an_empty_profile_is_no_error() -> None:
    assert profiled("odfbuild: 1\n", "", "# nothing yet\n", "targets:\n").target() == Target("dev")


def test_a_secret_is_refused_and_its_line_is_not_shown() -> None:
    found = problems(
        "odfbuild: 1\n",
        "targets:\n  dev: {workspce: w, password: hunter2}\n  test:\n    engine:\n"
        '      spark: {"auth_token": hunter2}\n      key: hunter2\n',
    )
    assert "hunter2" not in found
    assert "0.yaml:2:9: error[config]: unknown key 'workspce'" in found
    for place, key in (("2:22", "password"), ("5:15", "auth_token"), ("6:7", "key")):
        assert f"0.yaml:{place}: error[secret]: '{key}' looks like a secret" in found
    assert found.endswith("4 errors")


def test_a_broken_profile_does_not_show_a_secret_either() -> None:
    found = problems("odfbuild: 1\n", "targets: {dev: {token: hunter2, x: [}}\n")
    assert "error[yaml-" in found
    assert "hunter2" not in found


def test_a_profile_is_one_mapping() -> None:
    found = problems("odfbuild: 1\n", "targets: {dev: }\n---\ntargets: {x: }\n")
    assert "0.yaml:3:1: error[config]: 0.yaml holds 2 documents" in found


def test_a_profile_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\n")
    (tmp_path / "profiles.yaml").mkdir()
    with pytest.raises(ProjectErrors, match="the file cannot be read"):
        load_config(tmp_path)


def test_problems_of_the_project_and_of_its_profiles_are_told_together() -> None:
    found = problems("odfbuild: 1\nnam: x\n", "targts: {}", "targets: 7")
    assert [line.split(": ")[0] for line in found.splitlines() if "error[" in line] == [
        "odfbuild.yaml:2:1",
        "0.yaml:1:1",
        "1.yaml:1:10",
    ]


def test_a_target_may_be_called_as_secrets_are() -> None:
    assert "token" in profiled("odfbuild: 1\n", "targets: {token: {workspace: w}}").targets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "token",
        "apiToken",
        "client_secret",
        "key",
        "apikey",
        "api-key",
        "AWS_SECRET_ACCESS_KEY",
        "privateKey",
        "aws.credentials",
        "passphrase",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["keyboard", "monkey", "workspace", "memory", "tokenizer"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not looks_secret(name)


def test_the_users_folder_is_where_settings_are_kept() -> None:
    assert config_folder({"HOME": "/h"}) == Path("/h/.config/odfbuild")
    assert config_folder({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/odfbuild")
    assert config_folder({}) is None


LINES = ["targets:\n", "  dev:\n", "    workspace: w\n", "    protect: false\n", "  - x\n"]
LINES += ["    password: hunter2\n", "    engine: {spark: {memory: 2}}\n", "odfbuild: 1\n", "]\n"]


@given(st.lists(st.sampled_from(LINES), max_size=6).map("".join))
def test_any_mix_of_lines_gives_targets_or_findings(text: str) -> None:
    try:
        profiled("odfbuild: 1\n", text)
    except ProjectErrors as errors:
        assert "hunter2" not in render_diagnostics(errors.found)
    else:
        assert "hunter2" not in text
