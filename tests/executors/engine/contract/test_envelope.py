"""The envelope of messages: what a proto3 reader takes, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProtocolError
from odfbuild.executors.engine.contract.envelope import BadMessageError, content, enveloped
from tests.support.servers.engine import envelope

_OTHERS = st.sampled_from([b"\x10\x96\x01", b"\x12\x02hi", b"\x1d\0\0\0\0", b"\x21" + b"\0" * 8])


@given(st.binary(max_size=70_000))
def test_bytes_come_out_of_the_envelope_as_they_went_in(buffer: bytes) -> None:
    assert enveloped(buffer) == envelope(buffer)
    assert content(enveloped(buffer)) == buffer


@given(st.binary(max_size=300), st.lists(_OTHERS), st.lists(_OTHERS))
def test_fields_of_later_versions_are_passed_over(
    buffer: bytes, before: list[bytes], after: list[bytes]
) -> None:
    assert content(b"".join([*before, envelope(buffer), *after])) == buffer


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    assert content(envelope(b"a") + envelope(b"b")) == b"b"


@pytest.mark.holds("engine-messages")
@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x0a", b"\x0a\x05abc", b"\x08\x01", b"\x0b", b"\x0a" + b"\xff" * 9 + b"\x01",
        b"\x0a" + b"\xff" * 11, b"\x02\x00", b"\x10", b"\x1d\0", b"\x0d\0\0\0\0", b"\x12\x01a",
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessageError):
        content(data)


@pytest.mark.holds("engine-messages")
@given(st.binary(max_size=60))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    try:
        found = content(data)
    except ProtocolError:
        return
    assert found in data
