"""odfbuild reset and compact: what they tell, ask, refuse and do, and what runs after them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from odfbuild.app.maintenance import rewrite as housekeeping
from odfbuild.odf.events import SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.saved import document_hash
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects import Done
from tests.support.projects.market import append
from tests.support.projects.texts import derivative

DAYS = ("3", "4", "5")


@pytest.fixture(scope="module")
def _grown(_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the root three more slices, and the derivative what it makes of them."""
    folder = shutil.copytree(_built, tmp_path_factory.mktemp("grown") / "project")
    for day in DAYS:
        (folder / "data" / f"{day}.csv").write_text(f"t,k,v\n2024-01-0{day},k{day},1\n")
        assert without_jvm("apply", "--yes", cwd=folder).code == 0
    return folder


@pytest.fixture
def project(_grown: Path, tmp_path: Path) -> Path:
    return shutil.copytree(_grown, tmp_path / "project")


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def rows(run: Inside, name: str) -> list[dict[str, object]]:
    shown = json.loads(run("show", name, "-n", "99", "-o", "json").out)
    return [{key: row[key] for key in row if key != "system_time"} for row in shown]


def told(run: Inside, *arguments: str) -> dict[str, object]:
    done = run(*arguments, "--dry-run", "-o", "json")
    assert (done.code, done.err) == (0, "")
    found: dict[str, object] = json.loads(done.out)
    return found


def refused(done: Done, code: int, says: str) -> None:
    assert done.code == code
    assert says in done.err


# compact


def test_slices_are_merged_and_rows_stay(run: Inside, project: Path) -> None:
    before, old = rows(run, "src"), heads(project)
    done = run("compact", "src", "--yes")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"slices +4 +1\n", done.out)
    assert "! out  read up to offset 4" in done.out
    assert "in the same plan: odfbuild compact src --downstream." in done.out
    assert rows(run, "src") == before
    assert sum(heads(project)[id] != head for id, head in old.items()) == 1
    assert run("verify", "src").code == 0
    assert "its input src was reset or rewritten since" in run("verify", "out").out
    assert (
        run("compact", "src", "--yes").out == "src  Nothing to do: there is nothing to compact.\n"
    )


def test_what_would_happen_is_told_and_not_done(run: Inside, project: Path) -> None:
    before = heads(project)
    found = told(run, "compact", "src")
    assert found["before"] == {**found["before"], "slices": 4, "records": 5}  # type: ignore[dict-item]
    assert found["after"] == {**found["after"], "slices": 1, "bytes": None}  # type: ignore[dict-item]
    assert [each["dataset"] for each in found["stranded"]] == ["out"]  # type: ignore[attr-defined]
    assert told(run, "compact", "src") == found
    assert heads(project) == before


def test_ingest_goes_on_after_a_compaction(run: Inside, project: Path) -> None:
    before = rows(run, "src")
    run("compact", "src", "--yes", "--max-slice-records", "3")
    assert "nothing new" in run("plan").out or "src" not in run("plan").out.split("out")[0]
    (project / "data" / "9.csv").write_text("t,k,v\n2024-01-09,z,9\n")
    run("apply", "src", "--yes")
    assert len(rows(run, "src")) == len(before) + 1
    assert rows(run, "src")[-1]["offset"] == len(before)
    assert run("verify", "src").code == 0


def test_a_derivative_is_emptied_and_made_anew(run: Inside) -> None:
    before = rows(run, "out")
    refused(run("compact", "out", "--yes"), 1, "slices of a derivative dataset cannot be merged")
    run("compact", "src", "--yes")
    done = run("compact", "out", "--keep-metadata-only", "--yes")
    assert done.code == 0
    assert "4 ExecuteTransform" in done.out
    assert rows(run, "out") == []
    assert run("apply", "--yes").code == 0
    assert rows(run, "out") == before
    assert run("verify").code == 0


