"""The least that brings something about: laws, over things that need each other in odd ways."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.provenance.minimal import Least, least

Things = tuple[int, ...]
Rule = Callable[[Things], bool]

ways = st.lists(st.frozensets(st.integers(0, 90), max_size=5), min_size=1, max_size=4)


def asked(rule: Rule) -> Callable[[Sequence[Things]], list[bool]]:
    return lambda selections: [rule(each) for each in selections]


def any_of(found: Sequence[frozenset[int]], spoilt: frozenset[int] = frozenset()) -> Rule:
    """Hold where one of some ways is there as a whole; a thing that spoils needs all others."""
    whole = frozenset(range(91))

    def rule(things: Things) -> bool:
        there = frozenset(things)
        return there == whole or (
            any(each <= there for each in found) and not (spoilt & there and len(there) % 2)
        )

    return rule


@given(ways, st.frozensets(st.integers(0, 90), max_size=3))
def test_it_holds_alone_and_nothing_can_be_left_out(
    found: list[frozenset[int]], spoilt: frozenset[int]
) -> None:
    rule = any_of(found, spoilt)
    kept = least(91, asked(rule), most=10**6)
    assert kept.sure
    assert rule(kept.things)
    for each in kept.things:
        assert not rule(tuple(other for other in kept.things if other != each))


@given(ways)
def test_of_ways_that_are_apart_one_is_found_whole(found: list[frozenset[int]]) -> None:
    kept = least(91, asked(any_of(found)), most=10**6)
    assert frozenset(kept.things) in found


@given(ways, st.integers(0, 300))
def test_what_is_left_when_tries_are_spent_still_holds(
    found: list[frozenset[int]], most: int
) -> None:
    rule = any_of(found)
    kept = least(91, asked(rule), most=most)
    assert rule(kept.things)


@given(st.integers(1, 5), st.integers(1, 40))
def test_of_equals_the_first_is_found(count: int, equal: int) -> None:
    rule = asked(lambda things: len(things) >= count)
    assert least(count + equal, rule, most=10**6) == Least(tuple(range(count)), sure=True)


def test_little_is_found_among_much_in_few_tries() -> None:
    tried = 0

    def holds(selections: Sequence[Things]) -> list[bool]:
        nonlocal tried
        tried += len(selections)
        return [{7, 70_000} <= set(each) for each in selections]

    assert least(100_000, holds, most=200) == Least((7, 70_000), sure=True)
    assert tried < 150


def test_what_holds_by_itself_needs_nothing() -> None:
    assert least(3, asked(lambda _: True), most=9) == Least((), sure=True)
