"""odfbuild push, pull, clone, search and repo: two teams, and a folder between them."""

import json
import shutil
import time
from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.market import append, dataset, workspace
from tests.support.projects.texts import derivative


@pytest.fixture
def first(
    market: Path, hub: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Run commands of a project with four datasets, which knows the repository."""
    run = Inside(market, capsys, monkeypatch, FakeEngine())
    assert run("repo add", "hub", hub.as_uri()).code == 0
    return run


@pytest.fixture
def second(
    tmp_path: Path,
    hub: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Run commands of an empty project, which knows the repository."""
    settings = f"odfbuild: 1\nname: second\nrepositories:\n  hub: {{url: '{hub.as_uri()}'}}\n"
    project = lay_out(tmp_path / "second", {"odfbuild.yaml": settings})
    return Inside(project, capsys, monkeypatch, FakeEngine())


def head_of(run: Inside, name: str) -> str:
    return str(dataset(run.project, name).head())


def test_what_one_pushes_another_clones_and_pulls(first: Inside, second: Inside, hub: Path) -> None:
    pushed = first("push", "src", "--to", "hub")
    assert pushed.code == 0, pushed.err
    assert "src  new, pushed to hub/src: " in pushed.out
    cloned = second("clone", "hub/src")
    assert cloned.code == 0, cloned.err
    assert "src  new, pulled from hub/src: " in cloned.out
    assert head_of(second, "src") == head_of(first, "src") == (hub / "src/refs/head").read_text()
    append(first.project, "src", SetInfo(description="more"))
    assert "pushed to hub/src: 1 block, 0 records" in first("push", "src").out
    assert "pulled from hub/src: 1 block, 0 records" in second("pull").out
    assert head_of(second, "src") == head_of(first, "src")
    assert second("pull", "src").out == "src  equal to hub/src, nothing to pull\n"
    assert first("push", "src").out == "src  equal to hub/src, nothing to push\n"
    assert second("verify").code == 0


def test_what_was_pulled_and_is_not_declared_is_an_input_and_no_leftover(
    first: Inside, second: Inside
) -> None:
    first("push", "src")
    assert second("clone", "hub/src").code == 0
    (second.project / "datasets" / "copy.yaml").write_text(derivative("copy", "src"))
    for _ in range(2):
        planned = second("plan")
        assert planned.code in (0, 2), planned.err
        assert "ODF115" not in planned.out
        assert "retire" not in planned.out + planned.err
        assert "src is not declared: it was pulled from hub/src" in planned.out + planned.err
        assert second("apply", "--yes").code == 0
    assert second("drift").code == 0
    assert "src" in second("status").out


def test_all_datasets_go_to_the_only_repository_with_their_accounts(
    first: Inside, second: Inside, hub: Path
) -> None:
    assert first("push").code == 0
    found = first("search", "-o", "json")
    entries = {each["reference"]: each for each in json.loads(found.out)["datasets"]}
    assert list(entries) == ["hub/out", "hub/report", "hub/src", "hub/acme/side"]
    state = dataset(first.project, "src").state()
    assert state is not None
    assert entries["hub/src"]["head"] == str(state.head)
    assert entries["hub/src"]["records"] == state.next_offset
    assert entries["hub/out"]["kind"] == "Derivative"
    lines = first("search", "-o", "ndjson").out.splitlines()
    assert [json.loads(line) for line in lines] == list(entries.values())
    assert "hub/acme/side" in first("search", "SIDE").out
    assert "hub/src" not in first("search", "side").out
    assert second("pull", "hub/acme/side").code == 0
    assert [str(each) for each in workspace(second.project).names()] == ["side"]
    assert (hub / "acme/side/refs/head").is_file()


def test_a_dataset_is_found_by_its_id(first: Inside, second: Inside, hub: Path) -> None:
    first("push")
    id = str(dataset(first.project, "out").id)
    assert second("pull", id).code == 0
    assert head_of(second, "out") == head_of(first, "out")
    (hub / ".odfbuild/index.json").unlink()
    assert second("pull", str(dataset(first.project, "report").id), "--as", "r").code == 0
    assert first("repo index").out == "hub: 4 datasets\n"
    assert len(json.loads((hub / ".odfbuild/index.json").read_text())["datasets"]) == 4


def test_an_index_that_says_a_wrong_id_is_not_believed(
    first: Inside, second: Inside, hub: Path
) -> None:
    first("push")
    index = hub / ".odfbuild/index.json"
    src, out = (str(dataset(first.project, name).id) for name in ("src", "out"))
    text = index.read_text().replace(src, "SRC").replace(out, src).replace("SRC", out)
    index.write_text(text)
    done = second("pull", src)
    assert "error[wrong-dataset]" in done.err
    assert heads(second.project) == {}
    index.write_text("{")
    assert second("pull", src).code == 0
    assert second("pull", src).out == "src  equal to hub/src, nothing to pull\n"


def test_force_says_what_is_lost_and_asks(first: Inside, second: Inside, hub: Path) -> None:
    first("push", "src")
    second("pull", "hub/src")
    append(first.project, "src", SetInfo(description="here"))
    append(second.project, "src", SetInfo(description="there"))
    first("push", "src")
    diverged = second("pull")
    assert diverged.code == 1
    assert "error[chains-diverged]" in diverged.err
    assert "1 block with 0 records only here, 1 block with 0 records only there" in diverged.err
    before = heads(second.project)
    asked = second("pull", "--force")
    assert asked.code == 64
    assert "src: the workspace loses 1 block with 0 records" in asked.err
    assert "asks for confirmation" in asked.err
    assert heads(second.project) == before
    done = second("pull", "--force", "--yes")
    assert done.code == 0, done.err
    assert head_of(second, "src") == head_of(first, "src")
    append(second.project, "src", SetInfo(description="again"))
    append(first.project, "src", SetInfo(description="and here"))
    second("push", "src")
    forced = first("push", "src", "--force", "--yes")
    assert "src: hub/src loses 1 block with 0 records" in forced.err
    assert forced.code == 0
    assert head_of(first, "src") == (hub / "src/refs/head").read_text()


def test_a_dry_run_moves_nothing(first: Inside, second: Inside, hub: Path) -> None:
    said = first("push", "src", "--dry-run")
    assert said.out.startswith("src  new, would be pushed to hub/src: ")
    assert not (hub / "src").exists()
    first("push", "src")
    assert second("clone", "hub/src", "--dry-run").out.startswith("src  new, would be pulled from")
    assert heads(second.project) == {}


def test_reports_are_read_by_programs(first: Inside, second: Inside) -> None:
    (pushed,) = json.loads(first("push", "src", "-o", "json").out)["datasets"]
    assert pushed["relation"] == "ahead"
    assert pushed["here_only"]["blocks"] == pushed["blocks"] > 0
    assert (pushed["before"], pushed["head"]) == (None, head_of(first, "src"))
    said = second("pull", "hub/src", "-o", "ndjson").out
    events = [json.loads(line) for line in said.splitlines()]
    names = [each["event"] for each in events]
    assert names == ["run_started", "transfer", "summary"]
    assert (events[1]["relation"], events[1]["bytes"]) == ("behind", pushed["bytes"])


def test_one_that_fails_keeps_no_other_back(first: Inside, second: Inside, hub: Path) -> None:
    first("push")
    for name in ("src", "out"):
        second("pull", f"hub/{name}")
    append(first.project, "out", SetInfo(description="more"))
    first("push", "out")
    (hub / "src/refs/head").unlink()
    done = second("pull")
    assert done.code == 4
    assert "error[no-remote-dataset]" in done.err
    assert head_of(second, "out") == head_of(first, "out")


@pytest.mark.holds("chain-received")
def test_a_forged_file_is_found_before_anything_is_visible(
    first: Inside, second: Inside, hub: Path
) -> None:
    first("push", "src")
    slice = next((hub / "src/data").iterdir())
    data = bytearray(slice.read_bytes())
    data[len(data) // 2] ^= 1
    slice.write_bytes(data)
    done = second("pull", "hub/src")
    assert done.code == 1
    assert "error[broken-source]" in done.err
    assert heads(second.project) == {}


def test_a_chain_that_was_set_back_is_refused_and_taken_by_force(
    first: Inside, second: Inside, hub: Path
) -> None:
    first("push", "src")
    old = (hub / "src/refs/head").read_text()
    append(first.project, "src", SetInfo(description="more"))
    first("push", "src")
    second("pull", "hub/src")
    (hub / "src/refs/head").write_text(old)
    done = second("pull")
    assert done.code == 7
    assert "error[head-rolled-back]" in done.err
    assert head_of(second, "src") == head_of(first, "src")
    assert second("pull", "src", "--force", "--yes").code == 0
    assert head_of(second, "src") == old


def test_rows_are_looked_at_on_request(first: Inside, second: Inside) -> None:
    first("push", "src")
    assert second("pull", "hub/src", "--verify", "data").code == 0
    assert second("verify").code == 0


def test_a_source_that_came_along_is_not_used(first: Inside, second: Inside) -> None:
    first("push", "src")
    second("pull", "hub/src")
    from odfbuild.state.disabled import disabled_folders

    assert list(disabled_folders(second.project / ".odfbuild")) == list(heads(second.project))


def test_a_clone_is_of_what_is_not_here(first: Inside, second: Inside) -> None:
    first("push", "src")
    second("clone", "hub/src")
    done = second("clone", "hub/src")
    assert "error[cloned-already]" in done.err
    for command in (("clone", "hub/src", "other"), ("pull", "hub/src", "--as", "other")):
        done = second(*command)
        assert "error[other-name]" in done.err
        assert "odfbuild mv src other" in done.err
    assert [str(each) for each in Workspace(second.project / ".odfbuild").names()] == ["src"]


def test_a_clone_that_only_gives_a_name_says_so(
    first: Inside, second: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    first("push", "src")

    def cut_off(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "name", cut_off)
        assert second("clone", "hub/src").code != 0
    assert second("clone", "hub/src").out == (
        "src  received from hub/src by an earlier interrupted pull; its name is set now\n"
    )
    assert second("pull", "src").out == "src  equal to hub/src, nothing to pull\n"


def test_places_that_are_not_known_are_refused(second: Inside, first: Inside, hub: Path) -> None:
    first("push", "src")
    second("pull", "hub/src")
    assert "error[unknown-repository]" in second("push", "src", "--to", "nowhere").err
    assert "did you mean 'hub'?" in second("push", "src", "--to", "hbu").err
    for command in ("pull", "clone"):
        done = second(command, "hubb/out")
        assert "error[unknown-repository]" in done.err
        assert "did you mean 'hub'?" in done.err
    assert "error[name-needed]" not in second("pull", hub.as_uri() + "/src").err
    assert "error[no-remote-dataset]" in second("pull", "hub/nothing").err
    assert "there are several datasets" in second("pull", "hub/src", "hub/out", "--as", "x").err
    done = first("push", "--to", "hub/src")
    assert done.code == 64
    assert "4 datasets would be pushed to one location" in done.err


def test_repositories_are_listed_added_and_checked(
    first: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert first("repo add", "lake", "s3://lake/odf", "--trust", "signed").code == 0
    own = (tmp_path / "own").as_uri()
    assert first("repo add", "own", own, "--user").code == 0
    assert first("repo add", "more", own, "--user").code == 0
    listed = json.loads(first("repo list", "-o", "json").out)
    assert [(each["name"], each["trust"]) for each in listed] == [
        ("hub", "remembered"),
        ("lake", "signed"),
        ("own", "remembered"),
        ("more", "remembered"),
    ]
    (found,) = json.loads(first("repo check", "hub", "-o", "json").out)
    assert (found["read"], found["push"]) == ("yes", "yes")
    assert first("repo check", "hub").code == 0
    again = first("repo add", "HUB", own)
    assert "the repository 'HUB' exists already" in again.err
    secret = first("repo add", "x", "https://ada:lovelace@hub.example.org")
    assert secret.code == 64
    assert "lovelace" not in secret.err


def test_a_folder_that_is_not_there_is_no_repository_yet(first: Inside, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, path in (("soon", tmp_path / "a/b"), ("never", tmp_path / "file/b")):
        assert first("repo add", name, path.as_uri()).code == 0
    checked = first("repo check", "soon", "never", "-o", "json")
    assert checked.code != 0
    soon, never = json.loads(checked.out)
    assert (soon["read"], soon["push"]) == ("no", "yes")
    assert "a push creates it" in soon["said"]
    assert (never["read"], never["push"]) == ("no", "no")
    assert first("push", "src", "--to", "soon").code == 0
    assert first("repo check", "soon").code == 0


def test_what_a_push_that_was_killed_left_is_named_and_taken_away_when_it_is_old(
    first: Inside, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other files stay, and so does what may be written just now; the chain is not touched."""
    first("push", "src", "out")
    left = [
        hub / name / part / f".pending-{number:016x}"
        for name in ("src", "out", "half")
        for number, part in enumerate(("refs", "blocks", "data", "checkpoints", "attestations"))
    ]
    others = [
        hub / "src/data/.pending-x",
        hub / "src/data/note",
        hub / "src/.pending-" / ("0" * 16),
    ]
    for path in (*left, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half a file")
    assert "interrupted pushes" not in first("repo check", "hub").out
    append(first.project, "src", SetInfo(description="young"))
    assert first("push", "src").code == 0
    assert all(each.exists() for each in (*left, *others))

    later = time.time_ns() + 3_700 * 10**9
    monkeypatch.setattr("odfbuild.repositories.transports.folder.time_ns", lambda: later)
    said = first("repo check", "hub")
    assert said.code == 0
    assert "15 files of interrupted pushes, 165 B, in half, out, src" in said.out
    append(first.project, "src", SetInfo(description="old"))
    assert first("push", "src").code == 0
    gone = [each for each in left if hub / "src" in each.parents]
    assert [each for each in left if not each.exists()] == gone
    assert all(each.exists() for each in others)
    assert "10 files of interrupted pushes" in first("repo check", "hub").out
    assert (hub / "src/refs/head").read_text() == head_of(first, "src")


def test_comments_of_the_project_file_stay_when_a_repository_is_added(
    first: Inside, hub: Path
) -> None:
    path = first.project / "odfbuild.yaml"
    path.write_text("# ours\n" + path.read_text() + "# the end\n")
    assert first("repo add", "two", hub.as_uri()).code == 0
    text = path.read_text()
    assert text.startswith("# ours\n")
    assert "# the end" in text
    assert set(json.loads(first("repo list", "-o", "json").out)[1]) > {"name", "url"}


def test_what_a_refusal_of_two_ways_says_is_done_and_shows_both(
    first: Inside, second: Inside, hub: Path, tmp_path: Path
) -> None:
    first("push", "src")
    second("clone", "hub/src")
    append(second.project, "src", SetInfo(description="theirs"))
    append(first.project, "src", SetInfo(description="ours"))
    first("push", "src")
    for command in ("pull", "push"):
        done = second(command, "src")
        assert "error[chains-diverged]" in done.err
        assert "clone it in another project: odfbuild clone hub/src -C FOLDER" in done.err
        again = "pull hub/src --force" if command == "pull" else "push src --to hub/src --force"
        assert f"odfbuild {again}, which takes" in " ".join(done.err.split())
        asked = second(command, "src", "--force")
        assert f"{command} src --force asks for confirmation" in asked.err
        assert "repeat the command with --yes" in asked.err
    other = lay_out(
        tmp_path / "other", {"odfbuild.yaml": (second.project / "odfbuild.yaml").read_bytes()}
    )
    mine = head_of(second, "src")
    second.project, project = other, second.project
    assert second("clone", "hub/src").code == 0
    assert head_of(second, "src") == head_of(first, "src")
    second.project = project
    assert head_of(second, "src") == mine


def test_what_was_pulled_goes_on_only_by_name_and_where_it_came_from(
    first: Inside, second: Inside, hub: Path
) -> None:
    """Whatever it was pulled by, whatever it is called here, and whatever push is told."""
    first("push")
    id = str(dataset(first.project, "src").id)
    references = ("hub/src", f"{hub.as_uri()}/src", f"hub/{id}", id)
    for number, reference in enumerate(references):
        assert second("clone", reference, f"copy{number}.src").code == 0
        done = second("push", "--dry-run")
        assert (done.code, done.out) == (0, "")
        assert "1 dataset left out" in done.err
        for arguments in ((), ("--to", "hub")):
            done = second("push", f"copy{number}.src", *arguments)
            assert done.out == f"copy{number}.src  equal to hub/src, nothing to push\n"
        assert second("push").out == done.out, "it was pushed from here"
        assert sorted(each.name for each in hub.iterdir() if (each / "refs").is_dir()) == [
            "out",
            "report",
            "src",
        ]
        shutil.rmtree(second.project / ".odfbuild")