def test_a_root_without_its_data_reads_all_anew(run: Inside) -> None:
    before = rows(run, "src")
    assert run("compact", "src", "--keep-metadata-only", "--yes").code == 0
    assert "watermark  no watermark" not in run("status").out
    run("apply", "src", "--yes")
    assert rows(run, "src") == before


# reset


def test_what_is_cut_off_is_taken_in_again(run: Inside, project: Path) -> None:
    before = rows(run, "src")
    last = told(run, "reset", "src", "0")["before"]["blocks"] - 1  # type: ignore[index]
    done = run("reset", "src", "--sequence", str(last - 2), "--yes")
    assert (done.code, done.err) == (0, "")
    assert "Dropped: 2 AddData" in done.out
    assert "! out  read up to offset 4" in done.out
    assert len(rows(run, "src")) == 3
    assert run("verify", "src").code == 0
    run("apply", "src", "--yes")
    assert rows(run, "src") == before


def test_a_reset_to_the_seed_appends_the_definition_again(run: Inside) -> None:
    before = rows(run, "src")
    assert "1 SetPollingSource" in run("reset", "src", "0", "--yes").out
    assert run("apply", "src", "--yes", "--allow", "ODF102").code == 0
    assert rows(run, "src") == before


def test_a_reset_of_a_derivative_runs_the_steps_again(run: Inside) -> None:
    before = rows(run, "out")
    last = told(run, "reset", "out", "0")["before"]["blocks"] - 1  # type: ignore[index]
    run("reset", "out", str(last - 1), "--yes")
    assert len(rows(run, "out")) == 4
    assert run("apply", "--yes").code == 0
    assert rows(run, "out") == before


def test_a_derivative_that_read_no_further_goes_on(run: Inside, project: Path) -> None:
    run("watermark", "src", "2024-03-01")
    done = run("reset", "src", "--sequence", str(_blocks(project) - 2), "--yes")
    assert "cannot continue" not in done.out
    assert run("plan").code == 0
    assert "No changes" in run("plan").out


def test_a_compaction_is_taken_back_by_the_hash_of_before(run: Inside, project: Path) -> None:
    (old,) = {head for id, head in heads(project).items() if id == _id(project)}
    run("compact", "src", "--yes")
    assert run("reset", "src", old, "--yes").code == 0
    assert heads(project)[_id(project)] == old
    assert "No changes" in run("plan").out


