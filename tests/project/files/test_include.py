"""Included files: their text is the value, and places in it are places in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.odf.events import SetTransform
from odfbuild.planner.declared import Declared
from odfbuild.project.load import load_project
from tests.project.templated import NAMED, SETTINGS, lay_out

READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: in}}]
      transform:
        kind: Sql
        engine: spark
        query: !include {path}
"""
ROOT = {"datasets/in.yaml": NAMED.format(name="in", text="x")}
QUERY = ("metadata", 0, "transform", "query")


def reader(root: Path, files: dict[str, str]) -> Declared:
    """Return the dataset of a project that reads another."""
    lay_out(root, {**ROOT, **files})
    return load_project(root).declared[1]


def query(declared: Declared) -> str | None:
    (event,) = declared.written.metadata
    assert isinstance(event, SetTransform)
    return event.transform.query


def test_the_text_of_a_file_is_the_value(tmp_path: Path) -> None:
    found = reader(
        tmp_path,
        {
            "datasets/deep/a.yaml": READER.format(name="a", path="../../sql/deep/q.sql"),
            "sql/deep/q.sql": "select *\nfrom `in` -- {{ no template }}\n",
        },
    )
    assert query(found) == "select *\nfrom `in` -- {{ no template }}\n"
    assert str(found.span(QUERY)) == "datasets/deep/a.yaml:12:25"


def test_a_place_inside_is_a_place_in_the_file(tmp_path: Path) -> None:
    text = "select *\nfrom `in`\n"
    found = reader(
        tmp_path, {"datasets/a.yaml": READER.format(name="a", path="q.sql"), "datasets/q.sql": text}
    )
    span = found.span_inside(QUERY, text, text.index("`in`"), 4)
    assert (str(span), span.length, span.excerpt) == ("datasets/q.sql:2:6", 4, "from `in`")
    assert span.instance is None


def test_a_template_may_choose_the_file(tmp_path: Path) -> None:
    settings = SETTINGS + "generate:\n  g: {template: datasets/t.yaml.j2, for_each: {a: 1, b: 2}}\n"
    template = READER.format(name="{{ each.key }}", path="../sql/{{ each.key }}.sql")
    files = {
        "odfbuild.yaml": settings,
        "datasets/t.yaml.j2": template,
        "sql/a.sql": "select 1 as a from `in`\n",
        "sql/b.sql": "select 2 as b from `in`\n",
    }
    lay_out(tmp_path, {**ROOT, **files})
    _, a, b = load_project(tmp_path).declared
    assert [query(each) for each in (a, b)] == [files["sql/a.sql"], files["sql/b.sql"]]
    assert str(b.span_inside(QUERY, files["sql/b.sql"], 7)) == "sql/b.sql:1:8"
    assert str(b.span(QUERY)) == "datasets/t.yaml.j2:12:25"


def test_a_query_may_be_a_template_with_the_names_of_its_holder(tmp_path: Path) -> None:
    settings = (
        SETTINGS + "vars: {day: {type: date, default: 2024-01-01}}\n"
        "generate:\n  g: {template: datasets/t.yaml.j2, for_each: {a: {n: 7}}}\n"
    )
    found = reader(
        tmp_path,
        {
            "odfbuild.yaml": settings,
            "datasets/t.yaml.j2": READER.format(name="{{ each.key }}", path="../sql/q.sql.j2"),
            "sql/q.sql.j2": "select {{ each.value.n }} as n\nfrom `in`\nwhere d > '{{ day }}'\n",
        },
    )
    text = "select 7 as n\nfrom `in`\nwhere d > '2024-01-01'\n"
    assert query(found) == text
    span = found.span_inside(QUERY, text, text.index("7"))
    assert (str(span), span.length, span.instance) == ("sql/q.sql.j2:1:8", 18, "g=a")
    assert str(found.span_inside(QUERY, text, text.index("where"))) == "sql/q.sql.j2:3:1"


def test_a_plain_file_may_take_in_a_template(tmp_path: Path) -> None:
    settings = SETTINGS + "vars: {n: {type: int, default: 7}}\n"
    found = reader(
        tmp_path,
        {
            "odfbuild.yaml": settings,
            "datasets/a.yaml": READER.format(name="a", path="../sql/q.sql.j2"),
            "sql/q.sql.j2": "select {{ n }} from `in`\n",
        },
    )
    assert query(found) == "select 7 from `in`\n"


def test_line_ends_of_other_systems_make_no_other_query(tmp_path: Path) -> None:
    found = reader(
        tmp_path,
        {
            "datasets/a.yaml": READER.format(name="a", path="../sql/q.sql"),
            "sql/q.sql": "\ufeffselect *\r\nfrom `in`\r\n",
        },
    )
    assert query(found) == "select *\nfrom `in`\n"
    assert str(found.span_inside(QUERY, "select *\nfrom `in`\n", 14)) == "sql/q.sql:2:6"


@pytest.mark.parametrize(
    "form", ['"../sql/q.sql"', "'../sql/q.sql'", "&q ../sql/q.sql", "../sql/../sql/q.sql"]
)
def test_a_path_may_be_written_as_any_text(tmp_path: Path, form: str) -> None:
    found = reader(
        tmp_path,
        {
            "datasets/a.yaml": READER.format(name="a", path=form).replace(
                "!include &q", "&q !include"
            ),
            "sql/q.sql": "select * from `in`\n",
        },
    )
    assert query(found) == "select * from `in`\n"


def codes(root: Path) -> list[str]:
    with pytest.raises(ProjectErrors) as caught:
        load_project(root)
    return [each.code for each in caught.value.found]


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "q.sql").write_text("select secret from `in`")
    root = lay_out(tmp_path / "project", {**ROOT, "sql/own.sql": "select * from `in`\n"})
    (root / "sql" / "link.sql").symlink_to(tmp_path / "secret" / "q.sql")
    (root / "sql" / "deep").symlink_to(tmp_path / "secret")
    for path in ("../sql/link.sql", "../sql/deep/q.sql"):
        (root / "datasets" / "a.yaml").write_text(READER.format(name="a", path=path))
        assert codes(root) == ["outside-project"]


def test_a_link_to_a_file_of_the_project_is_followed(tmp_path: Path) -> None:
    root = lay_out(tmp_path, {**ROOT, "sql/own.sql": "select * from `in`\n"})
    (root / "sql" / "link.sql").symlink_to(root / "sql" / "own.sql")
    (root / "datasets" / "a.yaml").write_text(READER.format(name="a", path="../sql/link.sql"))
    assert query(load_project(root).declared[1]) == "select * from `in`\n"


def test_bytes_that_are_no_text_are_reported_in_their_file(tmp_path: Path) -> None:
    root = lay_out(tmp_path, {**ROOT, "datasets/a.yaml": READER.format(name="a", path="q.sql")})
    (root / "datasets" / "q.sql").write_bytes(b"select \xff")
    with pytest.raises(ProjectErrors) as caught:
        load_project(root)
    assert [str(each.span) for each in caught.value.found] == ["datasets/q.sql:1:8"]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\ufeff"), max_size=40)


@given(WORDS, st.data())
def test_any_text_comes_through_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    text = f"select {text}"
    root = tmp_path_factory.mktemp("project")
    found = reader(
        root, {"datasets/a.yaml": READER.format(name="a", path="q.sql"), "datasets/q.sql": text}
    )
    assert query(found) == text
    at = data.draw(st.integers(0, len(text) - 1))
    span = found.span_inside(QUERY, text, at)
    assert span.line == text.count("\n", 0, at) + 1
    assert span.column == at - (text.rfind("\n", 0, at) + 1) + 1
