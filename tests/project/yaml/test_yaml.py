"""Reading YAML: values by the core schema of YAML 1.2, refusals with a place, bounded work."""

import math
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.yaml import Document, decode, read_documents
from odfbuild.project.yaml.rules import MAX_ALIASED, MAX_DEPTH


def read(text: str) -> Any:
    (document,) = read_documents(text, "a.yaml")
    return document.value


def refusal(text: str) -> ProjectErrors:
    with pytest.raises(ProjectErrors) as caught:
        read_documents(text, "a.yaml")
    return caught.value


def codes(text: str) -> list[str]:
    return [each.code for each in refusal(text).found]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("~", None),
        ("", None),
        ("nULL", "nULL"),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("yes", "yes"),
        ("No", "No"),
        ("NO", "NO"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("0", 0),
        ("014", 14),
        ("-19", -19),
        ("+12", 12),
        ("0o14", 12),
        ("0x3A", 58),
        ("-0x3A", "-0x3A"),
        ("0b11", "0b11"),
        ("0o8", "0o8"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("190:20:30", "190:20:30"),
        ("2024-01-01", "2024-01-01"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("0.", 0.0),
        (".5", 0.5),
        ("-0.0", 0.0),
        ("+12e03", 12000.0),
        ("-2E+05", -200000.0),
        ("1e3", 1000.0),
        ("12.5", 12.5),
        (".inf", math.inf),
        ("+.INF", math.inf),
        ("-.Inf", -math.inf),
        (".", "."),
        ("-", [None]),
        ("+", "+"),
        ("1.2.3", "1.2.3"),
        ("e3", "e3"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("٣", "٣"),
        ("=", "="),
        ("'1'", "1"),
        ('"true"', "true"),
        ("''", ""),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, value: object) -> None:
    found = read(f"a: {written}\n" if value != [None] else "a:\n- \n")["a"]
    assert (found, type(found)) == (value, type(value))


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(read("a: .nan")["a"])


def test_a_number_of_absurd_length_stays_text() -> None:
    digits = "9" * 5_000
    assert read(f"a: {digits}")["a"] == digits


def test_block_texts_keep_their_lines() -> None:
    assert read("a: |\n  x\n   y\nb: >-\n  one\n  two\n") == {"a": "x\n y\n", "b": "one two"}


def test_documents_of_one_file_are_numbered() -> None:
    found = read_documents("a: 1\n---\n---\nb: 2\n", "a.yaml")
    assert [(each.index, each.value) for each in found] == [(0, {"a": 1}), (1, None), (2, {"b": 2})]


def test_a_file_of_comments_has_no_documents() -> None:
    assert read_documents("# nothing yet\n", "a.yaml") == ()


def test_aliases_repeat_what_was_anchored() -> None:
    assert read("a: &x {k: [1]}\nb: *x\nc: [*x]") == {
        "a": {"k": [1]},
        "b": {"k": [1]},
        "c": [{"k": [1]}],
    }


def test_an_anchor_ends_with_its_document() -> None:
    assert codes("a: &x 1\n---\nb: *x\n") == ["yaml-alias"]


def test_an_anchor_may_be_set_again() -> None:
    assert read("- &x 1\n- *x\n- &x 2\n- *x\n") == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "code", "place", "length"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", "a.yaml:3:1", 1),
        ("a:\n  ab: 1\n  'ab': 2\n", "duplicate-key", "a.yaml:3:3", 4),
        ("a: {b: 1, b: 2}", "duplicate-key", "a.yaml:1:11", 1),
        ("1: a", "yaml-key", "a.yaml:1:1", 1),
        ("a:\n  true: b", "yaml-key", "a.yaml:2:3", 4),
        ("? [a]\n: b", "yaml-key", "a.yaml:1:3", 1),
        ("{ {a: 1}: b }", "yaml-key", "a.yaml:1:3", 1),
        ("a: &x k\n*x : 1", "yaml-key", "a.yaml:2:1", 2),
        ("~: a", "yaml-key", "a.yaml:1:1", 1),
        ("a:\n  <<: {b: 1}", "yaml-merge-key", "a.yaml:2:3", 2),
        ("a: !!str 1", "yaml-tag", "a.yaml:1:4", 5),
        ("a: !include x.sql", "yaml-tag", "a.yaml:1:4", 8),
        ("a: ! x", "yaml-tag", "a.yaml:1:4", 1),
        ("a: &x !set {b}", "yaml-tag", "a.yaml:1:7", 4),
        ("!!map {a: 1}", "yaml-tag", "a.yaml:1:1", 5),
        ("a: *nowhere", "yaml-alias", "a.yaml:1:4", 8),
        ("a: &x [*x]", "yaml-alias", "a.yaml:1:8", 2),
        ("a: &x {b: *x}", "yaml-alias", "a.yaml:1:11", 2),
        ("a:\n\tb: 1", "yaml-syntax", "a.yaml:2:1", 1),
        ("a: b: c", "yaml-syntax", "a.yaml:1:5", 1),
        ("a: [1, 2\nb: 3", "yaml-syntax", "a.yaml:1:4", 1),
        ("a: 'x\nb: 1\n", "yaml-syntax", "a.yaml:1:4", 1),
        ("a: @b", "yaml-syntax", "a.yaml:1:4", 1),
        ("a: é\x07", "yaml-encoding", "a.yaml:1:5", 1),
        ("a: 1\r\nb: \x00", "yaml-encoding", "a.yaml:2:4", 1),
    ],
)
def test_what_is_refused_is_shown_where_it_stands(
    text: str, code: str, place: str, length: int
) -> None:
    (found,) = refusal(text).found
    assert (found.code, str(found.span)) == (code, place)
    assert found.span is not None
    assert found.span.length == length


def test_all_problems_of_a_file_are_found_in_one_go() -> None:
    text = "a: !x 1\n2: 3\nb: *y\nb: 4\nc: [\n"
    assert codes(text) == ["yaml-tag", "yaml-key", "yaml-alias", "duplicate-key", "yaml-syntax"]


def test_a_quoted_merge_sign_is_a_key_like_any_other() -> None:
    assert read("'<<': 1") == {"<<": 1}


def test_an_empty_text_is_a_key_and_can_be_given_once() -> None:
    assert read("'': 1\na: 2") == {"": 1, "a": 2}
    assert codes("'': 1\n'': 2") == ["duplicate-key"]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_without_end_is_refused(opening: str) -> None:
    assert codes(opening * 10_000) == ["yaml-depth"]


def test_nesting_up_to_the_bound_is_read() -> None:
    value = read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


def test_aliases_cannot_nest_deeper_than_brackets() -> None:
    lines = ["- &a0 []"] + [f"- &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 5)]
    assert codes("\n".join(lines)) == ["yaml-depth"]


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    lines = ["- &a0 [" + "x," * 9 + "]"]
    lines += [f"- &a{n} [" + f"*a{n - 1}," * 9 + "]" for n in range(1, 30)]
    assert codes("\n".join(lines)) == ["yaml-alias"]


def test_many_modest_aliases_are_fine() -> None:
    uses = MAX_ALIASED // 10
    assert len(read("- &x [1, 2]\n" + "- *x\n" * uses)) == uses + 1


def test_a_byte_order_mark_does_not_shift_places() -> None:
    text = decode(b"\xef\xbb\xbfa: 1\na: 2", "a.yaml")
    assert str(refusal(text).found[0].span) == "a.yaml:2:1"


def test_bytes_that_are_not_utf8_are_refused_at_the_first_bad_one() -> None:
    with pytest.raises(ProjectErrors) as caught:
        decode("a: 1\nname: Zürich".encode("latin-1"), "a.yaml")
    (found,) = caught.value.found
    assert (found.code, str(found.span)) == ("yaml-encoding", "a.yaml:2:8")


def test_the_parser_in_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'b', ~]\nc: |\n  d\ne: *x\nf: !t 1\n"
    monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    assert codes(text) == ["yaml-tag"]
    assert read(text.replace("!t ", "")) == {
        "a": [1, "b", None],
        "c": "d\n",
        "e": [1, "b", None],
        "f": 1,
    }


MANIFEST_LIKE = st.lists(
    st.sampled_from(
        [*"abz01~.- \n\t:,[]{}'\"|>&*!#?%@\\", "\n  ", ": ", "- ", "---\n", "&x ", "*x "]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), MANIFEST_LIKE))
