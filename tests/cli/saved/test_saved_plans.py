"""Plans that are saved: written, looked at, carried out exactly or not at all."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild import app
from odfbuild.cli.commands.apply import apply as act
from odfbuild.cli.commands.plan import plan as decide
from odfbuild.cli.files import write_output
from odfbuild.cli.formats.outputs import PlanFormat
from odfbuild.cli.saved import load_plan, save_plan
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.identity import sha3_256
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.changes import Verdict
from odfbuild.planner.plan.reasons import SourceToAsk
from odfbuild.planner.saved import (
    canonical,
    from_json,
    moved_datasets,
    plan_hash,
    to_json,
)
from odfbuild.project.config.project_file import Config
from odfbuild.project.load import Project
from tests.support.engines import FakeEngine
from tests.support.process.inside import heads, lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import derivative, root
from tests.support.values.plans import EVERYTHING, alias, empty_plan

NEWS = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}
BROKEN = {"datasets/src.yaml": "kind: [\n"}
Save = Callable[[Plan], str]


@pytest.fixture
def cli(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    """Return the commands of a project whose source has a new file; no JVM is started."""
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    return Within(lay_out(project, NEWS), capsys, monkeypatch)


def saved(cli: Within, **changes: object) -> Path:
    """Save a plan of the project, altered in some ways."""
    path = cli.folder / "plan.json"
    cli.done("plan", "--out", "plan.json")
    if changes:
        save_plan(replace(load_plan(path), **changes), path)  # type: ignore[arg-type]
    return path


def use(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Have every plan that is made be this one."""
    made = app.PlanResult(plan, Project(root=Path(), config=Config(name="p"), declared=()))
    monkeypatch.setattr(decide, "scoped_plan", lambda *_: made)
    monkeypatch.setattr(act, "scoped_plan", lambda *_: made)
    monkeypatch.setattr(app, "unchanged_plan", lambda *_: None)


# --- saving ----------------------------------------------------------------------------------


def test_what_is_saved_is_what_is_printed(cli: Within) -> None:
    printed = json.loads(cli.done("plan", "-o", "json", "--out", "plan.json"))
    text = (cli.folder / "plan.json").read_text("utf-8")
    assert json.loads(text) == printed
    assert text == canonical(printed) + "\n"


def test_a_plan_is_saved_in_the_place_of_another_with_nothing_left_over(cli: Within) -> None:
    (cli.folder / "plan.json").write_text("old")
    before = set(cli.folder.iterdir())
    first = saved(cli).read_bytes()
    assert saved(cli).read_bytes() == first
    assert set(cli.folder.iterdir()) == before


def test_a_plan_without_changes_is_saved_too(cli: Within) -> None:
    lay_out(cli.folder, dict.fromkeys(NEWS))
    cli.done("plan")
    assert load_plan(saved(cli)).steps == ()


def test_a_folder_that_is_not_there_is_an_error_in_words(cli: Within) -> None:
    done = cli("plan", "--out", "nowhere/plan.json")
    assert (done.code, done.out) == (1, "")
    assert "error[no-folder]: there is no folder nowhere\n" in done.err


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "out"
    link.symlink_to("/dev/null")
    write_output(link, "x")
    assert link.is_symlink()


