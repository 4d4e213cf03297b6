"""The project file: what it may say, what it means when it says less, and where it is found."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.planner.plan.policy import Gates, Severity
from odfbuild.project.config.project_file import (
    NoProjectError,
    UnknownTargetError,
    find_project,
    load_config,
    parse_config,
)
from odfbuild.project.config.targets import EngineOptions, SparkOptions, Target
from tests.project.config.settings import FULL, GOOD


def test_the_shortest_project_file_gets_the_defaults() -> None:
    config = parse_config("odfbuild: 1\n", default_name="folder")
    assert (config.name, config.datasets) == ("folder", ("datasets",))
    assert config.target() == Target("dev", "./.odfbuild", EngineOptions(SparkOptions(None, None)))


def test_a_target_has_a_workspace_and_options_of_its_own() -> None:
    config = parse_config(
        """\
odfbuild: 1
name: markets
datasets: [a, ./b/]
engine: {spark: {memory: 2g, slice_rows: 5000}}
default_target: prod
targets:
  dev:
  prod: {workspace: ../shared, engine: {spark: {master: "local[2]"}}}
""",
        default_name="folder",
    )
    assert (config.name, config.datasets) == ("markets", ("a", "b"))
    assert config.target() == Target(
        "prod", "../shared", EngineOptions(SparkOptions("local[2]", "2g", 5000))
    )
    assert config.target("dev") == Target(
        "dev", "./.odfbuild", EngineOptions(SparkOptions(None, "2g", 5000))
    )


def test_what_merges_sources_is_said_for_all_targets_or_for_one() -> None:
    text = "odfbuild: 1\nengine: {ingest: auto}\n"
    assert parse_config("odfbuild: 1\n", default_name="x").target().engine.ingest == "spark"
    assert parse_config(text, default_name="x").target().engine.ingest == "auto"
    targets = "default_target: a\ntargets: {a: {engine: {ingest: arrow}}, b: {}}\n"
    config = parse_config(text + targets, default_name="x")
    assert [config.target(name).engine.ingest for name in "ab"] == ["arrow", "auto"]


def test_what_merges_sources_is_one_of_a_few_words() -> None:
    with pytest.raises(ProjectErrors, match="ingest"):
        parse_config("odfbuild: 1\nengine: {ingest: duckdb}\n", default_name="x")


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


def test_a_project_file_can_say_everything_at_once() -> None:
    config = parse_config(FULL, default_name="x")
    assert list(config.variables) == ["region", "start", "pairs"]
    assert config.variables["region"].enum == ("eu", "us")
    assert config.env == ("REGION",)
    assert [each.selector for each in config.defaults] == ["*", "path:datasets/rates", "kind:root"]
    assert [each.name for each in config.generators] == ["rates", "weather", "stations", "list"]
    assert [(str(each.old), str(each.new)) for each in config.moved] == [
        ("org.example.old", "org.example.new"),
        ("org.example.new", "me/newer"),
    ]
    assert [(each.column, each.until, each.reason) for each in config.accepted] == [
        ("fee", date(2026, 12, 31), "nobody reads it"),
        (None, date(2026, 12, 31), None),
    ]
    assert (config.pools, config.python_macros) == ({"default": 4, "rate-limited-api": 1}, True)
    assert list(config.selectors) == ["nightly", "both"]
    assert [each.called for each in config.packages] == ["odf-common", "ours"]
    assert [str(each.span) for each in config.packages] == [
        "odfbuild.yaml:38:5",
        "odfbuild.yaml:39:5",
    ]
    target = config.target()
    assert (target.name, target.protect, target.require_plan_file) == ("prod", True, True)


def test_gates_keep_what_is_set_and_zero_is_a_bound() -> None:
    gates = parse_config(FULL, default_name="x").gates
    assert gates.breaking is Severity.WARN
    assert gates.rules == {"ODF204": Severity.OFF, "ODF301": Severity.ERROR}
    assert gates.max_restated_rows == 0
    assert parse_config("odfbuild: 1\n", default_name="x").gates == Gates()


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("{git: 'https://example.org/team/odf-common.git', rev: v1}", "odf-common"),
        ("{git: 'git@example.org:common', rev: v1}", "common"),
        ("{git: 'https://example.org/a/', rev: v1, name: b}", "b"),
        ("{path: ../shared/odf.rules/}", "odf.rules"),
    ],
)
def test_a_package_is_called_as_where_it_comes_from(origin: str, name: str) -> None:
    (package,) = parse_config(f"odfbuild: 1\npackages: [{origin}]", default_name="x").packages
    assert package.called == name


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_settings_are_read_without_complaint(text: str) -> None:
    assert parse_config(text, default_name="x").name in ("x", "markets")


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


def test_settings_of_a_cluster_add_up_and_a_wait_is_a_length_of_time() -> None:
    config = parse_config(
        "odfbuild: 1\n"
        "engine: {spark: {wait: 2 minutes, settings: {spark.cores.max: 4, spark.yarn.queue: q}}}\n"
        "targets:\n  dev: {}\n  big: {engine: {spark: {master: yarn, wait: 30s, settings: {\n"
        "    spark.cores.max: 64, spark.dynamicAllocation.enabled: true}}}}\n",
        default_name="x",
    )
    big, plain = config.target("big").spark, config.target("dev").spark
    assert big.settings == {
        "spark.cores.max": "64",
        "spark.yarn.queue": "q",
        "spark.dynamicAllocation.enabled": "true",
    }
    assert (big.wait, plain.wait) == (30.0, 120.0)
    assert plain.settings == {"spark.cores.max": "4", "spark.yarn.queue": "q"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("settings: {spark.plugins: x}", "a project cannot set"),
        ("settings: {spark.cores.maxx: 1}", "did you mean 'spark.cores.max'?"),
        ('settings: {spark.cores.max: "4\\nspark.plugins x"}', "must be a number or a word"),
        ("settings: {spark.cores.max: [4]}", "must be a number or a word"),
        ("settings: 4", "must be a mapping"),
        ("wait: never", "not a length of time"),
        ("wait: 0", "not a length of time"),
        ("wait: 2d", "not a length of time"),
    ],
)
def test_what_is_no_setting_or_wait_of_a_cluster_is_refused_where_it_stands(
    given: str, said: str
) -> None:
    with pytest.raises(ProjectErrors) as caught:
        parse_config(f"odfbuild: 1\nengine:\n  spark:\n    {given}\n", default_name="x")
    (found,) = caught.value.found
    assert found.span is not None
    assert found.span.line == 4
    assert said in f"{found.what} {found.fix}"


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


@given(st.integers(0, len(FULL) - 1), st.sampled_from([*"[]{}:-,\"'#&*!|>%@ \n\t0x\0é", ""]))
def test_a_change_of_one_place_gives_settings_or_findings(at: int, sign: str) -> None:
    try:
        config = parse_config(FULL[:at] + sign + FULL[at + 1 :], default_name="x")
    except ProjectErrors as errors:
        assert all(each.span is not None and each.span.line > 0 for each in errors.found)
    else:
        assert config.target().name == config.default_target


@given(st.lists(st.sampled_from(FULL.splitlines()), max_size=12, unique=True).map("\n".join))
def test_any_part_of_good_settings_gives_settings_or_findings(text: str) -> None:
    try:
        config = parse_config(text, default_name="x")
    except ProjectErrors as errors:
        assert all(each.span is not None for each in errors.found)
    else:
        assert config.target().name == config.default_target
