"""Messages of Protocol Buffers: what is written is read, and hostile bytes are refused in time."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.host.protobuf import (
    MOST_VALUES,
    MalformedMessageError,
    field,
    fields,
    numbers,
    varint,
)

MESSAGES = st.lists(
    st.tuples(st.integers(1, (1 << 29) - 1), st.integers(0, (1 << 64) - 1) | st.binary()),
    max_size=50,
)


@given(MESSAGES)
def test_what_is_written_is_read(message: list[tuple[int, int | bytes]]) -> None:
    model: dict[int, list[int | bytes]] = {}
    for number, value in message:
        model.setdefault(number, []).append(value)
    assert fields(b"".join(field(*each) for each in message)) == model


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=50))
def test_packed_numbers_are_read(given: list[int]) -> None:
    assert numbers(b"".join(map(varint, given))) == given


@given(st.integers(-(1 << 63), -1))
def test_a_negative_number_has_64_bits(number: int) -> None:
    assert fields(field(1, number)) == {1: [number + (1 << 64)]}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    for read in (fields, numbers):
        try:
            read(data)
        except MalformedMessageError as error:
            assert str(error)


@given(MESSAGES, st.randoms(use_true_random=False))
def test_a_message_that_is_cut_has_a_part_of_its_values(
    message: list[tuple[int, int | bytes]], chance: random.Random
) -> None:
    data = b"".join(field(*each) for each in message)
    try:
        found = fields(data[: chance.randrange(len(data) + 1)])
    except MalformedMessageError:
        return
    whole = fields(data)
    assert all(whole[number][: len(values)] == values for number, values in found.items())


@pytest.mark.parametrize("piece", [b"\x08\x00", b"\x0a\x00", b"\x0d\0\0\0\0"])
def test_a_message_of_very_many_values_is_refused_at_once(piece: bytes) -> None:
    assert len(fields(piece * MOST_VALUES)[1]) == MOST_VALUES
    begun = time.monotonic()
    with pytest.raises(MalformedMessageError, match="more than 1,000"):
        fields(piece * (4 << 20))
    with pytest.raises(MalformedMessageError, match="more than 1,000"):
        numbers(b"\x01" * (4 << 20))
    assert time.monotonic() - begun < 1