def test_the_head_is_no_block_to_go_back_to(run: Inside) -> None:
    assert run("reset", "src", "head").out == "src  Nothing to do: it ends there.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("reset", "src"), 64, "name the block"),
        (("reset", "src", "0", "--sequence", "0"), 64, "name the block"),
        (("reset", "src", "99", "--yes"), 1, "not a block of the dataset"),
        (("reset", "scr", "0", "--yes"), 1, "did you mean 'src'?"),
        (("reset", "src", "0"), 64, "nobody can answer here"),
        (("compact", "src"), 64, "repeat the command with --yes"),
        (("compact", "src", "--hard", "--keep-metadata-only"), 64, "--hard keeps the data"),
        (("compact", "src", "--max-slice-records", "0"), 64, "max-slice-records"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_done(
    arguments: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    refused(run(*arguments), code, says)
    assert heads(project) == before


# derivatives whose input was rewritten


def test_a_plan_says_who_cannot_go_on_and_what_to_do(run: Inside) -> None:
    run("compact", "src", "--yes")
    done = run("plan")
    assert done.code == 1
    assert "error[diverged-input]: out: it cannot continue, as src was rewritten" in done.out
    assert "rebuild it: odfbuild rebuild out" in done.out
    assert json.loads(run("plan", "-o", "json").out)["steps"] == []
    said = run("explain", "out").out
    assert "It cannot run" in said
    assert "src was rewritten" in said


def test_who_cannot_go_on_fails_and_the_others_go_on(run: Inside, project: Path) -> None:
    before = heads(project)
    run("reset", "src", "--sequence", str(_blocks(project) - 2), "--yes")
    assert "it no longer has the block that was read last" in run("explain", "out").out
    (project / "data" / "6.csv").write_text("t,k,v\n2024-01-06,k6,1\n")
    done = run("apply", "--yes")
    refused(done, 4, "out: it cannot continue, as src was rewritten")
    assert len(rows(run, "src")) == 6
    others = {id: head for id, head in heads(project).items() if id != _id(project)}
    assert others.items() <= before.items()


# races, targets, saved plans


def test_a_head_that_moves_meanwhile_wins(
    run: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, days = housekeeping.prepare, iter(("2025-01-01", "2025-01-02"))

    def overtaken(*arguments: object) -> object:
        prepared = prepare(*arguments)  # type: ignore[arg-type]
        assert "was" in run("watermark", "src", next(days)).out
        return prepared

    monkeypatch.setattr("odfbuild.cli.commands.apply.maintenance.prepare", overtaken)
    for command in (("compact", "src"), ("reset", "src", "0")):
        slices = len(list(project.glob(f".odfbuild/datasets/{_id(project)}/blocks/f*")))
        refused(run(*command, "--yes"), 5, "another process changed the dataset meanwhile")
        assert len(rows(run, "src")) == 5
        assert slices <= len(list(project.glob(f".odfbuild/datasets/{_id(project)}/blocks/f*")))


def test_a_protected_target_is_named(run: Inside, project: Path) -> None:
    _settings(project, "protect: true")
    before = heads(project)
    refused(run("compact", "src", "--yes"), 64, "the target 'dev' is protected")
    refused(run("reset", "src", "0", "--yes"), 64, "the target 'dev' is protected")
    assert heads(project) == before
    assert run("compact", "src", "--yes", "--target", "dev").code == 0


def test_a_target_of_saved_plans_takes_saved_ones_only(run: Inside, project: Path) -> None:
    _settings(project, "require_plan_file: true")
    refused(run("compact", "src", "--yes"), 64, "accepts only saved plans")
    saved = project / "plan.json"
    before = heads(project)
    assert run("compact", "src", "--out", str(saved)).code == 0
    assert heads(project) == before
    done = run("apply", str(saved))
    assert (done.code, done.err) == (0, "")
    assert heads(project) != before
    refused(run("apply", str(saved)), 5, "no longer fits: there is nothing left to do for src")


def test_a_saved_reset_is_done_once(run: Inside, project: Path) -> None:
    saved = project / "plan.json"
    run("reset", "src", "3", "--out", str(saved))
    assert run("apply", str(saved)).code == 0
    refused(run("apply", str(saved)), 5, "no longer fits: there is nothing left to do for src")


@pytest.mark.parametrize("command", ["compact src", "reset src 3", "compact src --downstream"])
def test_a_saved_plan_that_does_not_fit_any_more_says_what_changed(
    command: str, run: Inside, project: Path
) -> None:
    saved = project / "plan.json"
    assert run(*command.split(), "--out", str(saved)).code == 0
    lay_out(project, {"datasets/more.yaml": derivative("more")})
    assert run("apply", "more", "--yes").code == 0
    refused(run("apply", str(saved)), 5, "no longer fits: more has come to read what goes of src")
    append(project, "src", SetInfo(description="by another"))
    refused(run("apply", str(saved)), 5, "no longer fits: src changed since the plan was made")


def test_a_file_for_a_plan_keeps_no_earlier_one_where_there_is_nothing_to_do(
    run: Inside, project: Path
) -> None:
    saved, before = project / "plan.json", heads(project)
    last = json.loads(run("status", "src", "-o", "json").out)[0]["blocks"] - 1
    for command in (f"reset src {last}", f"reset src {last} --downstream"):
        assert run("reset", "src", "3", "--out", str(saved)).code == 0
        done = run(*command.split(), "--out", str(saved))
        assert (done.code, saved.exists()) == (0, False)
        assert "is not written, as there is nothing to apply; it held another plan" in done.err
        saved.write_text("notes")
        assert "there is nothing to apply.\n" in run(*command.split(), "--out", str(saved)).err
        assert saved.read_text() == "notes"
    assert heads(project) == before


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"project": "other"}, 1, "the plan is for the project 'other'"),
        ({"kept_blocks": 1}, 5, "it would be done in another way"),
        ({"mode": "keep-metadata-only"}, 5, "it would be done in another way"),
        ({"mode": 7}, 1, "mode: expected a text"),
        ({"mode": "soft"}, 1, "mode: there is no compact of the mode 'soft'"),
        ({"work": "burn"}, 1, "work: there is no work 'burn'"),
        ({"work": "reset", "mode": None}, 1, "new_head: a reset leads to one"),
        ({"dataset": "-"}, 1, "'-' is not a dataset alias"),
        ({"dataset": None}, 1, "dataset: expected a text"),
        ({"target": None}, 1, "target: expected an object"),
        ({"limits": {"bytes": 1}}, 1, "limits: it lacks records"),
    ],
)
@pytest.mark.parametrize("hashed", [True, False])
def test_a_saved_plan_that_was_altered_does_nothing(
    change: dict[str, object], code: int, says: str, hashed: bool, run: Inside, project: Path
) -> None:
    saved = project / "plan.json"
    run("compact", "src", "--out", str(saved))
    document = {**json.loads(saved.read_text()), **change}
    if hashed:
        document["plan_hash"] = document_hash(document)
    saved.write_text(json.dumps(document))
    before, done = heads(project), run("apply", str(saved))
    assert heads(project) == before
    if hashed:
        refused(done, code, says)
    else:
        refused(done, 1, "error[damaged-plan]")


