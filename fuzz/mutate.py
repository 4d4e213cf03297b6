"""Change inputs at random, without looking at what that does: for where atheris is missing."""

import random
from collections.abc import Callable, Iterator, Sequence

__all__ = ["mutations"]

_LONGEST = 8192
_ODD = (0, 1, 2, 3, 4, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, -1)


def mutations(corpus: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Yield changed inputs without end; the same seed gives the same ones."""
    chance = random.Random(seed)  # noqa: S311
    while True:
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            chance.choice(_WAYS)(data, chance, corpus)
        yield bytes(data[:_LONGEST])


def _flip(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _number(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    """Write a number that often marks a border, where an offset or length may stand."""
    size = chance.choice((1, 2, 4, 8))
    if len(data) >= size:
        at = chance.randrange(len(data) - size + 1)
        value = chance.choice(_ODD) if chance.random() < 0.7 else chance.randrange(len(data) + 8)
        data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _cut(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    first = chance.randrange(len(data) + 1)
    del data[first : first + chance.choice((1, 1, 4, 16, len(data)))]


def _repeat(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    first = chance.randrange(len(data) + 1)
    piece = data[first : first + chance.choice((1, 2, 4, 16, 64))]
    data[first:first] = piece * chance.choice((1, 1, 2, 50))


def _splice(data: bytearray, chance: random.Random, corpus: Sequence[bytes]) -> None:
    other = chance.choice(corpus)
    first = chance.randrange(len(other) + 1)
    at = chance.randrange(len(data) + 1)
    data[at : at + chance.choice((0, 4, 32))] = other[first : first + chance.choice((1, 8, 64))]


_WAYS: tuple[Callable[[bytearray, random.Random, Sequence[bytes]], None], ...] = (
    _flip,
    _number,
    _number,
    _cut,
    _repeat,
    _splice,
)
