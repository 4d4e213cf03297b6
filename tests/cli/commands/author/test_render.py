"""odfbuild render: what it prints stands for itself, and says where each line comes from."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.project.load import Project, load_project
from odfbuild.project.read import read_manifests
from odfbuild.project.template.rendered import LineOrigin
from odfbuild.project.template.standalone import written_out
from tests.project.templated import NAMED, SETTINGS, UNNAMED, lay_out
from tests.support.process.within import Within

QUERY = """\
kind: DatasetSnapshot
version: 1
content:
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: in}]
      transform:
        kind: Sql
        engine: spark
        query: !include ../sql/q.sql.j2
"""
FILES = {
    "odfbuild.yaml": SETTINGS
    + """\
defaults:
  "path:datasets": {tags: [all], on_query_change: restate}
  "out.a": {tags: [one], owner: me}
generate:
  out: {template: datasets/t.yaml.j2, for_each: {a: 1, b: 2}, name: "out.{{ each.key }}"}
""",
    "datasets/in.yaml": "# what comes in\n" + NAMED.format(name="in", text="plain"),
    "datasets/t.yaml.j2": QUERY,
    "sql/q.sql.j2": "select {{ each.value }} as n\nfrom `in`\n",
}


@pytest.fixture
def render(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(lay_out(tmp_path, FILES), capsys, monkeypatch)


def test_definitions_are_printed_after_templating(render: Within) -> None:
    assert render.done("render") == (
        """\
# datasets/in.yaml
# what comes in
kind: DatasetSnapshot
version: 1
content:
  name: in
  kind: Root
  metadata:
    - kind: SetInfo
      description: plain
"""
        + "".join(
            f"""\
---
# datasets/t.yaml.j2 [out={key}]
kind: DatasetSnapshot
version: 1
content:
  name: out.{key}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: in}}]
      transform:
        kind: Sql
        engine: spark
        query: |
          select {number} as n
          from `in`
"""
            for key, number in (("a", 1), ("b", 2))
        )
    )


def test_a_trace_says_where_each_line_and_trait_comes_from(render: Within) -> None:
    assert (
        render.done("render", "out.a", "--trace")
        == """\
# datasets/t.yaml.j2 [out=a]
# odfbuild.yaml:4 path:datasets: tags all; on_query_change restate
# odfbuild.yaml:5 out.a: tags one; owner me
datasets/t.yaml.j2:1  | kind: DatasetSnapshot
datasets/t.yaml.j2:2  | version: 1
datasets/t.yaml.j2:3  | content:
odfbuild.yaml:7       |   name: out.a
datasets/t.yaml.j2:4  |   kind: Derivative
datasets/t.yaml.j2:5  |   metadata:
datasets/t.yaml.j2:6  |     - kind: SetTransform
datasets/t.yaml.j2:7  |       inputs: [{datasetRef: in}]
datasets/t.yaml.j2:8  |       transform:
datasets/t.yaml.j2:9  |         kind: Sql
datasets/t.yaml.j2:10 |         engine: spark
datasets/t.yaml.j2:11 |         query: |
sql/q.sql.j2:1        |           select 1 as n
sql/q.sql.j2:2        |           from `in`
"""
    )


def test_selectors_choose_what_is_printed(render: Within) -> None:
    out = render.done("render", "out.*", "--exclude", "out.a")
    assert out.startswith("# datasets/t.yaml.j2 [out=b]\n")
    assert "---" not in out


def test_variables_are_those_of_the_command_line(render: Within) -> None:
    settings = SETTINGS + "vars: {v: {type: string, default: a}}\n"
    template = NAMED.format(name="x", text="'{{ v }}'")
    lay_out(render.folder, {"odfbuild.yaml": settings, "datasets/x.yaml.j2": template})
    (render.folder / "datasets" / "t.yaml.j2").unlink()
    assert "description: 'given'" in render.done("render", "x", "--var", "v=given")


def test_problems_are_explained(render: Within) -> None:
    lay_out(render.folder, {"datasets/x.yaml.j2": "{{ nothing }}"})
    done = render("render")
    assert done.code == 1
    assert "name: in" in done.out
    assert "datasets/x.yaml.j2:1:4: error[template-undefined]" in done.err


def same(project: Project) -> None:
    """Check that each definition, written out, declares what it declares."""
    for each in project.declared:
        lines = written_out(each, LineOrigin("somewhere", 1, None))
        found = read_manifests("".join(f"{line.text}\n" for line in lines), "x")
        assert [again.written for again in found.declared] == [each.written]


AWKWARD = (
    "a\n",
    "a\n\n",
    " a",
    "a\nb",
    "a \n b",
    "\n",
    "a:\n  - b\n",
    "a\t\n",
    "\u2028",
    "\x85",
    "a\n \n",
)
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\r\ufeff"), max_size=30)
TEXTS = ANY | st.sampled_from(AWKWARD)
FORMS = st.sampled_from(
    [
        "description: !include q.sql",
        "description: !include 'q.sql'  # a remark",
        '{"description": !include q.sql, "keywords": [a, !include q.sql]}',
        "keywords:\n        - !include q.sql\n        - b",
        "description: &a !include q.sql\n      keywords: [*a]",
        "keywords: [\n        !include q.sql\n      ]",
    ]
)


@given(TEXTS, FORMS, st.sampled_from(["{}", "---\n{}---\n", "# c\n--- # d\n{}...\n---\n~\n"]))
def test_what_is_written_out_declares_the_same(
    tmp_path_factory: pytest.TempPathFactory, text: str, form: str, around: str
) -> None:
    root = tmp_path_factory.mktemp("project")
    first = NAMED.format(name="a", text="x")
    body = first.replace("- kind: SetInfo\n      description: x", f"- kind: SetInfo\n      {form}")
    if form.startswith("{"):
        body = first.replace(
            "- kind: SetInfo\n      description: x", '- {"kind": "SetInfo", ' + form[1:]
        )
    second = NAMED.format(name="b", text="y")
    files = {"datasets/a.yaml": around.format(body) + "---\n" + second, "datasets/q.sql": text}
    same(load_project(lay_out(root, files)))


@pytest.mark.parametrize(
    "text",
    [
        UNNAMED.replace("{text}", "x"),
        "kind: DatasetSnapshot\nversion: 1\ncontent: {kind: Root, metadata: []}\n",
        '{"kind": "DatasetSnapshot", "version": 1, "content": {"kind": "Root", "metadata": []}}\n',
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  {\n    kind: Root, metadata: []}\n",
    ],
)
@pytest.mark.parametrize("name", ["x.a", "123", "true", "1e3"])
def test_a_name_that_a_generator_gives_is_written_in(tmp_path: Path, text: str, name: str) -> None:
    settings = (
        SETTINGS + f"generate:\n  g: {{template: t.yaml.j2, for_each: {{a: 1}}, name: '{name}'}}\n"
    )
    project = load_project(lay_out(tmp_path, {"odfbuild.yaml": settings, "t.yaml.j2": text}))
    assert [str(each.alias) for each in project.declared] == [name]
    same(project)
