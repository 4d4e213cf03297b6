"""odfbuild plan: what it prints, and that it changes nothing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from odfbuild.executors.engine.protocol import engine_version
from tests.support.process.inside import lay_out
from tests.support.process.terminals import terminal
from tests.support.projects import REPOSITORY, environment, odfbuild
from tests.support.projects.texts import derivative, root

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "plan"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Return a project that was never applied."""
    odfbuild("init", "shop", cwd=tmp_path)
    return tmp_path / "shop"


def test_a_new_project_is_planned_in_these_words(new: Path, golden: Golden) -> None:
    golden(GOLDEN / "new.txt", odfbuild("plan", cwd=new).out)


def test_the_blocks_are_shown_when_asked_for(new: Path, golden: Golden) -> None:
    shown = odfbuild("plan", "-v", cwd=new).out
    golden(GOLDEN / "blocks.txt", shown.replace(engine_version("spark") or "", "VERSION"))


def test_changes_are_told_with_their_places(project: Path, golden: Golden) -> None:
    lay_out(
        project,
        {
            "datasets/src.yaml": root(header="false"),
            "datasets/out.yaml": None,
            "datasets/more.yaml": derivative("more"),
            "data/2.csv": "2024-01-03,c,3\n",
        },
    )
    golden(GOLDEN / "changed.txt", odfbuild("plan", cwd=project).out)


def test_new_files_are_named_and_the_rest_is_counted(project: Path, golden: Golden) -> None:
    lay_out(project, {f"data/{number}.csv": "t,k,v\n" for number in range(2, 9)})
    golden(GOLDEN / "data.txt", odfbuild("plan", cwd=project).out)


def test_nothing_to_do_is_said_in_one_line(project: Path) -> None:
    for _ in range(2):  # the second time from the record of the first
        done = odfbuild("plan", cwd=project)
        assert done.code == 0
        assert done.out == "No changes. 2 datasets match the project.\n"
        assert done.err == ""


def test_the_json_is_as_published(new: Path) -> None:
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    made = json.loads(odfbuild("plan", "-o", "json", cwd=new).out)
    jsonschema.validate(made, published)
    assert [each["name"] for each in made["datasets"]] == ["shop.orders", "shop.items"]
    assert made["summary"]["create"] == 2


def test_equal_projects_give_equal_plans(new: Path) -> None:
    first = odfbuild("plan", "-o", "json", cwd=new).out
    assert odfbuild("plan", "-o", "json", cwd=new).out == first


def test_an_empty_plan_is_json_too(project: Path) -> None:
    odfbuild("plan", cwd=project)
    made = json.loads(odfbuild("plan", "-o", "json", cwd=project).out)
    assert made["steps"] == []
    assert {each["action"] for each in made["datasets"]} == {"none"}


def test_a_plan_leaves_no_trace_in_a_new_project(new: Path) -> None:
    before = sorted(new.rglob("*"))
    assert odfbuild("plan", cwd=new).code == 0
    assert sorted(new.rglob("*")) == before


def test_a_project_is_found_from_below(project: Path) -> None:
    assert odfbuild("plan", cwd=project / "data").out.startswith("No changes")


@pytest.mark.parametrize(
    "arguments", [["plan", "-C", "project"], ["-C", "project", "plan"]], ids=" ".join
)
def test_a_project_is_found_by_its_folder(project: Path, arguments: list[str]) -> None:
    assert odfbuild(*arguments, cwd=project.parent).out.startswith("No changes")


def test_a_project_is_found_by_a_variable(project: Path, tmp_path: Path) -> None:
    done = odfbuild("plan", cwd=tmp_path, ODFBUILD_PROJECT_DIR="project")
    assert done.out.startswith("No changes")


def test_without_a_project_there_is_a_way_out(tmp_path: Path) -> None:
    done = odfbuild("plan", cwd=tmp_path)
    assert done.code == 1
    assert "error[no-project]" in done.err
    assert "odfbuild init" in done.err
    named = odfbuild("plan", "-C", "nowhere", cwd=tmp_path)
    assert named.code == 1
    assert "no odfbuild.yaml in 'nowhere'" in named.err


def test_a_project_without_datasets_is_fine(tmp_path: Path) -> None:
    done = odfbuild("plan", cwd=lay_out(tmp_path, {}))
    assert done.code == 0
    assert done.out == "No changes. 0 datasets match the project.\n"


def test_names_of_files_cannot_steer_the_terminal(project: Path) -> None:
    names = ["2\x1b[31m.csv", "3\nPlan: nothing.csv", "4\u202egnp.csv", "5\udcff.csv"]
    lay_out(project, {f"data/{name}": "t,k,v\n" for name in names[:3]})
    done = odfbuild("plan", cwd=project)
    assert done.code == 0
    assert r"2\x1b[31m.csv, 3\nPlan: nothing.csv, 4\u202egnp.csv" in done.out
    lay_out(project, {f"data/{name}": None for name in names[:3]})
    lay_out(project, {f"data/{names[3]}": "t,k,v\n"})
    assert r"5\udcff.csv" in odfbuild("plan", cwd=project).out


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_encoding_can_be_printed_to(project: Path, encoding: str) -> None:
    lay_out(project, {"data/2-żółw.csv": "t,k,v\n"})
    done = odfbuild("plan", cwd=project, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.code == 0, done.err
    assert "1 new file" in done.out


@pytest.mark.parametrize("wanted", [True, False], ids=["usual", "NO_COLOR"])
def test_a_terminal_is_given_colours_unless_none_are_wanted(project: Path, wanted: bool) -> None:
    lay_out(project, {"data/2.csv": "t,k,v\n"})
    program = str(Path(sys.executable).parent / "odfbuild")
    asked = [] if wanted else ["env", "NO_COLOR=1"]
    with terminal([*asked, program, "plan"], project, environment()) as shown:
        assert shown.end() == 0
    assert ("\x1b[34m↻\x1b[0m src" in shown.said) is wanted
    assert ("\x1b" in shown.said) is wanted


def test_a_warning_is_given_every_time(tmp_path: Path) -> None:
    manifest = "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: a\n  kind: Derivative\n"
    lay_out(
        tmp_path,
        {
            "odfbuild.yaml": "odfbuild: 1\nname: p\ndatasets: [datasets]\n",
            "datasets/a.yaml": f"{manifest}  metadata: []\n",
        },
    )
    for _ in range(2):
        out = odfbuild("plan", cwd=tmp_path).out
        assert "warning[" in out
        assert "the derivative dataset 'a' has no transform" in out


@pytest.mark.parametrize(
    "part", [["--metadata-only"], ["--refresh", "off"], ["--gate", "off"]], ids=" ".join
)
def test_a_plan_of_a_part_is_not_taken_for_that_of_the_whole(
    project: Path, part: list[str]
) -> None:
    lay_out(project, {"data/2.csv": "t,k,v\n2024-02-01,new,1\n"})
    odfbuild("plan", *part, cwd=project)
    assert "1 new file: 2.csv" in odfbuild("plan", cwd=project).out
