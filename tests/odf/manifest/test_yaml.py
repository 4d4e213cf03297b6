"""YAML text: whatever is written is read back, by readers of YAML 1.1 and of 1.2."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.project.yaml import read_documents

_texts = st.text(max_size=20) | st.text(
    st.sampled_from("a b:#-\n'\"\\|>\t,[]{}~!&*%@`?="), max_size=9
)
_lines = st.lists(st.text(st.sampled_from("ab :#-\t"), max_size=6), max_size=5).map("\n".join)
_leaves = st.none() | st.booleans() | st.integers() | _texts | _lines
_trees = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=10,
)


def loaded(text: str) -> Any:
    return read_documents(text, "test.yaml")[0].value


@given(_trees)
def test_what_is_written_is_read_back(tree: Any) -> None:
    assert loaded(yaml_text({"root": tree})) == {"root": tree}


@given(_trees)
def test_older_readers_agree_but_for_dates(tree: Any) -> None:
    assert yaml.safe_load(yaml_text([tree])) == [tree]


@pytest.mark.parametrize(
    "text", ["null", "~", "true", "No", "on", "1", "-1", "1.5", ".5", "0x1f", "1e3", ".inf", "1:30"]
)
def test_texts_that_look_like_something_else_are_quoted(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: '{text}'\n"
    assert loaded(f"a: '{text}'\n") == {"a": text}


@pytest.mark.parametrize(
    "text",
    ["2020-01-01T12:00:00Z", "SELECT * FROM input", "ftp://h/x.zip", "/opt/x/*.txt", "AAE=", "a'b"],
)
def test_usual_texts_are_bare(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: {text}\n"


def test_lists_stand_at_the_indentation_of_their_key() -> None:
    value = {"a": {"b": [{"c": 1, "d": ["x", []]}, ["z", {}]]}}
    assert yaml_text(value) == "a:\n  b:\n  - c: 1\n    d:\n    - x\n    - []\n  - - z\n    - {}\n"


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("a\nb", "|-\n  a\n  b\n"),
        ("a\n\n  b\n", "|\n  a\n\n    b\n"),
        ("a\n\n", "|+\n  a\n\n"),
    ],
)
def test_texts_of_several_lines_are_literal_blocks(text: str, block: str) -> None:
    assert yaml_text({"q": text}) == f"q: {block}"
    assert loaded(f"q: {block}") == {"q": text}


@pytest.mark.parametrize(
    "text", [" a\nb", "\na", "a\n  \nb", "\n", "a\r\nb", "\x00", "\u2028", "\ufeff"]
)
def test_texts_that_no_block_can_hold_are_escaped(text: str) -> None:
    written = yaml_text({"a": text})
    assert written.startswith('a: "')
    assert loaded(written) == {"a": text}
