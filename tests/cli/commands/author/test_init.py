"""odfbuild init: a project that works, laid over nothing."""

import json
from pathlib import Path

import pytest

from odfbuild import __version__
from odfbuild.cli.commands.author.init import TEMPLATES
from tests.support.process.within import Within
from tests.support.projects import REPOSITORY, odfbuild

DATASETS = {"minimal": 2, "etl": 4, "many-datasets": 9, "ci-github": 2, "ci-gitlab": 2}


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_new_project_plans_at_once(tmp_path: Path) -> None:
    done = odfbuild("init", "shop", cwd=tmp_path)
    assert done.code == 0
    assert done.out.splitlines()[-1] == "Next: cd shop; odfbuild plan"
    assert done.err == ""
    planned = odfbuild("plan", cwd=tmp_path / "shop")
    assert planned.code == 0
    assert "2 to add" in planned.out


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_plans_at_once_and_is_well_laid_out(template: str, tmp_path: Path) -> None:
    assert odfbuild("init", ".", "--template", template, cwd=tmp_path).code == 0
    planned = odfbuild("plan", cwd=tmp_path)
    assert (planned.code, planned.err) == (0, "")
    assert f"{DATASETS[template]} to add" in planned.out
    checked = odfbuild("fmt", "--check", cwd=tmp_path)
    assert (checked.code, checked.out) == (0, "")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("template", "name", "rows"),
    [
        ("etl", "shop.payments", 3),
        pytest.param("many-datasets", "markets.rates", 4, marks=pytest.mark.slow),
    ],
)
def test_larger_templates_build_what_they_say(
    template: str,
    name: str,
    rows: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Within(tmp_path, capsys, monkeypatch)
    assert ask("init", ".", "--template", template).code == 0
    applied = ask("apply", "--yes")
    assert applied.code == 0, applied.err
    assert len(json.loads(ask("show", name, "-o", "json").out)) == rows
    assert ask("plan").out.startswith("No changes.")


@pytest.mark.parametrize("template", ["ci-github", "ci-gitlab"])
def test_what_ci_needs_is_pinned_from_the_start(template: str, tmp_path: Path) -> None:
    odfbuild("init", ".", "--template", template, cwd=tmp_path)
    lines = (tmp_path / "requirements.in").read_text().splitlines()
    assert [each for each in lines if not each.startswith("#")] == [f"odfbuild=={__version__}"]
    assert odfbuild("check", "--locked", cwd=tmp_path).code == 0


def test_every_folder_of_templates_is_laid_out_by_some() -> None:
    folders = {path.name for path in (REPOSITORY / "project_template").iterdir()}
    assert folders == {layer for layers in TEMPLATES.values() for layer in layers}


def test_a_template_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = odfbuild("init", "--template", "elt", cwd=tmp_path)
    assert done.code == 1
    assert "error[unknown-template]" in done.err
    assert "did you mean 'etl'?" in done.err
    assert files(tmp_path) == {}


def test_what_is_laid_out_is_what_is_told(tmp_path: Path) -> None:
    done = odfbuild("init", cwd=tmp_path)
    told = {line.strip() for line in done.out.splitlines()[:-1]}
    assert told == set(files(tmp_path))
    assert done.out.splitlines()[-1] == "Next: odfbuild plan"


def test_folders_are_made_as_needed(tmp_path: Path) -> None:
    assert odfbuild("init", "a/b/c", cwd=tmp_path).code == 0
    assert (tmp_path / "a" / "b" / "c" / "odfbuild.yaml").is_file()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    odfbuild("init", cwd=tmp_path)
    (tmp_path / "odfbuild.yaml").write_text("mine")
    before = files(tmp_path)
    done = odfbuild("init", cwd=tmp_path)
    assert done.code == 1
    assert "error[already-there]" in done.err
    assert "odfbuild init DIR" in done.err
    assert files(tmp_path) == before


def test_one_file_in_the_way_stops_all(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "orders.yaml").write_text("mine")
    assert odfbuild("init", cwd=tmp_path).code == 1
    assert files(tmp_path) == {"datasets/orders.yaml": b"mine"}


def test_other_files_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert odfbuild("init", cwd=tmp_path).code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = odfbuild("init", "taken", cwd=tmp_path)
    assert done.code == 1
    assert "error[" in done.err
    assert "Traceback" not in done.err