def test_any_text_gives_values_or_findings_in_it(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    try:
        read_documents(text, "a.yaml")
    except ProjectErrors as errors:
        for found in errors.found:
            assert found.span is not None
            assert found.span.excerpt == lines[found.span.line - 1]
            assert 1 <= found.span.column <= len(found.span.excerpt) + 2
            assert found.what and found.why and found.fix


@given(st.binary())
def test_any_bytes_give_text_or_a_finding(data: bytes) -> None:
    try:
        text = decode(data, "a.yaml")
    except ProjectErrors as errors:
        assert [each.code for each in errors.found] == ["yaml-encoding"]
    else:
        assert text.encode() in (data, data.removeprefix(b"\xef\xbb\xbf"))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=12),
    st.sampled_from(["NO", "12:30", "014", "~", "null", "true", "1e3", "2024-01-01", "a\nb"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcxyz-_ ", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


class _Quoting(yaml.SafeDumper):
    """Writes every text in double quotes: what is plain then means the same in YAML 1.1 and 1.2."""


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@given(VALUES, st.booleans(), st.integers(1, 6))
def test_what_was_written_is_read(value: Any, flow: bool, indent: int) -> None:
    text = yaml.dump(
        value,
        Dumper=_Quoting,
        default_flow_style=flow,
        indent=indent,
        allow_unicode=True,
        sort_keys=False,
    )
    assert read(text) == value


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    entries: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    below = [each for step, inner in entries for each in _paths(inner, (*path, step))]
    return [(path, value), *below]


def _named(document: Document, path: tuple[str | int, ...], *, key: bool) -> str:
    span = document.places.key(path) if key else document.places.value(path)
    assert span.excerpt is not None
    return span.excerpt[span.column - 1 : span.column - 1 + span.length]


LINE = st.text("abc xyz:,'#é😀", min_size=1, max_size=8)
TREES = st.recursive(
    st.integers(0, 99) | LINE,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.dictionaries(LINE, inner, min_size=1, max_size=4)
    ),
    max_leaves=15,
)


@given(TREES, st.booleans(), st.sampled_from(["", "\ufeff# a comment\n", "# é\r\n\r\n---\n"]))
def test_places_point_at_the_text_that_they_name(tree: Any, flow: bool, head: str) -> None:
    body = yaml.dump(
        tree,
        Dumper=_Quoting,
        default_flow_style=flow,
        allow_unicode=True,
        sort_keys=False,
        width=10_000,
    )
    (document,) = read_documents(decode((head + body).encode(), "a.yaml"), "a.yaml")
    for path, value in _paths(tree):
        if path and isinstance(path[-1], str):
            assert read(_named(document, path, key=True)) == path[-1]
        named = _named(document, path, key=False)
        if isinstance(value, str | int) or flow:
            assert read(named) == value
        else:
            first = next(iter(value))
            assert named == "-" if isinstance(value, list) else read(named) == first
