"""Places inside of texts: what an error in a query points at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.project.yaml import Document, read_documents


def read(text: str) -> Document:
    (document,) = read_documents(text, "a.yaml")
    return document


def place(document: Document, part: str) -> str:
    assert isinstance(document.value, dict)
    text = document.value["q"]
    assert isinstance(text, str)
    return str(document.places.inside(("q",), text, text.index(part), len(part)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("q: select name", "a.yaml:1:11"),
        ("q: 'select name'", "a.yaml:1:12"),
        ('q: "select name"', "a.yaml:1:12"),
        ("q: |\n  select\n    name\n", "a.yaml:3:5"),
        ("q: |-\n  select name", "a.yaml:2:10"),
        ("q: |2\n    select\n   name\n", "a.yaml:3:4"),
        ("q: |\n\n  select\n\n  name\n", "a.yaml:5:3"),
        ("q: |\r\n  select\r\n  name\r\n", "a.yaml:3:3"),
        ("q: &a |\n  select name\n", "a.yaml:2:10"),
        ("x: |\n  one\nq: |  # a comment\n  select name\n", "a.yaml:4:10"),
    ],
)
def test_a_part_of_a_text_is_found_where_it_is_written(written: str, expected: str) -> None:
    assert place(read(written), "name") == expected


@pytest.mark.parametrize(
    "written",
    ["q: >\n  select\n  name\n", "q: 'it''s name'", 'q: "a\\tname"', "q: select\n  name"],
)
def test_where_text_was_transformed_the_whole_value_is_named(written: str) -> None:
    document = read(written)
    assert place(document, "name") == str(document.places.value(("q",)))


def test_what_is_not_there_is_shown_at_its_nearest_ancestor() -> None:
    places = read("a:\n  b: [x, y]\n").places
    assert str(places.value(("a", "b", 5))) == "a.yaml:2:6"
    assert str(places.value(("a", "zz", "b"))) == "a.yaml:2:3"
    assert str(places.key(("a", "zz"))) == "a.yaml:2:3"
    assert str(places.inside(("zz",), "text", 1)) == "a.yaml:1:1"


def test_a_repeated_value_is_shown_where_it_was_anchored() -> None:
    places = read("a: &x value\nb: *x\n").places
    assert str(places.value(("b",))) == "a.yaml:1:7"
    assert str(places.key(("b",))) == "a.yaml:2:1"


def test_a_value_over_several_lines_is_shown_by_its_first() -> None:
    span = read("a: [1,\n  2]\nb: 'x\n  y'\n").places.value(("b",))
    assert (span.line, span.column, span.length, span.excerpt) == (3, 4, 2, "b: 'x")


LINES = st.text("abc é😀:#'\"|>-", min_size=1).filter(lambda line: line[0] != " ")


@given(st.lists(LINES | st.just(""), min_size=1).filter(lambda lines: lines[0] != ""), st.data())
def test_every_sign_of_a_literal_block_is_found(lines: list[str], data: st.DataObject) -> None:
    document = read("k: 1\nq: |\n" + "".join(f"    {line}\n" for line in lines))
    text = "".join(f"{line}\n" for line in lines)
    row = data.draw(st.sampled_from([n for n, line in enumerate(lines) if line]))
    column = data.draw(st.integers(0, len(lines[row]) - 1))
    offset = sum(len(line) + 1 for line in lines[:row]) + column
    trimmed = document.value["q"] if isinstance(document.value, dict) else None
    assert isinstance(trimmed, str)
    assert text.startswith(trimmed.rstrip("\n"))
    span = document.places.inside(("q",), trimmed, offset)
    assert (span.line, span.column) == (row + 3, column + 5)
