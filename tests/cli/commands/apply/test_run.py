"""odfbuild run: data only, by what is in force, once, until idle, or again and again."""

import json
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from odfbuild.cli.commands.apply.apply import carry_out
from odfbuild.cli.commands.apply.run import run_data
from odfbuild.executors.runs.definition import StalePlanError
from odfbuild.odf.events import SetTransform
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, heads, lay_out
from tests.support.projects.market import dataset
from tests.support.projects.texts import derivative, root

DAY = "t,k,v\n2024-02-0{0},d{0},{0}\n"
FAR = {
    "datasets/far.yaml": root("far", fetch="{kind: FilesGlob, path: far/*.csv}"),
    "far/1.csv": DAY.format(1),
}


def days(*numbers: int) -> dict[str, str]:
    return {f"data/9{number}.csv": DAY.format(number) for number in numbers}


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def rows(run: Inside, name: str) -> int:
    return len(json.loads(run("show", name, "-n", "99", "-o", "json").out))


def test_what_came_is_taken_in_and_carried_on(run: Inside, project: Path) -> None:
    before = rows(run, "src")
    lay_out(project, days(1, 2))
    done = run("run")
    assert done.code == 0, done.err
    assert rows(run, "src") == rows(run, "out") == before + 2
    record = max((project / ".odfbuild" / "runs").iterdir())
    assert json.loads((record / "summary.json").read_text())["command"] == "run"
    again = run("run")
    assert again.out == "Nothing to run: sources and inputs have nothing new.\n"
    assert run("plan").out.startswith("No changes.")


def test_definitions_that_wait_are_told_and_not_applied(run: Inside, project: Path) -> None:
    before = heads(project)
    query = "select t, k, v from src where v > 1"
    changed = derivative("out", "src", query)
    lay_out(project, {**FAR, "datasets/out.yaml": changed, **days(1)})
    count = rows(run, "src")
    done = run("run")
    assert done.code == 0
    assert "note[definition-waits]: out: the definition changed" in done.err
    assert "note[definition-waits]: far: declared, but not created yet" in done.err
    assert rows(run, "out") == rows(run, "src") == count + 1
    assert heads(project).keys() == before.keys()
    kinds = [type(block.event) for _, block in dataset(project, "out").blocks()]
    assert kinds.count(SetTransform) == 1
    plan = json.loads(run("plan", "-o", "json").out)
    assert (plan["summary"]["create"], plan["summary"]["change"]) == (1, 1)


def test_a_source_that_is_to_be_another_is_still_read_where_it_was(
    run: Inside, project: Path
) -> None:
    other = root("src", fetch="{kind: FilesGlob, path: elsewhere/*.csv}")
    lay_out(project, {"datasets/src.yaml": other, **days(1)})
    count = rows(run, "src")
    assert run("run").code == 0
    assert rows(run, "src") == count + 1


def test_a_dataset_that_is_to_be_renamed_goes_on_under_its_name(run: Inside, project: Path) -> None:
    text = (project / "datasets/out.yaml").read_text().replace("name: out", "name: fine")
    lay_out(
        project,
        {
            "datasets/out.yaml": text,
            "odfbuild.yaml": "odfbuild: 1\nmoved: [{from: out, to: fine}]\n",
            **days(1),
        },
    )
    count = rows(run, "out")
    done = run("run")
    assert done.code == 0, done.err
    assert "out: the definition changed" in done.err
    assert rows(run, "out") == count + 1
    assert "fine" not in run("status").out


def test_only_what_is_selected_runs(run: Inside, project: Path) -> None:
    lay_out(project, days(1))
    count = rows(run, "src")
    assert run("run", "src").code == 0
    assert (rows(run, "src"), rows(run, "out")) == (count + 1, count)
    assert run("run").code == 0
    assert rows(run, "out") == count + 1


def test_so_many_slices_are_taken_in_at_most(run: Inside, project: Path) -> None:
    lay_out(project, days(1, 2, 3))
    count = rows(run, "src")
    for more in (2, 3):
        assert run("run", "--max-slices", "2").code == 0
        assert rows(run, "src") == rows(run, "out") == count + more


