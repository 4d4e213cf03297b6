"""Diagnostics of the language server: those of a check, of the texts that an editor shows."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.diagnostics import diagnostics_by_file
from odfbuild.cli.editor.positions import DocumentText
from odfbuild.cli.editor.project import EditedProject
from odfbuild.planner.saved.forms import diagnostic_json
from tests.agreement.random_projects import Drawn
from tests.cli.editor.client import COMMANDS, editor
from tests.support.effort import examples
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import GOOD, derivative, root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project of a root and a derivative of it, in which nothing is wrong."""
    return lay_out(
        tmp_path / "project",
        {
            "datasets/src.yaml": root(),
            "datasets/out.yaml": derivative(),
            "data/1.csv": GOOD,
        },
    )


def test_an_error_is_shown_while_it_is_typed_and_goes_with_it(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    good = out.read_text("utf-8")
    with editor(folder) as it:
        it.open(out, good.replace("select t, k, v", "select t, k, vv"))
        (found,) = it.codes(out, "unknown-column")
        line = next(n for n, text in enumerate(good.splitlines()) if "select" in text)
        at = good.splitlines()[line].index("select") + len("select t, k, ")
        assert found["range"] == {
            "start": {"line": line, "character": at},
            "end": {"line": line, "character": at + 2},
        }
        assert (found["severity"], found["source"]) == (1, "odfbuild")
        what, why, fix = found["message"].split("\n")
        assert "'vv'" in what
        assert why.startswith("why: ")
        assert "did you mean 'v'?" in fix
        it.change(out, good)
        it.codes(out)
        assert out.read_text("utf-8") == good
        assert it.end() == 0


def test_a_column_that_goes_is_an_error_of_its_readers(folder: Path) -> None:
    source, out = folder / "datasets/src.yaml", folder / "datasets/out.yaml"
    good = source.read_text("utf-8")
    with editor(folder) as it:
        it.open(source, good.replace("v BIGINT", "w BIGINT"))
        it.codes(out, "unknown-column")
        it.change(source, good)
        it.codes(out)
        it.change(source, good.replace("v BIGINT", "w BIGINT"))
        it.codes(out, "unknown-column")
        it.close(source)  # unsaved: the file on the disk counts again
        it.codes(out)


def test_a_renamed_and_a_deleted_file_count_as_soon_as_they_are_reported(folder: Path) -> None:
    source, out = folder / "datasets/src.yaml", folder / "datasets/out.yaml"
    with editor(folder) as it:
        moved = source.rename(source.with_name("other.yaml"))
        moved.write_text(moved.read_text("utf-8").replace("name: src", "name: other"), "utf-8")
        it.notify("workspace/didChangeWatchedFiles", {"changes": [_changed(source, 3)]})
        it.codes(out, "unknown-input")
        moved.write_text(root(), "utf-8")
        it.notify("workspace/didChangeWatchedFiles", {"changes": [_changed(moved, 2)]})
        it.codes(out)
        out.write_text("kind: [\n", "utf-8")
        it.notify("workspace/didChangeWatchedFiles", {"changes": [_changed(out, 2)]})
        it.codes(out, "yaml-syntax")
        out.unlink()
        it.notify("workspace/didChangeWatchedFiles", {"changes": [_changed(out, 3)]})
        it.codes(out)


def _changed(path: Path, how: int) -> dict[str, object]:
    return {"uri": path.as_uri(), "type": how}


def test_files_are_watched_where_the_client_can(folder: Path) -> None:
    watching = {"didChangeWatchedFiles": {"dynamicRegistration": True}}
    with editor(folder, workspace=watching) as it:
        it.open(folder / "datasets/out.yaml", "kind: [\n")
        it.codes(folder / "datasets/out.yaml", "yaml-syntax")
        assert it.end() == 0


def test_a_broken_project_file_is_named_and_the_rest_is_judged(folder: Path) -> None:
    settings, out = folder / "odfbuild.yaml", folder / "datasets/out.yaml"
    with editor(folder) as it:
        it.open(settings, settings.read_text("utf-8") + "gatess: {}\n")
        it.open(out, derivative(query="select t, k, vv from src"))
        it.codes(settings, "config")
        it.change(settings, "odfbuild: [\n")
        it.codes(settings, "yaml-syntax")
        it.change(settings, settings.read_text("utf-8"))
        it.codes(settings)
        it.codes(out, "unknown-column")


def test_several_folders_are_several_projects(folder: Path, tmp_path: Path) -> None:
    other = lay_out(tmp_path / "other", {"datasets/src.yaml": derivative("out", "src")})
    with editor(folder, folder, other) as it:
        it.codes(other / "datasets/src.yaml", "unknown-input")
        broken = folder / "datasets/out.yaml"
        it.open(broken, "kind: [\n")
        it.codes(broken, "yaml-syntax")
        gone = {"uri": other.as_uri(), "name": "other"}
        it.notify(
            "workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [gone]}}
        )
        it.codes(other / "datasets/src.yaml")


@pytest.mark.parametrize(
    ("asked", "size"),
    [(None, 2), (["utf-16"], 2), (["utf-8", "utf-16"], 4), (["utf-32"], 1)],
)
def test_positions_count_in_the_units_that_were_agreed_on(
    folder: Path, asked: list[str] | None, size: int
) -> None:
    out = folder / "datasets/out.yaml"
    text = derivative(query="select t, k, '\U0001f600\U00010348' as e, vv from src")
    general = {} if asked is None else {"positionEncodings": asked}
    with editor(folder, general=general) as it:
        it.open(out, text)
        (found,) = it.codes(out, "unknown-column")
        line = next(each for each in text.splitlines() if "select" in each)
        assert found["range"]["start"]["character"] == line.index("vv") + 2 * (size - 1)
        assert found["range"]["end"]["character"] == line.index("vv") + 2 * (size - 1) + 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize(
    "before",
    [
        "https://user:hunter2hunter2@h.example/x",
        "https://h.example/x?token=abcdefabcdefabcdef",
        "https://\U0001f600.example/\u202e?password=hunter2hunter2&é=\U0001f600",
        "https://a:bcdefghij@h.example/" + "x" * 3000,
        "https://h.example/" + "\U0001f600" * 50,
    ],
)
def test_places_behind_what_is_blanked_are_those_in_the_text(
    folder: Path, before: str, encoding: str
) -> None:
    source = folder / "datasets/src.yaml"
    text = root(fetch=f"{{kind: Url, url: '{before}', nope: 1}}")
    project = EditedProject(folder, ProjectArguments(), COMMANDS)
    found = project.report({str(source): text.encode()})
    shown = diagnostics_by_file(
        found, lambda file: (folder / file).as_uri(), lambda _, __: None, encoding
    )
    (wrong,) = (e for e in shown["datasets/src.yaml"] if e.code == "unknown-field")
    document = DocumentText(text, encoding)
    start, end = map(document.offset, (wrong.range.start, wrong.range.end))
    assert text[start:end] == "nope"
    assert "hunter2" not in wrong.message


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_may_end_as_they_do_elsewhere(folder: Path, end: str) -> None:
    out = folder / "datasets/out.yaml"
    text = derivative(query="select t, k, vv from src")
    line = next(n for n, each in enumerate(text.splitlines()) if "select" in each)
    out.write_bytes(text.replace("\n", end).encode())
    with editor(folder) as it:
        (found,) = it.codes(out, "unknown-column")
        assert found["range"]["start"]["line"] == line
        it.open(out, "\ufeff# one more line\n".replace("\n", end) + text.replace("\n", end))
        it.open(folder / "datasets/two.yaml", "kind: [\n")
        it.codes(folder / "datasets/two.yaml", "yaml-syntax")
        (found,) = it.codes(out, "unknown-column")
        assert found["range"]["start"]["line"] == line + 1


def test_other_places_that_a_message_names_are_related(folder: Path) -> None:
    twice = lay_out(folder, {"datasets/two.yaml": root()})
    with editor(folder) as it:
        it.open(folder / "datasets/src.yaml")
        (found,) = it.codes(twice / "datasets/two.yaml", "duplicate-name")
        (other,) = found["relatedInformation"]
        assert other["location"]["uri"] == (folder / "datasets/src.yaml").as_uri()
        assert other["location"]["range"]["start"] == {"line": 3, "character": 8}


def test_nothing_is_written_and_no_engine_is_started(project: Path) -> None:
    before = _everything(project)
    out = project / "datasets/out.yaml"
    with editor(project) as it:
        it.open(out, derivative(query="select t, k, vv from src"))
        it.codes(out, "unknown-column")
        children = Path(f"/proc/{it.process.pid}/task/{it.process.pid}/children").read_text()
        assert children == ""
        assert it.end() == 0
    assert _everything(project) == before


def _everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(each.relative_to(folder)): (each.stat().st_mtime_ns, each.read_bytes())
        for each in folder.rglob("*")
        if each.is_file()
    }