def test_what_a_link_names_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "real"
    real.write_text("old")
    link.symlink_to(real)
    write_output(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_the_commit_is_saved_and_is_no_part_of_the_hash(cli: Within) -> None:
    without = load_plan(saved(cli))
    git(cli.folder, "init", "-q")
    git(cli.folder, "add", "datasets")
    git(cli.folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    found = load_plan(saved(cli))
    assert without.git is None
    assert found.git is not None
    assert found.git.dirty
    assert found.git.commit == git(cli.folder, "rev-parse", "HEAD")
    assert plan_hash(found) == plan_hash(without)


def test_no_value_of_the_environment_is_in_a_plan(cli: Within) -> None:
    token = "${{ env.TOKEN }}"
    headers = f"[{{name: A, value: '{token}'}}]"
    fetch = f"{{kind: Url, url: 'https://x.org/{token}', headers: {headers}}}"
    lay_out(cli.folder, {"datasets/web.yaml": root("web", fetch=fetch)})
    reports = [f"--report={each}={each}.out" for each in PlanFormat]
    done = cli("plan", "-v", "--explain", "--out", "plan.json", *reports, TOKEN="s3cr3t")
    assert done.code == 0, done.err
    files = [cli.folder / "plan.json", *(cli.folder / f"{each}.out" for each in PlanFormat)]
    texts = [done.out, *(file.read_text("utf-8") for file in files)]
    assert all("s3cr3t" not in text for text in texts)
    assert token in texts[1]


# --- carrying out ----------------------------------------------------------------------------


def test_a_saved_plan_is_carried_out_without_a_question_or_the_definitions(cli: Within) -> None:
    path, before = saved(cli), heads(cli.folder)
    lay_out(cli.folder, BROKEN)
    done = cli("apply", "plan.json")
    assert done.code == 0, done.err
    assert done.out.startswith("Target  dev (workspace .odfbuild)")
    assert done.out.endswith("Done: 2 blocks committed to 2 datasets, 2 rows.\n")
    assert set(before.values()).isdisjoint(heads(cli.folder).values())
    assert path.exists()


def test_a_new_dataset_gets_the_events_that_were_saved(cli: Within) -> None:
    lay_out(cli.folder, {"datasets/more.yaml": derivative("more")})
    saved(cli)
    lay_out(
        cli.folder, {"datasets/more.yaml": derivative("more", query="select t, k, 0 as v from src")}
    )
    assert cli("apply", "plan.json").code == 0
    assert "select t, k, v from src" in cli.done("inspect", "query", "more")


def test_a_dataset_gets_its_new_name_and_keeps_its_chain(cli: Within) -> None:
    lay_out(
        cli.folder,
        {
            "odfbuild.yaml": "odfbuild: 1\nmoved: [{from: out, to: outer}]\n",
            "datasets/out.yaml": derivative("outer"),
        },
    )
    saved(cli)
    before = heads(cli.folder)
    assert cli("apply", "plan.json").code == 0
    assert heads(cli.folder).keys() == before.keys()
    assert "select t, k, v from src" in cli.done("inspect", "query", "outer")
    assert cli.done("plan") == "No changes. 2 datasets match the project.\n"


@pytest.mark.parametrize("meddle", ["apply", "plan twice"])
def test_a_plan_whose_heads_moved_is_refused_with_nothing_done(cli: Within, meddle: str) -> None:
    saved(cli)
    assert cli("apply", *(["--yes"] if meddle == "apply" else ["plan.json"])).code == 0
    before = heads(cli.folder)
    done = cli("apply", "plan.json")
    assert (done.code, done.out) == (5, "")
    assert "error[stale-plan]: src changed since the plan was made" in done.err
    assert heads(cli.folder) == before


def test_a_plan_with_nothing_to_do_is_refused_when_stale_too(cli: Within) -> None:
    lay_out(cli.folder, dict.fromkeys(NEWS))
    saved(cli)
    assert cli("apply", "plan.json").code == 0
    lay_out(cli.folder, NEWS)
    assert cli("apply", "--yes").code == 0
    assert cli("apply", "plan.json").code == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"against": "git:main"}, "the plan was made against git:main"),
        ({"workspace": "./elsewhere"}, "the plan is for the workspace './elsewhere'"),
        ({"project": "other"}, "the plan is for the project 'other'"),
        ({"target": "prod"}, "no target named 'prod'"),
    ],
)
def test_a_plan_for_something_else_is_refused(
    cli: Within, changes: dict[str, object], said: str
) -> None:
    saved(cli, **changes)
    before = heads(cli.folder)
    done = cli("apply", "plan.json")
    assert done.code == 1
    assert said in done.err
    assert heads(cli.folder) == before


def test_a_plan_for_another_target_than_the_one_given_is_refused(cli: Within) -> None:
    targets = "targets:\n  dev: {}\n  prod: {workspace: ./prod}\n"
    lay_out(cli.folder, {"odfbuild.yaml": f"odfbuild: 1\n{targets}"})
    saved(cli)
    done = cli("-t", "prod", "apply", "plan.json")
    assert done.code == 1
    assert "the plan is for the target 'dev', but this is 'prod'" in done.err


