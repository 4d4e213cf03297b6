"""Findings of the gate in an editor: where they are, what accepts them, and what they rest on."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.project import EditedProject
from odfbuild.cli.editor.workspace import EditedWorkspace, KnownChains
from odfbuild.state.workspace import ReadOnlyWorkspace
from tests.agreement.outcome import run_inside
from tests.app.plan.drawn_projects import DrawnProject
from tests.cli.editor.client import COMMANDS, Editor, editor
from tests.support.effort import examples
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import GOOD, derivative, root

_SETTINGS = "odfbuild: 1\nengine: {ingest: arrow}\n"


def _out(query: str = "select t, k, v from src") -> str:
    return derivative(query=query, engine="datafusion")


_LESS = _out("select t, k from src")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project of a root and a derivative of it, both with rows."""
    files = {"datasets/src.yaml": root(), "datasets/out.yaml": _out(), "data/1.csv": GOOD}
    project = lay_out(tmp_path / "project", {"odfbuild.yaml": _SETTINGS, **files})
    assert odfbuild("apply", "--yes", cwd=project).code == 0
    return project


def _acceptances(it: Editor, path: Path, found: dict[str, Any]) -> list[dict[str, Any]]:
    asked = {
        "textDocument": {"uri": path.as_uri()},
        "range": found["range"],
        "context": {"diagnostics": []},  # as an editor that keeps nothing of what it was sent
    }
    return [e for e in it.ask("textDocument/codeAction", asked) if e["title"].startswith("Accept")]


