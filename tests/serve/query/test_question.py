"""Questions as documents: what readers of JSON do not agree on is refused, and all else is read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.serve.query.commitment import canonical
from odfbuild.serve.query.question import parse_counts, read_document, read_question

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = ("query", "queryDialect", "dataFormat", "schemaFormat", "include", "datasets", "skip")
DATASETS = st.lists(
    st.fixed_dictionaries({"id": JSON, "alias": JSON}, optional={"blockHash": JSON})
)


def around(text: str, path: list[int]) -> str:
    """Return a JSON text within lists and objects."""
    for each in path:
        text = f'{{"m{each}": {text}}}' if each % 2 else f"[{text}]"
    return text


@pytest.mark.holds("serving-proofs")
@given(JSON, JSON, st.text(max_size=5), st.lists(st.integers(0, 9), max_size=5))
def test_members_of_one_name_are_refused_at_any_depth(
    one: Any, other: Any, name: str, path: list[int]
) -> None:
    first = f"{json.dumps(name)}: {json.dumps(one)}"
    escaped = "".join(f"\\u{ord(each):04x}" for each in name if ord(each) < 0x10000)
    again = f'"{escaped}"' if all(ord(each) < 0x10000 for each in name) else json.dumps(name)
    text = around(f"{{{first}, {again}: {json.dumps(other)}}}", path)
    with pytest.raises(ValueError, match="twice"):
        read_document(text.encode())
    single = around(f"{{{first}}}", path)
    assert read_document(single.encode()) == json.loads(single)


@given(st.sampled_from(["NaN", "Infinity", "-Infinity"]), st.lists(st.integers(0, 9), max_size=5))
def test_numbers_that_json_does_not_have_are_refused(number: str, path: list[int]) -> None:
    with pytest.raises(ValueError, match="not a number of JSON"):
        read_document(around(number, path).encode())
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical(read_document(around("1e999", path).encode()))


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON | DATASETS), st.text(max_size=5))
def test_a_document_is_a_question_or_is_refused_and_is_read_again_as_the_same(
    document: dict[str, Any], query: str
) -> None:
    try:
        question = read_question({**document, "query": query}, 1_000)
    except ValueError:
        return
    assert read_question(question.document(), 1_000) == question
    assert document.get("include") in (None, list(document.get("include") or []))


@given(st.text() | st.integers().map(str) | st.integers(1, 9_999).map(lambda size: "9" * size))
def test_counts_in_an_address_are_numbers_or_are_refused(text: str) -> None:
    document = {"query": "select 1", **parse_counts({"skip": text})}
    try:
        assert read_question(document, 1_000).skip == int(text)
    except ValueError as error:
        assert "whole number" in str(error)
