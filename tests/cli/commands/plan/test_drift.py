"""odfbuild drift: chains that others changed, told without changing anything."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    MergeStrategyAppend,
    ReadStepNdJson,
    SetInfo,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.workspace import ReadOnlyError, ReadOnlyWorkspace
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import REPOSITORY
from tests.support.projects.market import FILES, LATER, SETTINGS, append, dataset, steady, workspace
from tests.support.projects.texts import derivative

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "look"
NO_DRIFT = "No drift. 4 datasets are as this project left them.\n"
INFO = SetInfo(description="by hand")
PUSH = AddPushSource(source_name="by-hand", read=ReadStepNdJson(), merge=MergeStrategyAppend())


def kinds(ask: Inside, *arguments: str) -> list[tuple[str, str]]:
    done = ask("drift", "-o", "json", *arguments)
    assert done.err == ""
    found = json.loads(done.out)["drift"]
    assert done.code == (2 if found else 0)
    return [(each["dataset"], each["kind"]) for each in found]


def set_watermark(ask: Inside, name: str) -> None:
    state = dataset(ask.project, name).state()
    assert state is not None
    append(
        ask.project,
        name,
        AddData(
            prev_offset=state.last_offset, prev_checkpoint=state.checkpoint, new_watermark=LATER
        ),
    )


def everything(folder: Path) -> Iterator[tuple[str, int, int, str]]:
    """Yield every file and folder with its mode, time of change and content."""
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        yield str(path.relative_to(folder)), about.st_mode, about.st_mtime_ns, content


def test_what_was_just_applied_has_not_drifted(ask: Inside) -> None:
    done = ask("drift")
    assert (done.code, done.out, done.err) == (0, NO_DRIFT, "")


def test_edits_and_news_that_wait_for_an_apply_are_no_drift(ask: Inside) -> None:
    lay_out(
        ask.project,
        {
            "datasets/out.yaml": derivative(query="select t, k, v + 1 as v from src"),
            "datasets/new.yaml": derivative("new", "out"),
            "data/2.csv": "t,k,v\n2024-01-03,c,3\n",
        },
    )
    assert kinds(ask) == []


def test_nothing_of_the_workspace_is_touched(ask: Inside) -> None:
    append(ask.project, "src", INFO)
    (ask.project / ".odfbuild/index.sqlite").unlink()
    for path in (ask.project / ".odfbuild").glob("index.sqlite-*"):
        path.unlink()
    before = list(everything(ask.project))
    assert kinds(ask) == [("src", "definition")]
    assert kinds(ask, "state:drifted") == [("src", "definition")]
    assert kinds(ask, "state:modified", "change:none") == [("src", "definition")]
    assert list(everything(ask.project)) == before


def test_a_workspace_that_is_only_read_refuses_every_change(ask: Inside) -> None:
    only_read = ReadOnlyWorkspace(ask.project / ".odfbuild")
    found = only_read.open(DatasetAlias.parse("src"))
    assert found is not None
    with pytest.raises(ReadOnlyError):
        found.commit(CommitRequest((INFO,), LATER, ()), on=found.state())
    with pytest.raises(OSError, match="read-only"):
        _ = only_read.cache


def test_all_kinds_of_drift_are_told_with_a_way_on(ask: Inside, golden: Golden) -> None:
    append(ask.project, "out", INFO)
    append(ask.project, "src", DisablePollingSource(), PUSH)
    set_watermark(ask, "acme/side")
    dataset(ask.project, "report").slices()[0][1].unlink()
    workspace(ask.project).create(
        DatasetAlias.parse("other"), DatasetKind.ROOT, CommitRequest((INFO,), LATER, ())
    )
    done = ask("drift")
    assert done.code == 2
    golden(GOLDEN / "drift.txt", steady(done.out))
    assert kinds(ask) == [
        ("src", "push-source"),
        ("src", "definition"),
        ("acme/side", "watermark"),
        ("out", "definition"),
        ("report", "file"),
        ("other", "undeclared"),
    ]


def test_what_an_apply_worked_on_counts_as_its_own(ask: Inside) -> None:
    set_watermark(ask, "src")
    append(ask.project, "src", INFO)
    assert kinds(ask) == [("src", "definition"), ("src", "watermark")]
    assert ask("apply", "--yes", "--no-progress").code == 0
    assert kinds(ask) == []


def test_without_a_record_of_the_last_apply_every_difference_counts(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/out.yaml": derivative(query="select t, k, 1 as v from src")})
    assert kinds(ask) == []
    shutil.rmtree(ask.project / ".odfbuild/cache")
    assert kinds(ask) == [("out", "definition")]


def test_a_chain_that_was_set_back_is_told_and_so_is_what_read_more_of_it(ask: Inside) -> None:
    source = dataset(ask.project, "src")
    (second, _), *_ = list(source.blocks())[1:]
    head = next((ask.project / ".odfbuild/datasets").glob(f"{source.id.multibase}/refs/head"))
    head.write_text(str(second), "ascii")
    assert ("src", "rewritten") in kinds(ask)
    assert ("out", "input") in kinds(ask)
    found = json.loads(ask("drift", "-o", "json").out)["drift"]
    (fix,) = (each["fix"] for each in found if each["kind"] == "input")
    notes = json.loads(ask("plan", "-o", "json").out)["notes"]
    assert fix in [each["fix"] for each in notes]


def test_names_and_chains_that_lost_each_other_are_told(ask: Inside) -> None:
    folder = ask.project / ".odfbuild"
    src, out = dataset(ask.project, "src").id, dataset(ask.project, "out").id
    (folder / "names" / "src").unlink()
    (folder / "datasets" / out.multibase / "refs" / "head").unlink()
    found = kinds(ask)
    assert ("src", "gone") in found
    assert ("out", "gone") in found
    assert (str(src), "unnamed") in found


def test_a_name_that_leads_to_another_dataset_is_told(ask: Inside) -> None:
    names = ask.project / ".odfbuild" / "names"
    other = dataset(ask.project, "acme/side").id
    (names / "src").write_text(f"{other}\nsrc\n", "ascii")
    assert ("src", "identity") in kinds(ask)


@pytest.mark.parametrize("part", ["blocks", "data"])
def test_files_that_are_missing_or_cut_short_are_told(ask: Inside, part: str) -> None:
    source = dataset(ask.project, "src")
    path = source.slices()[0][1].parents[1] / part
    victim = max(path.iterdir(), key=lambda each: each.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    assert ("src", "file") in kinds(ask)
    victim.unlink()
    assert ("src", "file") in kinds(ask)
    assert victim.name in ask("drift").out


def test_a_move_to_come_is_no_drift(ask: Inside) -> None:
    lay_out(
        ask.project,
        {
            "odfbuild.yaml": f"{SETTINGS}moved: [{{from: report, to: summary}}]\n",
            "datasets/report.yaml": FILES["datasets/report.yaml"].replace("report", "summary"),
        },
    )
    assert kinds(ask) == []


def test_only_what_is_selected_is_looked_at(ask: Inside) -> None:
    append(ask.project, "src", INFO)
    append(ask.project, "out", INFO)
    assert kinds(ask, "out+") == [("out", "definition")]
    assert kinds(ask, "--exclude", "out+") == [("src", "definition")]
    assert kinds(ask, "acme/*") == []
    assert ask("drift", "acme/*").out == "No drift. 1 dataset is as this project left them.\n"


def test_drifted_datasets_can_be_selected_elsewhere(ask: Inside) -> None:
    append(ask.project, "out", INFO)
    done = ask("list", "state:drifted", "-o", "csv")
    assert [line.split(",")[0] for line in done.out.splitlines()] == ["name", "out"]


# what is known and let pass


def ignoring(ask: Inside, text: str) -> list[tuple[str, str]]:
    lay_out(ask.project, {"known.yaml": text})
    return kinds(ask, "--ignore-file", str(ask.project / "known.yaml"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ["src", "out"]),
        ("- {dataset: src}", ["out"]),
        ("- {dataset: SRC, kind: definition}", ["out"]),
        ("- {dataset: src, kind: watermark}", ["src", "out"]),
        ("- {dataset: '*', kind: definition}", []),
        ("- {dataset: src, until: 2024-01-31}", ["out"]),
        ("- {dataset: src, until: 2024-01-30}", ["src", "out"]),
        ("- {dataset: src, until: 2024-01-30}\n- {dataset: s*, until: 2024-02-01}", ["out"]),
    ],
)
def test_known_drift_passes_until_its_last_day(
    ask: Inside, monkeypatch: pytest.MonkeyPatch, text: str, left: list[str]
) -> None:
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-01-31")
    append(ask.project, "src", INFO)
    append(ask.project, "out", INFO)
    assert [name for name, _ in ignoring(ask, text)] == left


def test_what_is_ignored_is_counted(ask: Inside) -> None:
    append(ask.project, "src", INFO)
    lay_out(ask.project, {"known.yaml": "- {dataset: src}\n"})
    done = ask("drift", "--ignore-file", str(ask.project / "known.yaml"))
    assert done.code == 0
    assert done.out == f"{NO_DRIFT.rstrip()} 1 known difference ignored.\n"


def test_everything_wrong_with_the_file_is_told_at_once(ask: Inside) -> None:
    file = ask.project / "known.yaml"
    lay_out(
        ask.project,
        {"known.yaml": "- {dataset: out, knd: x}\n- {kind: definitin, until: soon}\n- 3\n"},
    )
    done = ask("drift", "--ignore-file", str(file))
    assert done.code == 1
    assert "did you mean 'kind'?" in done.err
    assert "did you mean 'definition'?" in done.err
    assert "'soon' is not a date" in done.err
    assert "known.yaml:3:3: error" in done.err
    file.write_text("dataset: x\n", "utf-8")
    assert "the file is not a list" in ask("drift", "--ignore-file", str(file)).err
    assert "cannot read" in ask("drift", "--ignore-file", f"{file}.not").err