def test_the_target_is_that_of_the_plan(cli: Within) -> None:
    targets = "targets:\n  dev: {}\n  prod: {workspace: ./prod}\n"
    lay_out(cli.folder, {"odfbuild.yaml": f"odfbuild: 1\n{targets}"})
    cli.done("-t", "prod", "plan", "--out", "plan.json")
    before = heads(cli.folder)
    assert cli("apply", "plan.json").code == 0
    assert heads(cli.folder) == before
    assert (cli.folder / "prod" / "datasets").is_dir()


def test_what_the_gate_refused_is_not_carried_out(cli: Within) -> None:
    saved(cli, verdict=Verdict("default", 1, 0, 0))
    before = heads(cli.folder)
    done = cli("apply", "plan.json")
    assert done.code == 3
    assert heads(cli.folder) == before


def test_what_the_gate_refuses_is_not_asked_for(
    cli: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = heads(cli.folder)
    use(monkeypatch, replace(load_plan(saved(cli)), verdict=Verdict("default", 1, 0, 0)))
    assert cli("apply", "--yes").code == 3
    assert heads(cli.folder) == before


@pytest.mark.parametrize("name", ["gone.json", "gone.plan"])
def test_a_plan_file_that_is_not_there_is_a_wrong_argument(cli: Within, name: str) -> None:
    done = cli("apply", name)
    assert done.code == 64
    assert f"there is no file '{name}'" in done.err


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["apply"], ["inspect", "plan"], ["ci", "comment"]], ids=" ".join
)
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not-a-plan"),
        ("plan: yes", "not-a-plan"),
        ("[" * 100_000, "not-a-plan"),
        ('{"steps": []}', "not-a-plan"),
        ('{"format_version": "1.0", "datas', "damaged-plan"),
        ('{"format_version": "1.0"}', "damaged-plan"),
        ('{"format_version": "2.0"}', "plan-version"),
        (canonical({**to_json(EVERYTHING), "summary": {}}), "damaged-plan"),
    ],
    ids=["empty", "yaml", "deep", "json", "cut", "bare", "newer", "altered"],
)
def test_what_is_no_plan_is_refused_in_words(
    cli: Within, command: list[str], text: str, code: str
) -> None:
    (cli.folder / "plan.json").write_text(text, "utf-8")
    done = cli(*command, "plan.json")
    assert (done.code, done.out) == (1, "")
    assert f"error[{code}]: " in done.err
    assert "odfbuild plan --out" in done.err or code == "plan-version"


@pytest.mark.parametrize("output", list(PlanFormat))
def test_a_saved_plan_is_printed_as_it_was(cli: Within, output: PlanFormat) -> None:
    printed = cli.done("plan", "-o", output, "--out", "plan.json")
    assert cli.done("inspect", "plan", "plan.json", "-o", output) == printed


def test_a_stale_plan_is_printed_with_a_warning(cli: Within) -> None:
    saved(cli)
    printed = cli.done("inspect", "plan", "plan.json")
    assert cli("apply", "--yes").code == 0
    done = cli("inspect", "plan", "plan.json")
    assert (done.code, done.out) == (0, printed)
    assert "warning[stale-plan]: the plan is stale: src, out changed since it was made" in done.err


