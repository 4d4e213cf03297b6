"""pull --verify replay: steps that come are run again before anything of them is visible."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from tests.support.engines import FakeEngine, Rows
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.market import dataset, workspace

QUERY = "select t, k, v from src"


@pytest.fixture
def owner(
    market: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Run commands of a project whose datasets are in a repository."""
    hub = tmp_path / "hub"
    hub.mkdir()
    run = Inside(market, capsys, monkeypatch, FakeEngine())
    assert run("repo add", "hub", hub.as_uri()).code == 0
    assert run("push").code == 0
    return run


def reading(owner: Inside, tmp_path: Path, query: object = None) -> "Reader":
    hub = f"repositories:\n  hub: {{url: '{(tmp_path / 'hub').as_uri()}'}}\n"
    project = lay_out(tmp_path / "reader", {"odfbuild.yaml": f"odfbuild: 1\nname: r\n{hub}"})
    queries = {} if query is None else {QUERY: query}
    return Reader(project, owner._capture, owner._patch, FakeEngine(queries=queries))  # type: ignore[arg-type]


class Reader(Inside):
    """The commands of another project."""

    def names(self) -> list[str]:
        return [str(each) for each in workspace(self.project).names()]

    def pulled(self, name: str) -> Done:
        return self("pull", f"hub/{name}", "--verify", "replay")


def test_a_root_has_no_steps_and_a_derivative_is_made_again(owner: Inside, tmp_path: Path) -> None:
    reader = reading(owner, tmp_path)
    assert reader.pulled("src").code == 0
    done = reader.pulled("out")
    assert done.code == 0, done.err
    assert dataset(reader.project, "out").head() == dataset(owner.project, "out").head()


def test_rows_that_come_out_otherwise_are_never_visible(owner: Inside, tmp_path: Path) -> None:
    def fewer(inputs: Mapping[str, Rows]) -> Rows:
        return inputs["src"][:1]

    reader = reading(owner, tmp_path, fewer)
    assert reader.pulled("src").code == 0
    done = reader.pulled("out")
    assert done.code != 0
    assert "error[not-verified]" in done.err
    assert "offsets 0..0 came out" in done.err
    assert reader.names() == ["src"]
    assert reader("pull", "hub/out", "--verify", "data").code == 0


def test_inputs_that_are_not_here_are_named(owner: Inside, tmp_path: Path) -> None:
    reader = reading(owner, tmp_path)
    done = reader.pulled("out")
    assert done.code != 0
    assert "error[inputs-not-here]" in done.err
    assert str(dataset(owner.project, "src").id) in done.err
    assert reader.names() == []
    id = dataset(owner.project, "src").id
    assert reader("pull", f"hub/{id}", "--as", "src").code == 0
    assert reader.pulled("out").code == 0


def test_inputs_have_to_be_here_as_far_as_a_step_read_them(owner: Inside, tmp_path: Path) -> None:
    reader = reading(owner, tmp_path)
    assert reader.pulled("src").code == 0
    (owner.project / "data" / "2.csv").write_text("t,k,v\n2024-01-05,z,9\n", "utf-8")
    applied = owner("apply", "-y", "src", "out")
    assert applied.code == 0, applied.err
    assert owner("push", "src", "out").code == 0
    done = reader.pulled("out")
    assert "error[inputs-not-here]" in done.err
    assert reader.names() == ["src"]
    assert reader.pulled("src").code == 0
    assert reader.pulled("out").code == 0
    assert workspace(reader.project).open(DatasetAlias.parse("out")) is not None


def test_only_steps_that_are_new_are_run_again(owner: Inside, tmp_path: Path) -> None:
    reader = reading(owner, tmp_path)
    assert reader.pulled("src").code == 0
    assert reader("pull", "hub/out").code == 0
    (owner.project / "data" / "2.csv").write_text("t,k,v\n2024-01-05,z,9\n", "utf-8")
    assert owner("apply", "-y", "src", "out").code == 0
    assert owner("push", "src", "out").code == 0
    assert reader.pulled("src").code == 0
    done = reader.pulled("out")
    assert done.code == 0, done.err
    assert dataset(reader.project, "out").head() == dataset(owner.project, "out").head()
