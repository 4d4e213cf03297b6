"""Edits of YAML texts: what was asked for is changed, all else stays as it was written."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.project.yaml import Value, read_documents
from odfbuild.project.yaml.edit import (
    Add,
    Change,
    Remove,
    SetValue,
    UneditableError,
    edited,
    edited_bytes,
)

BLOCK = """\
# the project
odfbuild: 1   # format

name: 'shop'
accept:
  # agreed in May
  - code: ODF201
    dataset: a
    until: 2031-05-01  # soon

  - {code: ODF202, dataset: b}  # short
# the rest
targets:
  dev: {}
  # prod comes later
"""
ITEM: Value = {"code": "ODF203", "dataset": "c", "reason": "no one: reads it"}
ITEM_TEXT = """\
  - code: ODF203
    dataset: c
    reason: 'no one: reads it'
"""


def edit(text: str, *changes: Change) -> str:
    return edited(text, "odfbuild.yaml", changes)


def value_of(text: str) -> Any:
    return read_documents(text, "odfbuild.yaml")[0].value


def test_a_scalar_changes_where_it_stands() -> None:
    assert edit(BLOCK, SetValue(("accept", 0, "until"), "2032-01-31")) == BLOCK.replace(
        "2031-05-01", "2032-01-31"
    )


def test_a_scalar_keeps_its_quotes() -> None:
    assert edit(BLOCK, SetValue(("name",), "it's")) == BLOCK.replace("'shop'", "'it''s'")
    assert edit('a: "x"\n', SetValue(("a",), "1")) == 'a: "1"\n'


def test_a_bare_text_is_quoted_where_it_would_be_read_as_something_else() -> None:
    assert edit("a: x\n", SetValue(("a",), "null")) == "a: 'null'\n"
    assert edit("a: [x, y]\n", SetValue(("a", 0), "1, 2")) == "a: ['1, 2', y]\n"


def test_an_item_goes_behind_the_last_one() -> None:
    before, after = BLOCK.split("# the rest")
    assert edit(BLOCK, Add(("accept",), ITEM)) == f"{before}{ITEM_TEXT}# the rest{after}"


def test_comments_that_belong_to_a_list_stay_above_a_new_item() -> None:
    text = "a:\n  - 1\n  # - 2\nb: 3\n"
    assert edit(text, Add(("a",), 4)) == "a:\n  - 1\n  # - 2\n  - 4\nb: 3\n"


def test_a_comment_in_line_with_a_key_is_of_the_next_key() -> None:
    assert edit("a:\n- 1\n# of b\nb: 3\n", Add(("a",), 4)) == "a:\n- 1\n- 4\n# of b\nb: 3\n"


def test_a_list_that_is_missing_is_made_at_the_end() -> None:
    made = edit(BLOCK, Add(("moved",), {"from": "a", "to": "b"}))
    assert made == f"{BLOCK}moved:\n  - from: a\n    to: b\n"


def test_a_file_without_a_last_line_end_gets_one() -> None:
    assert edit("a: 1", SetValue(("b",), 2)) == "a: 1\nb: 2"


def test_line_ends_stay_as_they_are() -> None:
    assert edit("a: 1\r\n", Add(("b",), {"c": 2})) == "a: 1\r\nb:\r\n  - c: 2\r\n"


def test_a_byte_order_mark_stays() -> None:
    done = edited_bytes(b"\xef\xbb\xbfa: 1\n", "odfbuild.yaml", [SetValue(("a",), 2)])
    assert done == b"\xef\xbb\xbfa: 2\n"


@pytest.mark.parametrize("nothing", ["", " ~", "  null", "   # none yet"])
def test_a_list_that_is_null_is_opened(nothing: str) -> None:
    made = edit(f"a:{nothing}\nb: 1\n", Add(("a",), {"x": 1}))
    comment = nothing if "#" in nothing else ""
    assert made == f"a:{comment}\n  - x: 1\nb: 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: []\n", "a: [{x: 1}]\n"),
        ("a: [2]\n", "a: [2, {x: 1}]\n"),
        ("a: [2, ]\n", "a: [2, {x: 1}, ]\n"),
        ("a: [\n  2,  # two\n]\n", "a: [\n  2, {x: 1},  # two\n]\n"),
        ("{a: [2]}\n", "{a: [2, {x: 1}]}\n"),
    ],
)
def test_lists_in_brackets_stay_in_brackets(before: str, after: str) -> None:
    assert edit(before, Add(("a",), {"x": 1})) == after


def test_a_key_goes_to_the_end_of_its_mapping() -> None:
    text = "- a: 1  # one\n  b:\n    c: 2\n- d: 3\n"
    assert edit(text, SetValue((0, "e"), 4)) == "- a: 1  # one\n  b:\n    c: 2\n  e: 4\n- d: 3\n"


def test_mappings_on_the_way_are_made() -> None:
    assert edit("a: 1\n", SetValue(("b", "c", "d"), 2)) == "a: 1\nb:\n  c:\n    d: 2\n"


def test_an_entry_goes_with_the_comments_beside_it() -> None:
    done = edit(BLOCK, Remove(("accept", 0)))
    assert "ODF201" not in done
    assert "# soon" not in done
    assert "# agreed in May\n" in done
    assert edit("a: 1\nb: 2  # two\nc: 3\n", Remove(("b",))) == "a: 1\nc: 3\n"


def test_the_last_item_leaves_an_empty_list() -> None:
    assert edit("a:\n  - 1\nb: 2\n", Remove(("a", 0))) == "a: []\nb: 2\n"
    assert edit("a: [1]\n", Remove(("a", 0))) == "a: []\n"


def test_items_in_brackets_go_with_one_comma() -> None:
    assert edit("a: [1, 2, 3]\n", Remove(("a", 0))) == "a: [2, 3]\n"
    assert edit("a: [1, 2, 3]\n", Remove(("a", 2))) == "a: [1, 2]\n"


def test_documents_are_told_apart() -> None:
    text = "a: 1\n---\na: 1\n"
    assert edit(text, SetValue(("a",), 2, document=1)) == "a: 1\n---\na: 2\n"


def test_several_changes_are_made_together() -> None:
    done = edit("a: 1\nb: 2\nc: 3\n", Remove(("a",)), SetValue(("b",), 4), SetValue(("d",), 5))
    assert done == "b: 4\nc: 3\nd: 5\n"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("a: &x 1\nb: *x\n", SetValue(("b",), 2)),
        ("a: &x 1\nb: *x\n", SetValue(("a",), 2)),
        ("a: &x [1]\nb: *x\n", Add(("a",), 2)),
        ("a: |\n  text\n", SetValue(("a",), "other")),
        ("- a: 1\n  b: 2\n", Remove((0, "a"))),
        ("a: {b: 1}\n", SetValue(("a",), 2)),
        ("? a\n: 1\n", Remove(("a",))),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, change: Change) -> None:
    with pytest.raises(UneditableError) as caught:
        edit(text, change)
    assert caught.value.span is not None
    assert caught.value.fix


KEYS = st.text("abcdefgh", min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
LISTS = st.lists(VALUES.filter(lambda value: value is not None), max_size=3)


def commented(text: str, at: Sequence[int]) -> str:
    """Put comments above some lines, indented as they are; not into texts of several lines."""
    lines = text.split("\n")
    for row in sorted({each % len(lines) for each in at}, reverse=True):
        indent = len(lines[row]) - len(lines[row].lstrip(" "))
        lines.insert(row, f"{' ' * indent}# note {row}")
    return "\n".join(lines)


@given(st.dictionaries(KEYS, VALUES, min_size=1), KEYS, VALUES, st.lists(st.integers(0, 50)))
def test_a_value_can_always_be_added_at_the_top(
    content: dict[str, Any], key: str, value: Any, notes: list[int]
) -> None:
    if key in content or any("\n" in each for each in strings_in(content)):
        return
    text = commented(yaml_text(content), notes)
    assert value_of(edit(text, SetValue((key,), value))) == {**content, key: value}


@given(st.dictionaries(KEYS, LISTS, min_size=1), VALUES, st.data())
def test_an_item_can_always_be_added(
    content: dict[str, list[Any]], value: Any, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(content)))
    done = edit(yaml_text(content), Add((key,), value))
    assert value_of(done) == {**content, key: [*content[key], value]}


def strings_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [each for item in value.values() for each in strings_in(item)]
    if isinstance(value, list):
        return [each for item in value for each in strings_in(item)]
    return [value] if isinstance(value, str) else []
