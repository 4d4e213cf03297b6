"""odfbuild import: an existing chain becomes a dataset of the project, and nothing would change."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from odfbuild import app
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.commands.author.import_ import ImportMode, import_dataset
from odfbuild.cli.files import AlreadyThereError
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.chain.state import fold
from odfbuild.odf.events import MetadataEvent, Seed, SetInfo
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.repositories import intake
from odfbuild.repositories.signatures.signing import find_signing_key, sign_here
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import DERIVATIVE, NOON, PUSH, ROOT, after, chain_of, set_transform
from tests.support.data.histories import Added, History, scripts
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import Done
from tests.support.projects.market import append, dataset, workspace
from tests.support.projects.texts import GOOD, derivative, root

ORDER = ("src", "acme/side", "out", "report")


@pytest.fixture
def second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Run commands of an empty project beside."""
    project = lay_out(tmp_path / "second", {"odfbuild.yaml": "odfbuild: 1\nname: second\n"})
    return Inside(project, capsys, monkeypatch, FakeEngine())


def folder_of(project: Path, name: str) -> Path:
    return project / ".odfbuild" / "datasets" / dataset(project, name).id.multibase


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in found}


def take(run: Inside, folder: Path, *more: str) -> str:
    done = run("import", str(folder), *more)
    assert done.code == 0, done.err
    return done.out


def refused(run: Inside, says: str, *arguments: str, code: int = 1) -> Done:
    before, datasets = heads(run.project), files(run.project / "datasets")
    done = run("import", *arguments)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert (heads(run.project), files(run.project / "datasets")) == (before, datasets)
    return done


# a project taken over


def test_a_whole_project_is_taken_over_and_a_plan_is_empty(market: Path, second: Inside) -> None:
    for name in ORDER:
        take(second, folder_of(market, name))
    assert heads(second.project) == heads(market)
    assert second("plan").out == "No changes. 4 datasets match the project.\n"
    assert second("verify").code == 0
    assert second("drift").code == 0
    assert workspace(second.project).names() == workspace(market).names()
    for name in ORDER:
        assert files(folder_of(market, name)) == files(folder_of(second.project, name))


