"""Rendered text: every character knows which part of which file wrote it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.files import Home
from odfbuild.project.load import load_project
from odfbuild.project.template.rendered import Piece, RenderedSource, Rendering
from odfbuild.project.template.templates import Templates
from odfbuild.project.yaml.places import SourceText
from tests.project.templated import NAMED, SETTINGS, described, lay_out


def render(root: Path, text: str, **names: object) -> RenderedSource:
    templates = Templates(Home(root=root), {}, {})
    return templates.render(SourceText("t.j2", text), names, None)


def lines(source: SourceText) -> list[str]:
    """Return each line of output with the place of its first visible character."""
    origins = Rendering(source).line_map()
    assert len(origins) == len(source.text.splitlines())
    return [
        f"{origin}{'' if origin.column is None else f':{origin.column}'} {line.strip()}"
        for origin, line in zip(origins, source.text.splitlines(), strict=True)
    ]


def test_literal_lines_have_columns_and_results_have_none(tmp_path: Path) -> None:
    text = "a: 1\n{% for x in [1, 2] %}\n  - {{ x }}\n{{ x }}: x\n{% endfor %}\nz: {{ 'z' }}\n"
    assert lines(render(tmp_path, text)) == [
        "t.j2:1:1 a: 1",
        "t.j2:3:3 - 1",
        "t.j2:4 1: x",
        "t.j2:3:3 - 2",
        "t.j2:4 2: x",
        "t.j2:6:1 z: z",
    ]


def test_all_lines_of_a_macro_come_from_its_call(tmp_path: Path) -> None:
    text = "{% macro m(x) %}\n{{ x }}\ntwo\n{% endmacro %}\na\n{{ m('one') }}z\n"
    assert lines(render(tmp_path, text)) == [
        "t.j2:5:1 a",
        "t.j2:6 one",
        "t.j2:6 two",
        "t.j2:6:15 z",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a\n{% filter upper %}\nb {{ 1 }}\n{% endfilter %}\nz\n",
        "a\n{% macro m() %}{{ caller() }}{% endmacro %}\n{% call m() %}b{% endcall %}\n\nz\n",
        "a\n{% set b %}\nb\n{% endset %}\n{{ b }}z\n",
        "a\n{% include 'b.j2' %}\nz\n",
        "a\n{% block b %}\nb\n{% endblock %}\nz\n",
        "a\n{% for x in [[1, []]] recursive %}{{ x[0] }}{{ loop(x[1]) }}{% endfor %}\n\nz\n",
        "{#- one -#}a{# two #}\n{%- if true %}\nb{%+ endif %}\n\n{{- 'c' -}}\n\n z\n",
        "a{% raw %} {{ b }}\n{% endraw %}\nz\n",
        "{{ 'a' }}{{ 'b' }}\r\n{% if 0 %}{% else %}c{% endif %}\rz",
        "${{ a }} {{ '${{ b }}' }}\nz{% with q = 1 %}{{ q }}{% endwith %}",
        "",
    ],
)
def test_running_again_gives_the_same_text(tmp_path: Path, text: str) -> None:
    lay_out(tmp_path, {"macros/b.j2": "b {{ 1 + 1 }}\nc\n"})
    source = render(tmp_path, text)
    assert "".join(piece.text for piece in source.trace()) == source.text
    for piece in source.trace():
        if piece.literal:
            assert piece.source.text[piece.start : piece.end] == piece.text
        else:
            assert piece.source.text[piece.start] == "{"
            assert piece.source.text[piece.end - 1] == "}"


def test_text_of_an_included_file_comes_from_there(tmp_path: Path) -> None:
    lay_out(tmp_path, {"macros/b.j2": "b\n  c {{ 1 + 1 }}\n"})
    assert lines(render(tmp_path, "a\n{% include 'b.j2' %}\nz\n")) == [
        "t.j2:1:1 a",
        "macros/b.j2:1:1 b",
        "macros/b.j2:2:3 c 2",
        "t.j2:3:1 z",
    ]


def test_a_template_that_gives_something_else_each_time_is_named_as_a_whole(
    tmp_path: Path,
) -> None:
    counted = iter(range(9))
    source = render(tmp_path, "a\nb: {{ f() }}\n", f=lambda: next(counted))
    assert (source.text, str(source.span(5, 6))) == ("a\nb: 0\n", "t.j2:1:1")
    assert [str(each) for each in Rendering(source).line_map()] == ["t.j2:1", "t.j2:1"]


def test_a_template_that_fails_the_second_time_is_named_as_a_whole(tmp_path: Path) -> None:
    once = iter([1])
    source = render(tmp_path, "a\nb: {{ f() }}\n", f=lambda: next(once))
    assert str(source.span(5, 6)) == "t.j2:1:1"


PARTS = st.lists(
    st.sampled_from(
        ["a", "\n", " ", "  b: ", "{{ x }}", "{{ 'lit' }}", "{% if x %}", "c{% endif %}",
         "{% else %}", "{%- if y -%}", "{#- r -#}", "{# r #}\n", "{% for i in x %}", "{{ i }}",
         "{% endfor %}", "${{ env.K }}", "{{- x -}}", "{%+ if x %}", "{% set z = 1 %}\n", "\r\n",
         "\t", "é€𝄞"]
    ), max_size=14,
).map("".join)  # fmt: skip


@given(PARTS)
def test_pieces_are_where_they_say(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.getbasetemp()
    try:
        source = render(root, text, x="pq", y="")
    except ProjectErrors as errors:
        assert all(each.span is not None for each in errors.found)
        return
    pieces = source.trace()
    assert "".join(piece.text for piece in pieces) == source.text
    assert all(
        piece.source.text[piece.start : piece.end] == piece.text
        for piece in pieces
        if piece.literal
    )
    for at in range(len(source.text)):
        span = source.span(at, at + 1)
        assert span.excerpt is not None
        assert span.column - 1 <= len(span.excerpt)


def test_a_span_reaches_over_literals_and_results_of_one_file() -> None:
    file, other = SourceText("t", "ab{{ x }}cd\nef"), SourceText("o", "zz")
    pieces = (
        Piece("ab", file, 0, 2, True),
        Piece("XYZ", file, 2, 9, False),
        Piece("cd\nef", file, 9, 14, True),
        Piece("zz", other, 0, 2, True),
    )
    source = RenderedSource("t", "abXYZcd\nefzz", trace=lambda: pieces)

    def place(start: int, end: int) -> tuple[str, int]:
        span = source.span(start, end)
        return str(span), span.length

    assert place(0, 1) == ("t:1:1", 1)
    assert place(1, 3) == ("t:1:2", 8)
    assert place(3, 4) == ("t:1:3", 7)
    assert place(4, 6) == ("t:1:3", 8)
    assert place(5, 9) == ("t:1:10", 2)
    assert place(8, 11) == ("t:2:1", 2)
    assert place(10, 11) == ("o:1:1", 1)
    assert place(12, 12) == ("o:1:3", 1)


def test_a_project_gives_the_rendering_of_each_dataset(tmp_path: Path) -> None:
    settings = SETTINGS + "generate:\n  g: {template: t.yaml.j2, for_each: {a: 1, b: 2}}\n"
    files = {
        "odfbuild.yaml": settings,
        "t.yaml.j2": NAMED.format(name="x.{{ each.key }}", text="x"),
        "datasets/p.yaml": NAMED.format(name="p", text="plain"),
    }
    project = load_project(lay_out(tmp_path, files))
    told = {
        str(alias): (each.file, each.instance, each.is_templated, str(each.line_map()[3]))
        for alias, each in project.renderings.items()
    }
    assert told == {
        "p": ("datasets/p.yaml", None, False, "datasets/p.yaml:4"),
        "x.a": ("t.yaml.j2", "g=a", True, "t.yaml.j2:4"),
        "x.b": ("t.yaml.j2", "g=b", True, "t.yaml.j2:4"),
    }
    assert "name: x.b\n" in list(project.renderings.values())[2].text
    assert [described(each) for each in project.declared] == ["plain", "x", "x"]
