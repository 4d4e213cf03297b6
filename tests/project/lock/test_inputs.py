"""Inputs in the lock file: written, read, and refused where they are not certain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.project.lock import Lock, LockedInput, lock_text, parse_lock

ids = st.binary(min_size=32, max_size=32).map(DatasetId)
heads = st.binary(max_size=8).map(sha3_256)
refs = st.from_regex(r"[a-z]{1,4}/[a-z]{1,4}(?:/[a-z]{1,4})?", fullmatch=True)
repositories = st.none() | st.from_regex(r"[a-z]{1,5}", fullmatch=True)
inputs = st.dictionaries(
    refs, st.builds(LockedInput, id=ids, head=heads, repository=repositories), max_size=4
)


@given(inputs)
def test_inputs_come_back_as_they_were_written(given: dict[str, LockedInput]) -> None:
    lock = Lock(inputs=given)
    text = lock_text(lock)
    assert parse_lock(text) == lock
    assert lock_text(parse_lock(text)) == text


def test_a_lock_without_inputs_says_nothing_of_them() -> None:
    assert "inputs" not in lock_text(Lock())


@pytest.mark.parametrize(
    "entry",
    [
        "{id: did:odf:fed01, head: f1620}",
        "{head: f1620}",
        "{id: 7, head: f1620}",
        "7",
        "{id: x, head: y, more: z}",
    ],
)
def test_an_entry_that_is_not_certain_is_refused_at_its_place(entry: str) -> None:
    with pytest.raises(ProjectErrors) as caught:
        parse_lock(f"odfbuild: 1\ninputs:\n  hub/rates: {entry}\n")
    assert {each.code for each in caught.value.found} == {"lock-file"}
    assert all(each.span is not None and each.span.line == 3 for each in caught.value.found)


_GOOD = {"id": f"did:odf:fed01{'ab' * 32}", "head": f"f1620{'ab' * 32}"}


@given(
    st.sampled_from(["id", "head"]),
    st.one_of(
        st.integers(0, 10**40).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(str),
        st.sampled_from(
            ["true", "null", "[]", "{}", "''", "x", "2026-11-26", "did:odf:fed01", "39"]
        ),
        st.sampled_from([each[:-1] for each in _GOOD.values()]),
    ),
)
def test_what_pins_nothing_is_refused_once_where_it_stands(key: str, text: str) -> None:
    pins = {**_GOOD, key: text}
    lines = [f"    {each}: {value}" for each, value in pins.items()]
    with pytest.raises(ProjectErrors) as caught:
        parse_lock("\n".join(["odfbuild: 1", "inputs:", "  hub/rates:", *lines, ""]))
    (found,) = caught.value.found
    assert found.span is not None
    assert (found.span.line, found.span.column) == (4 + list(pins).index(key), 7 + len(key))
    assert found.what.startswith(f"odfbuild.lock: '{key}' of the input hub/rates is ")
    assert "odfbuild lock" in found.fix
