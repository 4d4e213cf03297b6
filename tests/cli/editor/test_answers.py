"""Answers of the language server: where names are, what they mean, what may be at a place."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.completion import completions, field_text
from odfbuild.cli.editor.manifest_path import path_at
from odfbuild.cli.editor.positions import DocumentText
from odfbuild.cli.editor.project import EditedProject
from odfbuild.errors import ProjectErrors
from odfbuild.project.yaml import read_documents
from tests.cli.editor.client import COMMANDS, Editor, editor
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import derivative, root

INFO = "    - kind: SetInfo\n      description: 'Prices [of](http://x) <b>things</b>'\n"


of_both_engines = pytest.mark.parametrize("folder", ["spark", "datafusion"], indirect=True)


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a project in which a query of two lines reads a described root."""
    engine = getattr(request, "param", "spark")
    query = "|\n          select t, k, src.v\n          from src"
    return lay_out(
        tmp_path / "project",
        {
            "datasets/src.yaml": root() + INFO,
            "datasets/out.yaml": derivative("out", "src", query, engine=engine),
            "datasets/more.yaml": derivative("more", "src", engine=engine),
        },
    )


def at(path: Path, text: str, word: str, behind: int = 0) -> dict[str, Any]:
    """Return the position of a word in a text that is shown, or of what is so far behind it."""
    offset = text.index(word) + behind
    before = text[:offset]
    line = before.count("\n")
    return {
        "textDocument": {"uri": path.as_uri()},
        "position": {"line": line, "character": len(before) - before.rfind("\n") - 1},
    }


@of_both_engines
def test_a_name_leads_to_its_definition_and_to_all_that_read_it(folder: Path) -> None:
    out, source = folder / "datasets/out.yaml", folder / "datasets/src.yaml"
    text = out.read_text("utf-8")
    with editor(folder) as it:
        it.open(out)
        for word, behind in (("datasetRef: src", 12), ("from src", 6), ("src.v", 4), ("t, k", 0)):
            (found,) = it.ask("textDocument/definition", at(out, text, word, behind))
            assert found["uri"] == source.as_uri()
            assert found["range"]["start"] == {"line": 3, "character": 8}
        assert it.ask("textDocument/definition", at(out, text, "metadata")) == []
        asked = {**at(out, text, "from src", 6), "context": {"includeDeclaration": True}}
        everywhere = it.ask("textDocument/references", asked)
        files = [Path(each["uri"]).name for each in everywhere]
        assert sorted(files) == ["more.yaml"] * 2 + ["out.yaml"] * 2 + ["src.yaml"]
        asked["context"] = {"includeDeclaration": False}
        assert len(it.ask("textDocument/references", asked)) == 4
        # a line more, not saved: places are those of what is shown
        it.change(out, "# a note\n" + text)
        moved = it.ask("textDocument/references", at_more(asked))
        assert {each["range"]["start"]["line"] for each in moved} == {
            each["range"]["start"]["line"] + (Path(each["uri"]).name == "out.yaml")
            for each in everywhere
            if Path(each["uri"]).name != "src.yaml"
        }