def _settings(project: Path, line: str) -> None:
    text = f"odfbuild: 1\nname: test\ntargets:\n  dev: {{{line}}}\n"
    (project / "odfbuild.yaml").write_text(text)


def _id(project: Path) -> str:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert found is not None
    return found.id.multibase


def _blocks(project: Path) -> int:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert found is not None
    return len(list(found.blocks()))


# saved plans


@pytest.mark.parametrize(
    "command", ["reset src 3", "compact src", "compact src --keep-metadata-only", "rebuild out"]
)
def test_a_saved_plan_is_printed_again(
    run: Inside,
    project: Path,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, look = project / "saved.json", Within(project, capsys, monkeypatch)
    told = run(*command.split(), "--out", str(file))
    assert (told.code, told.err) == (0, "")
    again = look("inspect", "plan", str(file))
    assert (again.code, again.out, again.err) == (0, told.out, "")
    document = json.loads(look("inspect", "plan", str(file), "-o", "json").out)
    assert document == json.loads(file.read_text())
    assert run("apply", str(file)).code == 0
    assert "warning[stale-plan]" in look("inspect", "plan", str(file)).err


@pytest.mark.parametrize(
    ("words", "damaged", "how"),
    [
        (("compact", "src"), "src", "changed"),
        (("compact", "src"), "src", "missing"),
        (("compact", "src"), "out", "missing"),
        (("rebuild", "out"), "src", "changed"),
        (("rebuild", "out"), "out", "missing"),
        (("reset", "src", "--sequence", "4"), "src", "changed"),
    ],
)
def test_a_dry_run_ends_as_the_command_would(
    run: Inside, project: Path, words: tuple[str, ...], damaged: str, how: str
) -> None:
    workspace = Workspace(project / ".odfbuild")
    id = workspace.names()[DatasetAlias.parse(damaged)]
    for _, path in workspace.dataset(id).slices()[1:]:
        path.write_bytes(b"x")
        if how == "missing":
            path.unlink()
    dry = run(*words, "--dry-run")
    done = run(*words, "--yes")
    assert dry.code == done.code
    assert (dry.err == "") == (dry.code == 0)