@pytest.mark.parametrize("seed", range(examples(4, 400)))
def test_diagnostics_are_those_of_a_check_of_the_same_files_saved(
    seed: int, tmp_path: Path
) -> None:
    random, drawn = Random(f"editor {seed}"), _Ingested(seed)
    saved, shown = lay_out(tmp_path / "saved", {}), lay_out(tmp_path / "shown", {})
    project = EditedProject(shown, ProjectArguments(), COMMANDS)
    unsaved: dict[str, bytes] = {}
    for _ in range(5):
        for name, content in _with_slips(drawn, random).items():
            _put(saved / name, content)
            path = shown / name
            unsaved.pop(str(path), None)
            if content is None or name.startswith("data/") or random.random() < 0.4:
                _put(path, content)
            elif content != (path.read_bytes() if path.exists() else None):
                unsaved[str(path)] = content
        found = [diagnostic_json(each) for each in project.report(unsaved).found]
        checked = odfbuild("check", "-o", "json", cwd=saved)
        findings = json.loads(checked.out)["findings"]
        assert [each for each in found if each in findings] == findings, checked.err
        if random.random() < 0.2:
            _ingest(drawn, saved, shown)
        if random.random() < 0.9:
            drawn.changed()


class _Ingested(Drawn):
    """A project whose roots need no engine of queries to be ingested, if they have no query."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"engine": {"ingest": "arrow"}}


def _ingest(drawn: Drawn, saved: Path, shown: Path) -> None:
    """Give both folders the chains that the roots have now, as far as they are right."""
    for name, each in drawn.definitions().items():
        if each["content"]["kind"] == "Root" and "preprocess" not in json.dumps(each):
            odfbuild("apply", "--yes", "--select", name, cwd=saved)
    shutil.rmtree(shown / ".odfbuild", ignore_errors=True)
    if (saved / ".odfbuild").exists():
        shutil.copytree(saved / ".odfbuild", shown / ".odfbuild")


def _with_slips(drawn: Drawn, random: Random) -> dict[str, bytes | None]:
    """Return the files of a project, some of which are as in the middle of writing."""
    files = dict(drawn.laid_out())
    for name, content in files.items():
        if content is None or name.startswith("data/") or random.random() < 0.7:
            continue
        at = random.randrange(len(content))
        slip = random.choice((b"", b"x", b"\n", b'"', b"{", "\U0001f600".encode()))
        files[name] = content[:at] + slip + content[at + random.choice((0, 1, 5)) :]
        if random.random() < 0.2:
            files[name] = content[:at]
    return files


def _put(path: Path, content: bytes | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)