def test_until_idle_ends_once_there_is_nothing_new(run: Inside, project: Path) -> None:
    lay_out(project, days(1, 2))
    done = run("run", "--until-idle")
    assert done.code == 0
    assert done.out.endswith("Nothing to run: sources and inputs have nothing new.\n")


def test_what_fails_is_told_and_ends_it(run: Inside, project: Path) -> None:
    lay_out(project, {"data/91.csv": "t,k,v\n2024-02-01,a,no number\n"})
    for more in ((), ("--until-idle",)):
        done = run("run", *more)
        assert done.code == 1
        assert "error[invalid-source]: src" in done.err


def test_what_was_done_is_told_as_json(run: Inside, project: Path) -> None:
    lay_out(project, days(1))
    told = json.loads(run("run", "-o", "json").out)
    assert [each["work"] for each in told["steps"]] == ["ingest", "transform"]
    assert json.loads(run("run", "-o", "json").out)["steps"] == []


@pytest.mark.parametrize(
    "arguments",
    [("--until-idle", "--max-slices", "1"), ("--watch", "-o", "json"), ("--interval", "0")],
    ids=" ".join,
)
def test_what_does_not_go_together_is_refused(run: Inside, arguments: tuple[str, ...]) -> None:
    assert run("run", *arguments).code == 64


def test_watching_takes_in_what_comes_until_it_is_interrupted(run: Inside, project: Path) -> None:
    lay_out(project, days(1))
    arguments, environment = command("run", "--watch", "--interval", "0.2")
    with subprocess.Popen(
        arguments, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        seen = 0
        for line in process.stdout:
            seen += line.startswith("Done: ")
            if seen == 1 and line.startswith("Done: "):
                (project / "whole.csv").write_text(DAY.format(2))
                (project / "whole.csv").rename(project / "data" / "92.csv")
            if seen == 2:
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        assert process.returncode == 130
        assert "Traceback" not in said
    assert run("run").out.startswith("Nothing to run")


def test_watching_outlives_what_others_do_and_what_is_wrong_for_a_while(
    run: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(project, days(1))
    definition = (project / "datasets" / "out.yaml").read_text()
    offsets: list[int] = []

    def overtaken(*_: object) -> int:
        raise StalePlanError(what="src changed since the plan was made", why="moved", fix="again")

    def pause(_: float) -> None:
        state = dataset(project, "out").state()
        assert state is not None
        offsets.append(state.next_offset)
        match len(offsets):
            case 1:
                lay_out(project, days(2))
                monkeypatch.setattr("odfbuild.cli.commands.apply.run.carry_out", overtaken)
            case 2:
                monkeypatch.setattr("odfbuild.cli.commands.apply.run.carry_out", carry_out)
                lay_out(project, {"datasets/out.yaml": "kind: ["})
            case 4:
                lay_out(project, {"datasets/out.yaml": definition})
            case 5:
                raise KeyboardInterrupt

    monkeypatch.setattr("odfbuild.cli.commands.apply.run.run_data", partial(run_data, pause=pause))
    done = run("run", "--watch")
    assert done.code == 130
    assert offsets == [3, 3, 3, 3, 4]
    assert done.err.count("error[stale-plan]") == 1
    assert done.err.count("error[yaml-syntax]") == 1


def test_watching_ends_where_nothing_can_be_run_from_the_start(run: Inside, project: Path) -> None:
    lay_out(project, {f"datasets/{each.name}": "kind: [" for each in project.glob("datasets/*")})
    assert run("run", "--watch").code == 1


def test_a_protected_target_has_to_be_named_and_needs_no_plan(run: Inside, project: Path) -> None:
    settings = "odfbuild: 1\ntargets: {dev: {protect: true, require_plan_file: true}}\n"
    lay_out(project, {"odfbuild.yaml": settings, **days(1)})
    done = run("run")
    assert (done.code, "odfbuild run --target dev" in done.err) == (64, True)
    assert run("run", "--target", "dev").code == 0