def at_more(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the same question one line further down."""
    place = asked["position"]
    return {**asked, "position": {**place, "line": place["line"] + 1}}


@of_both_engines
def test_hovering_shows_columns_descriptions_and_fields(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    text = out.read_text("utf-8")

    def shown(it: Editor, word: str, behind: int = 0) -> str:
        found = it.ask("textDocument/hover", at(out, text, word, behind))
        return "" if found is None else str(found["contents"]["value"])

    with editor(folder) as it:
        it.open(out)
        dataset = shown(it, "datasetRef: src", 12)
        assert dataset.startswith("**src** (Root, datasets/src.yaml)")
        assert "v BIGINT" in dataset
        assert "\\[of\\]\\(http://x\\) \\<b\\>things\\</b\\>" in dataset  # no link, no HTML
        assert shown(it, "src.v", 4) == "`v BIGINT` of src"
        assert "Whether a dataset takes data" in shown(it, "kind: Derivative")
        assert shown(it, "select") == ""


@of_both_engines
def test_a_rename_makes_the_edits_of_mv(folder: Path, tmp_path: Path) -> None:
    out = folder / "datasets/out.yaml"
    text = "# \U0001f600 not saved\n" + out.read_text("utf-8")
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "datasets/out.yaml").write_text(text, "utf-8")
    assert odfbuild("mv", "src", "new.name", cwd=other).code == 0
    with editor(folder) as it:
        it.open(out, text)
        assert it.ask("textDocument/prepareRename", at(out, text, "metadata")) is None
        place = at(out, text, "datasetRef: src", 13)
        found = it.ask("textDocument/prepareRename", place)
        assert found["end"]["character"] - found["start"]["character"] == len("src")
        refused = it.answer("textDocument/rename", {**place, "newName": "no name!"})
        assert "name" in refused["error"]["message"]
        taken = it.answer("textDocument/rename", {**place, "newName": "more"})
        assert "'more' is taken" in taken["error"]["message"]
        changes = it.ask("textDocument/rename", {**place, "newName": "new.name"})["changes"]
        files = ["odfbuild.yaml", *(f"datasets/{n}.yaml" for n in ("src", "out", "more"))]
        assert set(changes) == {(folder / each).as_uri() for each in files}
        for name in files:
            shown = text if name == "datasets/out.yaml" else (folder / name).read_text("utf-8")
            (edit,) = changes[(folder / name).as_uri()]
            lines = shown.splitlines(keepends=True)
            start, end = edit["range"]["start"], edit["range"]["end"]
            assert start["character"] == 0
            rest = "".join(lines[end["line"] :])[end["character"] :]
            made = "".join(lines[: start["line"]]) + edit["newText"] + rest
            assert made == (other / name).read_text("utf-8"), name


@pytest.mark.parametrize(
    ("before", "wanted", "unwanted"),
    [
        ("content:\n  kind: ", {"Root", "Derivative"}, {"root"}),
        ("content:\n  me", {"metadata", "name", "kind"}, {"fetch"}),
        ("content:\n  metadata:\n    - kind: ", {"SetTransform", "SetInfo"}, {"AddData", "Seed"}),
        ("content:\n  metadata:\n  - kind: SetTransform\n    ", {"inputs", "transform"}, {"read"}),
        (
            "content:\n  metadata:\n    - kind: SetPollingSource\n      read:\n        kind: ",
            {"Csv", "Parquet"},
            {"Ledger"},
        ),
        (
            "content:\n  metadata:\n    - kind: SetPollingSource\n      read:\n"
            "        kind: Csv\n        header: ",
            {"true", "false"},
            {"Csv"},
        ),
        ("content:\n  metadata:\n    - inputs:\n        - datasetRef: ", {"src", "out"}, {"Csv"}),
    ],
)
def test_what_may_be_written_is_offered(
    folder: Path, before: str, wanted: set[str], unwanted: set[str]
) -> None:
    new = folder / "datasets/new.yaml"
    text = f"kind: DatasetSnapshot\nversion: 1\n{before}"
    with editor(folder) as it:
        it.open(new, text + "\n")
        found = {
            each["label"]
            for each in it.ask("textDocument/completion", at(new, text + "\n", text, len(text)))
        }
        assert wanted <= found
        assert not unwanted & found


@pytest.mark.parametrize(
    ("file", "text", "wanted", "unwanted"),
    [
        ("tests/data/a.yaml", "checks:\n  - ^", {"not_null: ", "range: ", "on: "}, {"kind: "}),
        ("tests/data/a.yaml", "checks:\n  - range: {col^: a}", {"column", "min"}, {"range"}),
        ("tests/data/a.yaml", "checks:\n  - sql: x\n    on: ^", {"new-rows"}, {"sql"}),
        ("tests/unit/a.yaml", "batches:\n  - inp^:\n", {"inputs"}, {"inputs: "}),
        ("odfbuild.yaml", "gates: {breaking: ^}", {"error", "warn"}, {"breaking"}),
        ("datasets/a.yaml", "{ve^", {"version: "}, {"name: "}),
        ("datasets/a.yaml", "content: {na^ : x}", {"name"}, {"version"}),
        ("datasets/a.yaml", "content: {'na^': x}", {"name"}, {"name: "}),
        ("datasets/a.yaml", "content:\n  kind: {name: ^}", set(), {"name", "name: "}),
        ("datasets/a.yaml", "content:\n  metadata: [{kind: SetVo^", {"SetVocab"}, {"Root"}),
        (
            "datasets/a.yaml",
            "content:\n  metadata:\n    - {kind: SetInfo, ^}",
            {"keywords: "},
            {"inputs: "},
        ),
        ("datasets/a.yaml.j2", "{% for ^ %}", set(), {"kind: "}),
        ("datasets/a.yaml.j2", "x: {{ x }}\nve^", {"version: "}, set()),
    ],
)
def test_a_key_is_offered_as_the_line_needs_it(
    file: str, text: str, wanted: set[str], unwanted: set[str]
) -> None:
    before = text[: text.index("^")].split("\n")
    lines = text.replace("^", "").split("\n")
    found = {
        each.insert_text or each.label
        for each in completions(file, lines, len(before) - 1, len(before[-1]), None)
    }
    assert wanted <= found
    assert not unwanted & found


def _codes(text: str, file: str) -> set[str]:
    try:
        read_documents(text, file)
    except ProjectErrors as errors:
        return {each.code for each in errors.found}
    return set()


def test_what_is_offered_in_place_of_any_name_leaves_yaml() -> None:
    samples = {
        "datasets/a.yaml": root(),
        "datasets/b.yaml": derivative(),
        "tests/data/a.yaml": "dataset: out\nchecks:\n  - range: {column: k}\n    on: state\n",
        "odfbuild.yaml": "odfbuild: 1\ngates: {breaking: warn}\npools: {default: 1}\n",
    }
    accepted = 0
    for file, text in samples.items():
        for name in re.finditer(r"[A-Za-z_]\w*", text):
            for kept in {0, 1, len(name[0])}:
                at = name.start() + kept
                lines = (text[:at] + text[name.end() :]).split("\n")
                before = text[:at].split("\n")
                for each in completions(file, lines, len(before) - 1, len(before[-1]), None)[:4]:
                    put = each.insert_text or each.label
                    assert "yaml-syntax" not in _codes(
                        text[: name.start()] + put + text[name.end() :], file
                    )
                    accepted += 1
    assert accepted > 200


def test_columns_and_functions_are_offered_in_a_query_that_is_not_whole(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    text = out.read_text("utf-8").replace("src.v\n", "src.v, src.\n")
    with editor(folder) as it:
        it.open(out, text)
        found = it.ask("textDocument/completion", at(out, text, "v, src.", 7))
        assert [each["label"] for each in found] == ["t", "k", "v"]
        assert found[2]["detail"] == "v BIGINT of src"
        labels = {
            each["label"] for each in it.ask("textDocument/completion", at(out, text, "v, src.", 3))
        }
        assert {"t", "k", "v", "src", "coalesce", "sum"} <= labels
        assert "java_method" not in labels


@pytest.mark.parametrize("name", ["q.sql", "q.sql.j2"])
@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_a_query_file_is_completed_as_the_query_that_includes_it(
    folder: Path, name: str, engine: str
) -> None:
    query = folder / "sql" / name
    included = derivative("filed", "src", f"!include ../sql/{name}", engine=engine)
    other = "spark" if engine == "datafusion" else "datafusion"
    text = "select t, k, src.v\nfrom src\n"
    lay_out(
        folder,
        {
            "datasets/filed.yaml": included,
            "datasets/a-first.yaml": derivative("a.first", "src", engine=other),
            f"sql/{name}": text,
            "sql/unread.sql": text,
        },
    )
    unread = folder / "sql/unread.sql"
    with editor(folder) as it:
        it.open(query)
        it.open(unread)
        found = it.ask("textDocument/completion", at(query, text, "src.v", 4))
        assert [each["label"] for each in found] == ["t", "k", "v"]
        labels = {
            each["label"] for each in it.ask("textDocument/completion", at(query, text, "k,"))
        }
        assert {"t", "k", "v", "src", "coalesce"} <= labels
        assert ("map_extract" in labels) is (engine == "datafusion")  # Spark has none
        assert ("octet_length" in labels) and not any(each.endswith(": ") for each in labels)
        (place,) = it.ask("textDocument/definition", at(query, text, "from src", 6))
        assert place["uri"] == (folder / "datasets/src.yaml").as_uri()
        assert it.ask("textDocument/completion", at(unread, text, "k,")) == []


def test_columns_of_queries_for_datafusion_are_known_with_their_types(folder: Path) -> None:
    text = "select t, src.s from src"
    query = "select t, k, sum(v) over (partition by k) as s from src"
    lay_out(
        folder,
        {
            "datasets/fast.yaml": derivative("fast", "src", query, engine="datafusion"),
            "datasets/last.yaml": derivative("last", "fast", text, engine="datafusion"),
        },
    )
    last = folder / "datasets/last.yaml"
    text = last.read_text("utf-8")
    with editor(folder) as it:
        it.open(last, text)
        found = it.ask("textDocument/completion", at(last, text, "src.s", 4))
        assert [each["detail"] for each in found][1:] == [
            "k STRING of fast",
            "s BIGINT of fast",
        ]
        shown = it.ask("textDocument/hover", at(last, text, "src.s", 4))
        assert "`s BIGINT` of fast" in str(shown)


def test_datasets_are_offered_where_a_check_takes_them(folder: Path) -> None:
    lay_out(folder, {"datasets/last.yaml": derivative("last", "out")})
    taken = {
        ("datasets/out.yaml", "datasetRef: "): {"src", "more"},  # not itself, not what reads it
        ("datasets/last.yaml", "datasetRef: "): {"src", "out", "more"},
        ("tests/unit/a.yaml", "dataset: "): {"out", "more", "last"},  # fixtures are of derivatives
        ("tests/data/a.yaml", "dataset: "): {"src", "out", "more", "last"},
        ("tests/data/a.yaml", "to: "): {"src", "out", "more", "last"},
    }
    tests = {
        "tests/unit/a.yaml": "dataset: src\nbatches: []\n",
        "tests/data/a.yaml": "dataset: src\nchecks:\n"
        "  - relationship: {column: k, to: src, field: k}\n",
    }
    for (file, key), expected in taken.items():
        path = folder / file
        text = tests[file] if file in tests else path.read_text("utf-8")
        with editor(folder) as it:
            it.open(path, text)
            asked = at(path, text, key, len(key))
            found = {each["label"] for each in it.ask("textDocument/completion", asked)}
            assert found == expected, (file, key)
            start = text.index(key) + len(key)
            end = start + len(re.match(r"\w+", text[start:])[0])  # type: ignore[index]
            unknown = {"unknown-input", "cycle", "unknown-dataset"}
            project = EditedProject(folder, ProjectArguments(), COMMANDS)
            for name in found:
                changed = (text[:start] + name + text[end:]).encode()
                codes = {each.code for each in project.report({str(path): changed}).found}
                assert not codes & unknown, (file, key, name, codes)


@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_a_fix_puts_in_the_name_that_was_meant(folder: Path, engine: str) -> None:
    out = folder / "datasets/out.yaml"
    good = out.read_text("utf-8").replace("engine: spark", f"engine: {engine}")
    assert engine in good
    of_column = "unknown-column" if engine == "spark" else "invalid-query"
    with editor(folder) as it:
        for old, new, code, fixed in (
            ("datasetRef: src", "datasetRef: srcc", "unknown-input", "datasetRef: src"),
            ("k, src.v", "k, src.vv", of_column, "k, src.v"),
            ("k, src.v", "k, abss(v) as v", "unknown-function", "k, abs(v) as v"),
            ("kind: Derivative", "kind: Derivativ", "unknown-value", "kind: Derivative"),
        ):
            if engine == "datafusion" and code == "unknown-function":
                continue  # what such a function is called there is not known to be meant
            text = good.replace(old, new)
            if out.as_uri() in it.versions:
                it.change(out, text)
            else:
                it.open(out, text)
            found = it.codes(out, code)
            asked = {
                "textDocument": {"uri": out.as_uri()},
                "range": found[0]["range"],
                "context": {"diagnostics": found},
            }
            (action,) = it.ask("textDocument/codeAction", asked)
            (edit,) = action["edit"]["changes"][out.as_uri()]
            lines = text.split("\n")
            start, end = edit["range"]["start"], edit["range"]["end"]
            line = lines[start["line"]]
            lines[start["line"]] = (
                line[: start["character"]] + edit["newText"] + line[end["character"] :]
            )
            assert "\n".join(lines) == good.replace(old, fixed)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("{% iff true %}x{% endif %}", "{% if true %}x{% endif %}"),
        ("{{ 'x' | uper }}", "{{ 'x' | upper }}"),
        ("{{ 'x' is strin }}", "{{ 'x' is string }}"),
        ("{{ regio }}", "{{ region }}"),
    ],
)
def test_a_fix_puts_in_the_word_of_a_template(folder: Path, wrong: str, right: str) -> None:
    made = folder / "datasets/made.yaml.j2"
    settings = "odfbuild: 1\nvars: {region: {type: string, default: eu}}\n"
    text = derivative("made", "src", f"select t, k, '\U0001f600' as e, '{wrong}' as x from src")
    lay_out(folder, {"datasets/made.yaml.j2": text, "odfbuild.yaml": settings})
    document = DocumentText(text, "utf-16")
    with editor(folder) as it:
        it.open(made)
        it._await(lambda: it.said.get(made.as_uri()))
        found = it.said[made.as_uri()]
        asked = {"range": found[0]["range"], "context": {"diagnostics": found}}
        (action,) = it.ask(
            "textDocument/codeAction", {"textDocument": {"uri": made.as_uri()}, **asked}
        )
    (edit,) = action["edit"]["changes"][made.as_uri()]
    start, end = (document.offset(Position(**edit["range"][each])) for each in ("start", "end"))
    assert text[:start] + edit["newText"] + text[end:] == text.replace(wrong, right)


@given(st.text("ab:- \n|'#\t{\u2028\U0001f600", max_size=60), st.integers(0, 60))
def test_any_text_has_a_path_and_some_completions(text: str, offset: int) -> None:
    shown = DocumentText(text, "utf-16")
    place = shown.position(min(offset, len(text)))
    assert shown.offset(place) == min(offset, len(text))
    column = shown.offset(place) - shown.source.line_at(place.line)[0]
    path = path_at(shown.rows, place.line, column)
    assert len(path.steps) == len(path.kinds)
    found = completions("datasets/a.yaml", shown.rows, place.line, column, None)
    assert len({each.label for each in found}) == len(found)
    field_text("datasets/a.yaml", shown.rows, place.line, column)


@pytest.mark.parametrize(
    ("text", "steps", "part"),
    [
        ("a:\n  b: x", ("a", "b"), "value"),
        ("a:\n- b: x\n  c", ("a", "-"), "key"),
        ("a:\n  - b:\n      - c: ", ("a", "-", "b", "-", "c"), "value"),
        ("a:\n  query: |\n    select x", ("a", "query"), "block"),
        ("a: 1\n---\nb:\n  c", ("b",), "key"),
        ("", (), "key"),
    ],
)
def test_the_path_of_a_position_is_read_from_indentation(
    text: str, steps: tuple[str, ...], part: str
) -> None:
    lines = text.split("\n")
    found = path_at(lines, len(lines) - 1, len(lines[-1]))
    assert (found.steps, found.part) == (steps, part)