def _edited(text: str, edit: dict[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    start, end = (edit["range"][each] for each in ("start", "end"))

    def offset(at: dict[str, int]) -> int:
        return sum(map(len, lines[: at["line"]])) + at["character"]

    return f"{text[: offset(start)]}{edit['newText']}{text[offset(end) :]}"


@pytest.mark.parametrize("kept", ["", "\n# é 😀\nvars: {a: {type: string, default: b}}\n"])
def test_a_finding_is_accepted_as_by_the_command(folder: Path, tmp_path: Path, kept: str) -> None:
    out, settings = folder / "datasets/out.yaml", folder / "odfbuild.yaml"
    settings.write_text(settings.read_text("utf-8") + kept, "utf-8")
    with editor(folder) as it:
        it.open(out)
        it.open(settings)
        it.change(out, _LESS)
        (found,) = it.codes(out, "ODF201")
        assert found["severity"] == 1
        assert "select t, k from src" in _LESS.split("\n")[found["range"]["start"]["line"]]
        (action,) = _acceptances(it, out, found)
        assert "ODF201 of out, column v until 20" in action["title"]
        ((uri, (edit,)),) = action["edit"]["changes"].items()
        assert uri == settings.as_uri()
        after = _edited(settings.read_text("utf-8"), edit)
        it.change(settings, after)
        it.codes(out)
        it.change(out, _out())
        it.codes(settings, "ODF402")  # it matches nothing any more

    same = tmp_path / "same"
    shutil.copytree(folder, same)
    assert odfbuild("accept", "ODF201", "out", "--column", "v", cwd=same).code == 0
    assert (same / "odfbuild.yaml").read_text("utf-8") == after


def test_a_byte_order_mark_that_the_editor_shows_is_kept(folder: Path) -> None:
    out, settings = folder / "datasets/out.yaml", folder / "odfbuild.yaml"
    shown = "\ufeff{odfbuild: 1, engine: {ingest: arrow}}\n"
    with editor(folder) as it:
        it.open(settings, shown)
        it.open(out, _LESS)
        (found,) = it.codes(out, "ODF201")
        (action,) = _acceptances(it, out, found)
        ((_, (edit,)),) = action["edit"]["changes"].items()
        settings.write_text(shown, "utf-8")
        assert odfbuild("accept", "ODF201", "out", "--column", "v", cwd=folder).code == 0
        assert _edited(shown, edit) == settings.read_text("utf-8")


def test_a_column_with_a_dot_in_its_name_is_no_part_of_another(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    lay_out(folder, {"datasets/out.yaml": _out('select t, k, v, v as "a.b" from src')})
    assert odfbuild("rebuild", "out", "--full", "--yes", cwd=folder).code == 0
    with editor(folder) as it:
        it.open(out, _out())
        (found,) = it.codes(out, "ODF201")
        (action,) = _acceptances(it, out, found)
        assert "ODF201 of out, column a.b until" in action["title"]


_MADE = """
generate:
  made:
    template: common/templates/made.yaml.j2
    for_each: {a: v}
    name: "made.{{ each.key }}"
"""


def _with_package(at: Path, package: str) -> tuple[Path, Path]:
    """Return a project with a dataset of a template in a package, applied, and the template."""
    settings = f"{_SETTINGS}packages: [{{path: {package}, name: common}}]{_MADE}"
    template = Path(os.path.normpath(at / package / "templates/made.yaml.j2"))
    text = _out("select t, k, {{ each.value }} as v from src").replace("  name: out\n", "")
    lay_out(at, {"odfbuild.yaml": settings, "datasets/src.yaml": root(), "data/1.csv": GOOD})
    lay_out(template.parents[1], {"odfbuild.yaml": "odfbuild: 1\n", "templates/made.yaml.j2": text})
    assert odfbuild("apply", "--yes", cwd=at).code == 0
    return at, template


@pytest.mark.parametrize("package", ["inside/common", "../common"])
def test_a_finding_in_a_file_of_a_package_is_of_its_project(tmp_path: Path, package: str) -> None:
    at, template = _with_package(tmp_path / "project", package)
    text = template.read_text("utf-8")
    with editor(at) as it:
        it.open(template, text.replace("k, ", ""))
        (found,) = it.codes(template, "ODF201")
        (action,) = _acceptances(it, template, found)
        assert "ODF201 of made.a, column k" in action["title"]
        assert list(action["edit"]["changes"]) == [(at / "odfbuild.yaml").as_uri()]
        it.change(template, text)
        it.codes(template)


def test_projects_with_the_same_package_show_findings_of_each(tmp_path: Path) -> None:
    projects = [_with_package(tmp_path / name, "../common") for name in ("one", "other")]
    template = projects[0][1]
    text = template.read_text("utf-8").replace("k, ", "")
    with editor(tmp_path, *(at for at, _ in projects)) as it:
        it.open(template, text)
        it.codes(template, "ODF201", "ODF201")
        entry = "accept: [{code: ODF201, dataset: made.a, column: k, until: 2999-01-01}]\n"
        settings = projects[0][0] / "odfbuild.yaml"
        it.open(settings, settings.read_text("utf-8") + entry)
        (found,) = it.codes(template, "ODF201")
        (action,) = _acceptances(it, template, found)
        assert list(action["edit"]["changes"]) == [(projects[1][0] / "odfbuild.yaml").as_uri()]


def test_findings_of_the_gate_stay_while_others_come_and_go(folder: Path) -> None:
    out, two = folder / "datasets/out.yaml", folder / "datasets/two.yaml"
    with editor(folder) as it:
        it.open(out, _LESS)
        it.codes(out, "ODF201")
        began = len(it.history)
        it.open(two, root("two") + "nope: 1\n")
        it.codes(two, "unknown-field")
        it.change(out, f"{_LESS}# more\n")
        it.change(two, root("two"))
        it.codes(two)
        assert all("ODF201" in codes for uri, codes in it.history[began:] if uri == out.as_uri())
        it.change(out, _out())
        it.codes(out)


def test_errors_of_the_settings_are_gone_with_their_cause(folder: Path) -> None:
    settings = folder / "odfbuild.yaml"
    entry = "accept: [{code: ODF201, dataset: gone, until: 2999-01-01}]\n"
    with editor(folder) as it:
        it.open(settings, "odfbuild: [\n")
        it.codes(settings, "yaml-syntax")
        began = len(it.history)
        it.change(settings, _SETTINGS + entry)
        it.codes(settings, "idle-acceptance")
        assert all("yaml-syntax" not in codes for _, codes in it.history[began:])


def test_an_expired_acceptance_is_renewed(folder: Path) -> None:
    out, settings = folder / "datasets/out.yaml", folder / "odfbuild.yaml"
    entry = "accept: [{code: ODF201, dataset: out, column: v, until: 2020-01-01}]\n"
    settings.write_text(settings.read_text("utf-8") + entry, "utf-8")
    with editor(folder) as it:
        it.open(out, _LESS)
        (found,) = it.codes(out, "ODF201")
        (action,) = _acceptances(it, out, found)
        ((_, (edit,)),) = action["edit"]["changes"].items()
        it.open(settings, _edited(settings.read_text("utf-8"), edit))
        it.codes(out)
        out.unlink()
        it.close(out)
        it.codes(settings, "idle-acceptance")  # which also is an unused one


def test_what_no_acceptance_lets_pass_is_an_error_without_one(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    with editor(folder) as it:
        it.open(out, root("out"))
        (found,) = it.codes(out, "kind-changed")
        assert _acceptances(it, out, found) == []


_PLAN = ("plan", "--metadata-only", "--refresh", "off", "-o", "json")


@pytest.mark.parametrize("seed", range(6000, 6000 + examples(2, 400)))
def test_objections_are_those_of_a_plan_of_the_same_files_saved(seed: int, tmp_path: Path) -> None:
    """Half of the texts are saved in one folder and open in an editor in the other."""
    random, drawn = Random(f"gate {seed}"), DrawnProject(seed)
    saved, shown = lay_out(tmp_path / "saved", drawn.files()), tmp_path / "shown"
    run_inside(saved, "apply", "--yes")  # of a drawn query a step may fail
    shutil.copytree(saved, shown)
    project = EditedProject(shown, ProjectArguments(), COMMANDS)
    for _ in range(6):
        drawn.edit()
        lay_out(saved, drawn.files())
        unsaved = {
            str(shown / name): text.encode()
            for name, text in drawn.files().items()
            if name.endswith(".yaml") and random.random() < 0.7
        }
        lay_out(shown, {n: t for n, t in drawn.files().items() if str(shown / n) not in unsaved})
        report = project.report(unsaved)
        hits = {(h.code, str(h.dataset), h.column, h.judged.value, h.message) for h in report.hits}
        plan = json.loads(run_inside(saved, *_PLAN).out)
        if "datasets" in plan:
            assert hits == set(_objections(plan))


def _objections(plan: dict[str, Any]) -> Iterator[tuple[str, str, str | None, str, str]]:
    for each in plan["datasets"]:
        for hit in each["rules"]:
            if hit["judged"] in ("refused", "expired", "warned"):
                yield tuple(hit[e] for e in ("code", "dataset", "column", "judged", "message"))


def test_nothing_is_written_but_answers_of_the_engine(folder: Path) -> None:
    def everything() -> dict[Path, tuple[int, bytes]]:
        found = (each for each in folder.rglob("*") if each.is_file())
        files = [each for each in found if not each.name.startswith("answers.sqlite")]
        return {each: (each.stat().st_mtime_ns, each.read_bytes()) for each in files}

    before, out = everything(), folder / "datasets/out.yaml"
    with editor(folder) as it:
        it.open(out, _LESS)
        (found,) = it.codes(out, "ODF201")
        assert len(_acceptances(it, out, found)) == 1
        it.change(out, _out("select t, k, v as w from src"))
        it.codes(out, "ODF202")
        assert it.end() == 0
    assert everything() == before


def test_a_workspace_is_as_it_is_on_disk_whoever_changed_it(folder: Path, tmp_path: Path) -> None:
    at = folder / ".odfbuild"
    for seed in range(examples(3, 60)):
        shutil.rmtree(at, ignore_errors=True)
        assert odfbuild("apply", "--metadata-only", "--yes", cwd=folder).code == 0
        known, random, away = KnownChains(), Random(f"workspace {seed}"), tmp_path / f"away{seed}"
        for _ in range(8):
            change = random.choice(tuple(_CHANGES))
            change(folder, random, away)
            for _ in range(2):
                mine, plain = EditedWorkspace(at, known), ReadOnlyWorkspace(at)
                states = plain.states()
                assert mine.states() == states, (seed, change)
                assert mine.names() == plain.names()
                damage = {key: str(each) for key, each in plain.damage().items()}
                assert {key: str(each) for key, each in mine.damage().items()} == damage


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(each for each in (folder / ".odfbuild").glob(pattern) if each.is_file())


def _define(folder: Path, random: Random, away: Path) -> None:
    query = f"select t, k, v + {random.randrange(99)} as v from src"
    lay_out(folder, {"datasets/out.yaml": _out(query)})
    if not away.exists():
        odfbuild("apply", "--metadata-only", "--yes", "--gate", "off", cwd=folder)


def _undo(folder: Path, random: Random, away: Path) -> None:
    if not away.exists():
        odfbuild("reset", random.choice(("out", "src")), "--yes", cwd=folder)


def _damage(folder: Path, random: Random, away: Path) -> None:
    """Damage a name or a head, or put back what was damaged."""
    if away.exists():
        place = Path(json.loads(away.read_text("utf-8"))[0])
        place.write_text(json.loads(away.read_text("utf-8"))[1], "ascii")
        away.unlink()
        return
    found = [*_files(folder, "names/*"), *_files(folder, "datasets/*/refs/head")]
    if found:
        place = random.choice(found)
        away.write_text(json.dumps([str(place), place.read_text("ascii")]), "utf-8")
        place.write_text("no head\n", "ascii") if random.random() < 0.5 else place.unlink()


def _swap(folder: Path, random: Random, away: Path) -> None:
    """Exchange the ids of two names."""
    names = _files(folder, "names/*")
    if len(names) == 2 and not away.exists():
        (one, first), (two, second) = ((e, e.read_text("ascii").split("\n")) for e in names)
        for each, text, other in ((one, first, second), (two, second, first)):
            draft = each.with_name(".draft")
            draft.write_text("\n".join([other[0], *text[1:]]), "ascii")
            draft.rename(each)


_CHANGES = (_define, _undo, _damage, _swap)