def test_a_plan_can_be_looked_at_anywhere(
    cli: Within, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(cli)
    assert cli("apply", "--yes").code == 0
    elsewhere = Within(tmp_path, capsys, monkeypatch)
    assert elsewhere.done("inspect", "plan", str(path)).startswith("Target  dev")


def test_a_moved_dataset_is_looked_for_under_its_old_name() -> None:
    found = {
        planned.moved_from or name: planned.based_on.head
        for name, planned in EVERYTHING.datasets.items()
        if planned.based_on is not None
    }
    assert moved_datasets(EVERYTHING, found) == ()
    assert moved_datasets(EVERYTHING, {**found, alias("old"): sha3_256(b"other")}) == (
        alias("new"),
    )
    assert moved_datasets(EVERYTHING, {**found, alias("eur"): sha3_256(b"x")}) == (alias("eur"),)


# --- codes and reports -----------------------------------------------------------------------


def test_changes_are_told_by_the_exit_code_when_asked_for(cli: Within) -> None:
    assert cli("plan").code == 0
    assert cli("plan", "--detailed-exitcode").code == 2
    lay_out(cli.folder, dict.fromkeys(NEWS))
    for _ in range(2):
        assert cli("plan", "--detailed-exitcode").code == 0


def test_sources_to_ask_are_no_changes(cli: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_plan(saved(cli))
    ask = replace(made.steps[0], reasons=(SourceToAsk("https://example.org"),))
    use(monkeypatch, replace(made, steps=(ask,)))
    done = cli("plan", "--detailed-exitcode")
    assert done.code == 0
    assert "1 step only to check sources" in done.out


def test_a_refusal_of_the_gate_goes_before_changes(
    cli: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, EVERYTHING)
    assert cli("plan", "--detailed-exitcode", "--out", "plan.json").code == 3
    assert load_plan(cli.folder / "plan.json").steps == EVERYTHING.steps


def test_each_report_is_written_beside_what_is_printed(cli: Within) -> None:
    wanted = {each: cli.done("plan", "-o", each) for each in PlanFormat}
    reports = [f"--report={each}={each}.out" for each in PlanFormat]
    assert cli.done("plan", "-o", "ndjson", *reports) == wanted[PlanFormat.NDJSON]
    for each, text in wanted.items():
        assert (cli.folder / f"{each}.out").read_text("utf-8") == text


def test_a_project_with_problems_is_reported_too(cli: Within) -> None:
    lay_out(cli.folder, BROKEN)
    (cli.folder / "datasets/out.yaml").unlink()
    done = cli("plan", "-o", "github", "--report=json=p.json", "--report=sarif=p.sarif")
    assert done.code == 1
    assert done.out.startswith("::error file=datasets/src.yaml,line=1,")
    assert done.err.startswith("datasets/src.yaml:1:")
    (found,) = json.loads((cli.folder / "p.json").read_text())["diagnostics"]
    assert found["source"]["file"] == "datasets/src.yaml"
    assert len(json.loads((cli.folder / "p.sarif").read_text())["runs"][0]["results"]) == 1


@pytest.mark.parametrize("given", ["sarif", "sarif=", "=x", "html=x", "SARIF=x"])
def test_a_report_that_is_no_format_and_file_is_refused(cli: Within, given: str) -> None:
    done = cli("plan", "--report", given)
    assert (done.code, done.out) == (64, "")
    assert "the formats are text, json, ndjson, markdown, junit, sarif, github" in done.err


def test_annotations_name_files_from_the_top_of_the_repository(cli: Within) -> None:
    git(cli.folder.parent, "init", "-q")
    lay_out(cli.folder, BROKEN)
    assert cli("plan", "-o", "github").out.startswith("::error file=project/datasets/src.yaml,")


def test_markdown_keeps_to_its_bytes(cli: Within) -> None:
    save_plan(EVERYTHING, cli.folder / "plan.json")
    command = ("inspect", "plan", "plan.json", "-o", "markdown")
    assert len(cli.done(*command).encode()) > 2_000
    assert len(cli.done(*command, "--max-bytes", "2000").encode()) <= 2_000


# --- ci --------------------------------------------------------------------------------------


def test_a_comment_starts_with_its_marker_and_keeps_to_its_bytes(cli: Within) -> None:
    save_plan(EVERYTHING, cli.folder / "plan.json")
    comment = cli.done("ci", "comment", "plan.json")
    assert comment.startswith("<!-- odfbuild-plan -->\n### odfbuild plan: markets\n")
    own = cli.done("ci", "comment", "plan.json", "--marker", "mine", "--max-bytes", "2000")
    assert own.startswith("<!-- mine -->\n")
    assert len(own.encode()) <= 2000
    summary = cli.done("ci", "summary", "plan.json")
    assert f"<!-- odfbuild-plan -->\n{summary}" == comment


def test_too_few_bytes_are_a_wrong_argument(cli: Within) -> None:
    save_plan(empty_plan(), cli.folder / "plan.json")
    assert cli("ci", "comment", "plan.json", "--max-bytes", "999").code == 64


def test_a_plan_that_was_saved_comes_back(tmp_path: Path) -> None:
    save_plan(EVERYTHING, tmp_path / "p.plan")
    assert load_plan(tmp_path / "p.plan") == EVERYTHING
    assert from_json(json.loads((tmp_path / "p.plan").read_text("ascii"))) == EVERYTHING


def git(folder: Path, *arguments: str) -> str:
    """Run git; return what it printed."""
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607 - the git of the user
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
