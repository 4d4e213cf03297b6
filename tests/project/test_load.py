"""Projects: good ones give datasets in order; bad ones give every problem, at its place."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import Level, ProjectErrors
from odfbuild.odf.events import SetPollingSource, SetTransform, SqlQueryStep
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.files import MAX_BYTES
from odfbuild.project.load import Project, load_project
from odfbuild.project.read import read_manifests

HERE = Path(__file__).parent
MANIFESTS = sorted((HERE / "bad").glob("*.yaml"))
SETTINGS = sorted((HERE / "config" / "bad_settings").glob("*.yaml"))
GRAPHS = sorted(each for each in (HERE / "bad_graphs").iterdir() if each.is_dir())

Golden = Callable[[Path, str], None]

EMPTY = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata: []
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
        - datasetRef: {ref}
      transform:
        kind: Sql
        engine: spark
        query: select * from x
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\nname: test\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / "datasets" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def names(project: Project) -> list[str]:
    return [str(each.alias) for each in project.declared]


def problems(root: Path) -> str:
    with pytest.raises(ProjectErrors) as caught:
        load_project(root)
    return render_diagnostics(caught.value.diagnostics()) + "\n"


@pytest.mark.parametrize("case", MANIFESTS, ids=lambda case: case.stem)
def test_a_bad_manifest_is_explained_at_its_place(root: Path, case: Path, golden: Golden) -> None:
    shutil.copy(case, root / "datasets" / "a.yaml")
    golden(case.with_suffix(".txt"), problems(root))


@pytest.mark.parametrize("case", SETTINGS, ids=lambda case: case.stem)
def test_bad_settings_are_explained_at_their_place(root: Path, case: Path, golden: Golden) -> None:
    shutil.copy(case, root / "odfbuild.yaml")
    golden(case.with_suffix(".txt"), problems(root))


@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: case.stem)
def test_datasets_that_do_not_fit_together_are_explained(
    root: Path, case: Path, golden: Golden
) -> None:
    shutil.copytree(case, root / "datasets", dirs_exist_ok=True)
    golden(case.with_suffix(".txt"), problems(root))


def test_datasets_come_in_an_order_in_which_they_can_be_made(root: Path) -> None:
    write(root, "a.yaml", READER.format(name="a", ref="b"))
    write(root, "z/b.yml", READER.format(name="b", ref="C"))
    write(root, "c.yaml", EMPTY.format(name="c") + "---\n" + EMPTY.format(name="d") + "---\n")
    project = load_project(root)
    assert names(project) == ["c", "d", "b", "a"]
    assert [(each.file, each.document) for each in project.declared] == [
        ("datasets/c.yaml", 0),
        ("datasets/c.yaml", 1),
        ("datasets/z/b.yml", 0),
        ("datasets/a.yaml", 0),
    ]


def test_a_declared_dataset_knows_where_its_parts_are_written(root: Path) -> None:
    write(root, "a.yaml", EMPTY.format(name="b") + "---\n" + READER.format(name="a", ref="b"))
    (_, reader) = load_project(root).declared
    query = ("metadata", 0, "transform", "query")
    assert str(reader.span()) == "datasets/a.yaml:11:9"
    assert str(reader.span(query)) == "datasets/a.yaml:20:16"
    assert str(reader.key_span(query)) == "datasets/a.yaml:20:9"
    assert str(reader.span_inside(query, "select * from x", 14)) == "datasets/a.yaml:20:30"
    assert str(reader.span(("metadata", 7))) == "datasets/a.yaml:14:5"


def test_a_dataset_is_kept_as_written_and_in_normal_form(root: Path) -> None:
    write(root, "a.yaml", EMPTY.format(name="b") + "---\n" + READER.format(name="a", ref="b"))
    (_, reader) = load_project(root).declared
    (written,), (normal,) = reader.written.metadata, reader.snapshot.metadata
    assert isinstance(written, SetTransform)
    assert isinstance(normal, SetTransform)
    assert (written.inputs[0].alias, normal.inputs[0].alias) == (None, "b")
    assert (written.transform.query, normal.transform.query) == ("select * from x", None)
    assert normal.transform.queries == (SqlQueryStep(query="select * from x"),)


def test_a_project_without_definitions_is_no_error(root: Path) -> None:
    assert load_project(root).declared == ()


def test_a_root_without_a_source_is_no_error(root: Path) -> None:
    write(root, "a.yaml", EMPTY.format(name="a"))
    assert names(load_project(root)) == ["a"]


def test_a_definition_may_be_commented_out(root: Path) -> None:
    write(root, "a.yaml", "".join(f"# {line}\n" for line in EMPTY.splitlines()))
    assert load_project(root).declared == ()


def test_inputs_may_be_in_the_workspace_only(root: Path) -> None:
    known = {DatasetAlias.parse("Pulled"): DatasetId(bytes(32))}
    write(root, "a.yaml", READER.format(name="a", ref="pulled"))
    write(root, "b.yaml", READER.format(name="b", ref=DatasetId(bytes(32))))
    assert names(load_project(root, known=known)) == ["a", "b"]


def test_hidden_and_foreign_files_are_passed_over(root: Path) -> None:
    write(root, ".draft.yaml", "x")
    write(root, ".git/a.yaml", "x")
    write(root, "README.md", "x")
    write(root, "query.sql", "x")
    assert load_project(root).declared == ()


def test_the_whole_project_may_be_the_folder_of_definitions(root: Path) -> None:
    (root / "odfbuild.yaml").write_text("odfbuild: 1\ndatasets: [., datasets]\n")
    (root / ".odfbuild").mkdir()
    (root / ".odfbuild" / "x.yaml").write_text("x")
    (root / "a.yaml").write_text(EMPTY.format(name="a"))
    write(root, "b.yaml", EMPTY.format(name="b"))
    assert names(load_project(root)) == ["a", "b"]


def test_a_link_that_leads_nowhere_is_reported(root: Path) -> None:
    (root / "datasets" / "a.yaml").symlink_to("nowhere.yaml")
    assert problems(root).startswith("datasets/a.yaml:1:1: error[unreadable-file]")


def test_bytes_of_another_encoding_are_reported(root: Path) -> None:
    (root / "datasets" / "a.yaml").write_bytes(b"kind: \xff\xfe")
    assert problems(root).startswith("datasets/a.yaml:1:7: error[yaml-encoding]")


def test_data_in_the_wrong_place_is_not_read(root: Path) -> None:
    with (root / "datasets" / "a.yaml").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert problems(root).startswith("datasets/a.yaml:1:1: error[too-large]")


def test_real_problems_of_two_files_are_told_in_one_go(root: Path) -> None:
    write(root, "b.yaml", "kind: [\n")
    write(root, "a.yaml", EMPTY.format(name="a_b"))
    with pytest.raises(ProjectErrors) as caught:
        load_project(root)
    assert [str(each.span).split(":")[0] for each in caught.value.found] == [
        "datasets/a.yaml",
        "datasets/b.yaml",
    ]


POLLED = """\
kind: DatasetSnapshot
version: 1
content:
  name: a
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: Url, url: "URL"}
      read: {kind: Csv, schema: [event-time TIMESTAMP, city STRING, pop INT]}
      preprocess: {kind: Sql, engine: spark, query: select * from input}
      merge: {kind: Snapshot, primaryKey: [anything]}