def test_what_was_taken_over_goes_on(market: Path, second: Inside) -> None:
    for name in ORDER:
        take(second, folder_of(market, name))
    lay_out(second.project, {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    done = second("apply", "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "Done: 3 blocks committed to 3 datasets, 3 rows.",
    )
    assert second("verify").code == 0
    assert heads(second.project).keys() == heads(market).keys()
    assert "No changes" in second("plan").out


def test_it_is_said_what_was_taken_in(market: Path, second: Inside) -> None:
    folder = folder_of(market, "src")
    done = second("import", str(folder))
    head = dataset(market, "src").head()
    lines = done.out.splitlines()
    assert lines[0] == f"Imported src from {folder}"
    assert lines[1] == f"  root  {dataset(market, 'src').id}"
    assert lines[2] == f"  head {head}"
    assert lines[3].startswith("  5 blocks, 1 file, 2.")
    assert lines[4] == "Wrote datasets/src.yaml; a plan has no changes."
    assert "its private key is not here" in done.err


def test_another_name_may_be_given(market: Path, second: Inside) -> None:
    take(second, folder_of(market, "src"), "Acme/Rates.Daily")
    assert (second.project / "datasets/Acme/Rates/Daily.yaml").is_file()
    assert "No changes. 1 dataset matches" in second("plan").out
    take(second, folder_of(market, "out"))
    assert "datasetRef: Acme/Rates.Daily" in (second.project / "datasets/out.yaml").read_text()
    assert "No changes. 2 datasets match" in second("plan").out


def test_what_was_imported_is_renamed_and_stays_the_dataset(market: Path, second: Inside) -> None:
    take(second, folder_of(market, "src"))
    take(second, folder_of(market, "out"))
    before = heads(second.project)
    assert second("mv", "src", "rates").code == 0
    assert "src → rates" in second("plan").out
    assert second("apply", "--yes").code == 0
    assert heads(second.project) == before
    assert "No changes" in second("plan").out
    assert dataset(second.project, "rates").id == dataset(market, "src").id


def test_a_folder_of_kamu_has_its_name_beside_it_or_in_it(market: Path, second: Inside) -> None:
    kamu = second.project / ".kamu" / "datasets"
    shutil.copytree(folder_of(market, "src"), kamu / "org.example.src")
    shutil.copytree(folder_of(market, "acme/side"), kamu / "fed01ab")
    lay_out(kamu / "fed01ab", {"info/alias": "acme/side\n", "info/summary": "kind: x\n"})
    take(second, kamu / "org.example.src")
    done = second("import", str(kamu / "fed01ab"))
    assert "not part of the chain" in done.err  # the project file that was put there
    names = {str(each) for each in workspace(second.project).names()}
    assert names == {"org.example.src", "acme/side"}
    assert "No changes" in second("plan").out


def test_other_references_come_along(market: Path, second: Inside) -> None:
    found = dataset(market, "src")
    blocks = [hash for hash, _ in found.blocks()]
    found.stores.heads.swap("release-1", expected=None, new=blocks[2])
    assert "1 other reference" in take(second, folder_of(market, "src"))
    assert dataset(second.project, "src").stores.heads.read("release-1") == blocks[2]


@drawn(script=scripts())
def test_any_history_plans_to_nothing_and_verifies(
    script: list[Added | MetadataEvent], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    made = History(folder, *script)
    project = lay_out(folder / "second", {})
    import_dataset(
        ProjectArguments(directory=project),
        folder_in(made.workspace, made.dataset),
        "src",
        ImportMode(),
    )
    opened = app.open_project(project)
    assert app.make(opened).steps == ()
    (taken,) = opened.workspace.states().values()
    assert taken == made.state
    assert verify(opened.workspace.dataset(made.dataset.id)).findings == ()


@settings(max_examples=15)
@drawn(script=scripts(), at=st.integers(0, 100), stop=st.integers(0, 40))
def test_a_copy_that_goes_on_leads_the_dataset_on_whenever_it_is_cut_off(
    script: list[Added | MetadataEvent],
    at: int,
    stop: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("law")
    made = History(folder, *script[: at % (len(script) + 1)])
    source = folder_in(made.workspace, made.dataset)
    second = lay_out(folder / "second", {})
    given = ProjectArguments(directory=second)
    import_dataset(given, source, "src", ImportMode())
    before = made.state.head
    for each in script[at % (len(script) + 1) :]:
        made.add(each)
    with pytest.MonkeyPatch.context() as patch, suppress(Crash, AlreadyThereError):
        stopping(stop, patch)
        import_dataset(given, source, "src", ImportMode())
    taken = workspace(second).dataset(made.dataset.id)
    assert taken.head() in (before, made.state.head)
    assert verify(taken).findings == ()
    with suppress(AlreadyThereError):  # it was done, or there was nothing to do
        import_dataset(given, source, "src", ImportMode())
    there = files(folder_in(workspace(second), taken))
    assert {name: each for name, each in there.items() if ".pending" not in name} == files(source)
    assert workspace(second).states() == made.workspace.states()
    assert verify(taken).findings == ()


def test_a_longer_copy_is_taken_in_and_the_definition_stays(market: Path, second: Inside) -> None:
    take(second, folder_of(market, "src"))
    append(market, "src", SetInfo(description="more"))
    out = take(second, folder_of(market, "src"))
    assert "src gets 1 block from " in out
    assert "The existing definition stays; a plan shows what it would change.\n" in out
    assert dataset(second.project, "src").head() == dataset(market, "src").head()
    assert "SetInfo" in second("plan").out


@pytest.mark.parametrize("goes_on", [False, True])
def test_files_that_are_lost_here_come_back_with_a_copy(
    market: Path, second: Inside, *, goes_on: bool
) -> None:
    copy = folder_of(market, "src")
    take(second, copy)
    if goes_on:
        append(market, "src", SetInfo(description="more"))
    lost = sorted((folder_of(second.project, "src") / "data").iterdir())
    for each in lost:
        each.unlink()
    assert f"  {len(lost)} lost file" in take(second, copy)
    assert verify(dataset(second.project, "src")).findings == ()
    assert dataset(second.project, "src").head() == dataset(market, "src").head()
    refused(second, "already-there", str(copy))


def test_what_was_made_of_more_than_is_here_is_said(
    market: Path, ask: Inside, second: Inside
) -> None:
    for name in ("src", "out"):
        take(second, folder_of(market, name))
    lay_out(market, {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    assert ask("apply", "--yes").code == 0
    done = second("import", str(folder_of(market, "out")))
    assert done.code == 0
    assert "it was made of blocks of src that are not here" in done.err
    assert "input-rewritten" in second("plan").out or "rewritten" in second("plan").out
    assert "that are not here" not in second("import", str(folder_of(market, "src"))).err
    assert "No changes" in second("plan").out


def test_a_push_in_between_is_refused_as_another_head(
    market: Path, second: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(second, folder_of(market, "src"))
    append(market, "src", SetInfo(description="there"))
    put = intake.put_in_place

    def pushed(*given: Any) -> Dataset:
        append(second.project, "src", SetInfo(description="here"))
        return put(*given)

    monkeypatch.setattr(intake, "put_in_place", pushed)
    done = second("import", str(folder_of(market, "src")))
    assert done.code == 1
    assert "error[already-here]" in done.err
    assert "the two copies are different" in done.err
    here = dataset(second.project, "src").state()
    assert here is not None
    assert here.info == SetInfo(description="here")


def test_a_copy_that_is_refused_leaves_its_source_on(second: Inside, tmp_path: Path) -> None:
    lay_out(second.project, {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    assert second("apply", "--yes").code == 0
    copied = shutil.copytree(folder_of(second.project, "src"), tmp_path / "copy")
    refused(second, "the workspace has this dataset already, as src", str(copied), "other")
    lay_out(second.project, {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    assert "1 row" in second("apply", "--yes").out


def folder_in(found: Workspace, made: Dataset) -> Path:
    return found.root / "datasets" / made.id.multibase


def chain_in(folder: Path, *events: MetadataEvent) -> Path:
    """Make a chain without data and return its folder."""
    found = Workspace(folder)
    seed, *rest = events
    dataset = found.make_room(seed.dataset_id)  # type: ignore[union-attr]
    dataset.commit(CommitRequest((seed, *rest), NOON), on=None)
    return folder_in(found, dataset)


def test_blocks_of_another_version_keep_their_bytes(second: Inside, tmp_path: Path) -> None:
    state, encoded = None, []
    for event in (ROOT, PUSH, SetInfo(description="by another program")):
        block = after(state, event).block
        data = encode_block(block, version=3)
        state = fold(state, block, block_hash(data))
        encoded.append(data)
    found = Workspace(tmp_path / "a")
    made = found.make_room(ROOT.dataset_id)
    made.append(encoded, on=None)
    take(second, folder_in(found, made), "newer")
    assert dataset(second.project, "newer").head() == block_hash(encoded[-1])
    assert "No changes" in second("plan").out
    assert second("verify").code == 0


# a part of the work was done


class Crash(BaseException):
    """The process is gone."""


def stopping(at: int, patch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have the n-th step of any disk be the last; return how many there were."""
    steps = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            nonlocal steps
            if steps == at:
                raise Crash
            steps += 1
            return real(*arguments)

        return step

    for name in ("write", "sync", "rename", "link"):
        patch.setattr(Disk, name, counted(getattr(Disk, name)))
    return lambda: steps


def test_whenever_it_is_cut_off_nothing_half_is_left_and_doing_it_again_ends_well(
    market: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, n = folder_of(market, "src"), 0
    want = files(source)
    definitions: set[str] = set()
    while True:
        project = lay_out(tmp_path / str(n), {})
        with monkeypatch.context() as patch, suppress(Crash):
            stopping(n, patch)
            import_dataset(ProjectArguments(directory=project), source, None, ImportMode())
            break
        found = Workspace(project / ".odfbuild")
        for id in found.heads():
            assert files(folder_in(found, found.dataset(id))) == want
        definition = project / "datasets" / "src.yaml"
        if not definition.exists():  # else only its folder was not on disk yet
            import_dataset(ProjectArguments(directory=project), source, None, ImportMode())
        assert {str(alias): id for alias, id in found.names().items()} == {
            "src": dataset(market, "src").id
        }
        definitions.add(definition.read_text())
        n += 1
    assert n > 15
    assert len(definitions) == 1


def test_a_dataset_without_a_definition_gets_one_by_its_name(market: Path, second: Inside) -> None:
    done = second("import", str(folder_of(market, "src")), "--no-definition")
    assert "No definition was written" in done.out
    assert not (second.project / "datasets" / "src.yaml").exists()
    out = take(second, Path("SRC"))
    assert out == (
        "src is in the workspace, at block 4.\nWrote datasets/src.yaml; a plan has no changes.\n"
    )
    assert "No changes. 1 dataset matches" in second("plan").out
    refused(second, "the project has a dataset src", "src")


def test_what_an_interrupted_creation_left_is_no_hindrance(market: Path, second: Inside) -> None:
    found = workspace(second.project)
    place = found.make_room(dataset(market, "src").id)
    place.stores.blocks.put({})
    (folder_in(found, place) / "blocks" / "left").write_text("x")
    take(second, folder_of(market, "src"))
    assert files(folder_of(second.project, "src")) == files(folder_of(market, "src"))


# what is refused


def test_names_and_ids_that_are_taken_are_refused(market: Path, second: Inside) -> None:
    take(second, folder_of(market, "src"))
    source = str(folder_of(market, "src"))
    refused(second, "the project has a dataset src", source)
    refused(second, "has this dataset already, as src", source, "other")
    refused(second, "the project has a dataset src", str(folder_of(market, "acme/side")), "SRC")
    (second.project / "datasets" / "src.yaml").unlink()
    side = str(folder_of(market, "acme/side"))
    refused(second, "the workspace has another dataset named src", side, "src")
    append(market, "src", SetInfo(description="more"))
    append(second.project, "src", SetInfo(description="other"))
    parted = "has src already, at another head: after 5 blocks the two copies are different"
    refused(second, parted, source)


def test_a_copy_that_is_shorter_has_nothing_to_take_in(market: Path, second: Inside) -> None:
    take(second, folder_of(market, "src"))
    (second.project / "datasets" / "src.yaml").unlink()
    append(second.project, "src", SetInfo(description="more"))
    shorter = "has src already, and blocks after the last one of the copy: 1"
    refused(second, shorter, str(folder_of(market, "src")))


def test_a_definition_that_is_there_is_kept(market: Path, second: Inside) -> None:
    lay_out(second.project, {"datasets/mine.yaml": (market / "datasets/raw/src.yaml").read_text()})
    take(second, folder_of(market, "src"), "--no-definition")
    assert "No changes. 1 dataset matches" in second("plan").out


def test_a_derivative_comes_after_its_inputs(market: Path, second: Inside) -> None:
    done = refused(second, "out reads an input that the workspace", str(folder_of(market, "out")))
    assert f"{dataset(market, 'src').id}  in {folder_of(market, 'src')}" in done.err
    kamu = second.project / "kamu"
    shutil.copytree(folder_of(market, "src"), kamu / "source")
    shutil.copytree(folder_of(market, "out"), kamu / "out")
    done = refused(second, "out reads an input", str(kamu / "out"))
    assert f"in {kamu / 'source'}" in done.err
    done = second("import", str(kamu / "out"), "--no-definition")
    assert done.code == 0
    assert "it reads datasets that the workspace does not have" in done.err
    assert second("plan").code == 0


def test_inputs_are_taken_in_first_when_asked_for(market: Path, second: Inside) -> None:
    out = take(second, folder_of(market, "report"), "--with-inputs")
    lines = [line.split()[1] for line in out.splitlines() if line.startswith("Imported ")]
    assert lines == ["src", "out", "report"]
    assert "No changes. 3 datasets match" in second("plan").out
    mine = heads(market)
    del mine[dataset(market, "acme/side").id.multibase]
    assert heads(second.project) == mine


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_an_input_of_several_is_taken_in_once(
    names: tuple[str, str], second: Inside, tmp_path: Path
) -> None:
    ids = {name: DatasetId(bytes([n]) * 32) for n, name in enumerate(("one", "two", "top"))}
    found = tmp_path / "kamu"
    kind = DERIVATIVE.dataset_kind
    chains: dict[str, tuple[MetadataEvent, ...]] = {
        "one": (Seed(dataset_id=ids["one"], dataset_kind=ROOT.dataset_kind), PUSH),
        "two": (Seed(dataset_id=ids["two"], dataset_kind=kind), set_transform(ids["one"])),
        "top": (
            Seed(dataset_id=ids["top"], dataset_kind=kind),
            set_transform(*(ids[name] for name in names)),
        ),
    }
    for name, events in chains.items():
        chain_in(found, *events).rename(tmp_path / name)
    out = take(second, tmp_path / "top", "--with-inputs")
    lines = [line.split()[1] for line in out.splitlines() if line.startswith("Imported ")]
    assert lines == ["one", "two", "top"]


def test_inputs_that_are_nowhere_are_said_to_be_missing(market: Path, second: Inside) -> None:
    alone = second.project / "alone" / "report"
    shutil.copytree(folder_of(market, "report"), alone)
    done = refused(second, "report reads an input", str(alone), "--with-inputs")
    assert f"{dataset(market, 'out').id}\n" in done.err
    assert "import them first, from where they are" in done.err


def test_chains_that_read_each_other_end_the_search(second: Inside, tmp_path: Path) -> None:
    other = DatasetId(b"\x07" * 32)
    mine = chain_in(tmp_path / "a", DERIVATIVE, set_transform(other))
    theirs = chain_in(
        tmp_path / "a",
        Seed(dataset_id=other, dataset_kind=DERIVATIVE.dataset_kind),
        set_transform(DERIVATIVE.dataset_id),
    )
    mine.rename(tmp_path / "one")
    theirs.rename(tmp_path / "two")
    refused(second, "reads an input", str(tmp_path / "one"), "--with-inputs")


def test_a_chain_that_does_not_verify_is_left_where_it_is(market: Path, second: Inside) -> None:
    folder = folder_of(market, "src")
    (file,) = (folder / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    done = refused(second, "does not verify", str(folder), code=7)
    assert "other bytes" in done.err
    assert list((second.project / ".odfbuild" / "staging").iterdir()) == []


def test_a_chain_of_another_dataset_is_found_out(market: Path, second: Inside) -> None:
    folder = folder_of(market, "src")
    found = dataset(market, "src")
    stranger = chain_of(ROOT)[0]
    found.stores.blocks.put({stranger.hash: stranger.data})
    (folder / "refs" / "aside").write_text(str(stranger.hash))
    refused(second, "is that of", str(folder), code=7)


def test_a_query_of_an_engine_that_is_not_here_cannot_be_declared(
    second: Inside, tmp_path: Path
) -> None:
    event = set_transform(DERIVATIVE.dataset_id)
    other = replace(event, transform=replace(event.transform, engine="flink"))
    take(second, chain_in(tmp_path / "a", DERIVATIVE, other), "in0", "--no-definition")
    done = refused(second, "datasets/in0.yaml would not hold", "in0")
    assert "the engine 'flink' is not installed" in done.err
    assert "--no-definition" in done.err


def test_push_sources_come_along(second: Inside, tmp_path: Path) -> None:
    take(second, chain_in(tmp_path / "a", ROOT, PUSH), "pushed")
    assert "sourceName: devices" in (second.project / "datasets/pushed.yaml").read_text()
    assert "No changes" in second("plan").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "there is no such folder"),
        (("datasets",), "it has no refs/head"),
        (("odfbuild.yaml",), "there is no such folder"),
    ],
)
def test_what_is_no_dataset_is_said_to_be_none(
    arguments: tuple[str, ...], says: str, second: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(second.project)
    refused(second, says, *arguments)


def test_a_chain_without_a_name_has_to_be_named(second: Inside, tmp_path: Path) -> None:
    folder = chain_in(tmp_path / "a", ROOT, PUSH)
    refused(second, "has no name", str(folder))


def test_a_project_with_mistakes_is_mended_first(market: Path, second: Inside) -> None:
    lay_out(second.project, {"datasets/bad.yaml": derivative("bad", "nothing")})
    refused(second, "no dataset named 'nothing'", str(folder_of(market, "src")))


def test_a_file_in_the_way_is_not_overwritten(market: Path, second: Inside) -> None:
    lay_out(second.project, {"datasets/src.yaml": "# mine\n"})
    refused(second, "datasets/src.yaml exists already", str(folder_of(market, "src")))


def test_a_protected_target_is_named(market: Path, second: Inside) -> None:
    text = "odfbuild: 1\nname: second\ntargets:\n  dev: {protect: true}\n"
    (second.project / "odfbuild.yaml").write_text(text)
    refused(second, "the target 'dev' is protected", str(folder_of(market, "src")), code=64)
    take(second, folder_of(market, "src"), "--target", "dev")


# heads that were accepted before


@pytest.fixture
def third(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Run commands of one more empty project, by the same user."""
    project = lay_out(tmp_path / "third", {"odfbuild.yaml": "odfbuild: 1\nname: third\n"})
    return Inside(project, capsys, monkeypatch, FakeEngine())


def signed(project: Path, name: str = "src") -> None:
    """Sign the head of a dataset with its key."""
    own = Workspace(project / ".odfbuild")
    found = own.open(DatasetAlias.parse(name))
    assert found is not None
    sign_here(found, find_signing_key(own.keys, found, NOON), NOON, None)


def test_what_is_signed_comes_along(market: Path, second: Inside) -> None:
    signed(market)
    take(second, folder_of(market, "src"))
    assert second("verify", "--signatures", "src").code == 0
    append(market, "src", SetInfo(description="more"))
    signed(market)
    take(second, folder_of(market, "src"))
    assert second("verify", "--signatures", "src").code == 0


def test_an_older_copy_than_was_accepted_is_refused_unless_forced(
    market: Path, second: Inside, third: Inside, tmp_path: Path
) -> None:
    shutil.copytree(folder_of(market, "src"), tmp_path / "older")
    append(market, "src", SetInfo(description="more"))
    take(second, folder_of(market, "src"))
    refused(third, "head-rolled-back", str(tmp_path / "older"), "src", code=7)
    take(third, tmp_path / "older", "src", "--force")


def test_a_folder_in_which_somebody_goes_on_unsigned_is_refused(
    market: Path, second: Inside, third: Inside
) -> None:
    signed(market)
    take(second, folder_of(market, "src"))
    append(market, "src", SetInfo(description="forged"))
    refused(second, "unsigned-head", str(folder_of(market, "src")), code=7)
    refused(third, "unsigned-head", str(folder_of(market, "src")), code=7)
    signed(market)
    take(second, folder_of(market, "src"))


def test_a_folder_with_a_changed_attestation_is_refused(market: Path, second: Inside) -> None:
    signed(market)
    (attestation,) = (folder_of(market, "src") / "attestations").iterdir()
    attestation.write_bytes(attestation.read_bytes().replace(b'"sig":"', b'"sig":"A'))
    refused(second, "bad-signature", str(folder_of(market, "src")), code=7)