"""


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.csv",
        "HTTP://example.org/a.csv",
        "file:data/a.csv",
        "${{ env.SOURCE }}/a.csv",
    ],
)
def test_urls_that_can_be_fetched_are_accepted(url: str) -> None:
    found = read_manifests(POLLED.replace("URL", url).replace("event-time", "time"), "a.yaml")
    assert (found.errors, found.notes, len(found.declared)) == ([], [], 1)


def test_a_preprocess_query_may_make_any_column() -> None:
    text = POLLED.replace("URL", "https://example.org").replace("event-time", "offset")
    assert read_manifests(text, "a.yaml").errors == []


def test_a_preprocess_query_is_normalized_as_well() -> None:
    text = POLLED.replace("URL", "https://example.org").replace("event-time", "time")
    (declared,) = read_manifests(text, "a.yaml").declared
    (source,) = declared.snapshot.metadata
    assert isinstance(source, SetPollingSource)
    assert source.preprocess is not None
    assert source.preprocess.queries == (SqlQueryStep(query="select * from input"),)


def test_an_event_time_that_is_nearly_named_is_worth_a_warning(root: Path) -> None:
    text = POLLED.replace("URL", "https://example.org").replace("event-time", "eventtime")
    lines = [line for line in text.splitlines(keepends=True) if "preprocess" not in line]
    write(root, "a.yaml", "".join(lines).replace("anything", "city"))
    (note,) = load_project(root).notes
    assert (note.code, note.level) == ("event-time-column", Level.WARNING)
    assert "'eventtime'" in note.fix


def test_an_event_time_that_is_nearly_a_column_is_refused_where_it_is_named(root: Path) -> None:
    text = POLLED.replace("URL", "https://example.org").replace("event-time", "reported")
    lines = [line for line in text.splitlines(keepends=True) if "preprocess" not in line]
    lines += ["    - kind: SetVocab\n", "      eventTimeColumn: reporte\n"]
    write(root, "a.yaml", "".join(lines).replace("anything", "city"))
    with pytest.raises(ProjectErrors) as caught:
        load_project(root)
    (found,) = caught.value.found
    assert (found.code, found.fix) == ("event-time-column", "did you mean 'reported'?")
    assert found.span is not None
    assert found.span.line == len(lines)


def test_a_derivative_without_a_transform_is_worth_a_warning(root: Path) -> None:
    write(root, "a.yaml", EMPTY.format(name="a").replace("Root", "Derivative"))
    (note,) = load_project(root).notes
    assert (note.code, str(note.span)) == ("no-transform", "datasets/a.yaml:5:9")


PIECES = st.sampled_from(
    [
        line + "\n"
        for case in MANIFESTS
        for line in case.read_text("utf-8").splitlines()
        if len(line) < 100
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_mix_of_lines_gives_datasets_or_findings(text: str) -> None:
    try:
        found = read_manifests(text, "a.yaml")
    except ProjectErrors as errors:
        assert all(each.span is not None for each in errors.found)
    else:
        assert all(each.span is not None for each in (*found.errors, *found.notes))


GOOD = [
    EMPTY.format(name="a"),
    READER.format(name="a", ref="b"),
    POLLED.replace("URL", "https://example.org"),
]


@given(st.sampled_from(GOOD), st.data())
def test_a_change_of_one_place_gives_datasets_or_findings(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 12))
    new = data.draw(st.sampled_from(["", " ", "\n", "x", "1", "[", "~", "- ", "{}", ": ", "'"]))
    try:
        read_manifests(text[:at] + new + text[at + gone :], "a.yaml")
    except ProjectErrors as errors:
        assert errors.found
