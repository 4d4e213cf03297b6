"""What is made of the tables: after every step the query's result over what came in until then."""

import pytest

from tests.real.building import (
    AIRLINE_FILES,
    AIRLINES,
    CODES,
    DERIVATIVES,
    LOAD,
    NATIONAL,
    NATIONAL_FILES,
    POSITIVES,
    REGIONS,
    ROOTS,
    Building,
)
from tests.real.expected import ledger, timed
from tests.real.published import Row, airline_codes, hospital_load, national, positives
from tests.real.replay import Table, bag, replay

REGION_ROWS = [row for rows in ledger() for row in rows]


def expected(name: str, national_at: int, regions_at: int, airlines_at: int) -> Table:
    """Return a derivative over the first so many revisions, region rows and airline tables."""
    if name == CODES:
        return bag(airline_codes(timed(AIRLINE_FILES)[airlines_at - 1]))
    table = national(NATIONAL_FILES[national_at - 1])
    if name == LOAD:
        return bag(hospital_load(table))
    return bag(positives(table, REGION_ROWS[:regions_at]))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_made_in_one_step_is_its_query(name: str, whole: Building) -> None:
    assert len(whole.slices(name)) == 1
    assert replay(whole.rows(name)) == expected(name, 26, len(REGION_ROWS), 4)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_is_its_query_after_every_apply(name: str, portions: Building) -> None:
    rows = portions.rows(name)
    tables = [len(rows) for rows in _up_to(portions.slices(AIRLINES))]
    for at, step in enumerate(portions.steps, start=1):
        seen = tables.index(step.rows[AIRLINES]) + 1
        assert replay(rows[: step.rows[name]]) == expected(name, at, step.rows[REGIONS], seen)


def _up_to(slices: list[list[Row]]) -> list[list[Row]]:
    rows: list[Row] = []
    found = []
    for each in slices:
        rows = [*rows, *each]
        found.append(rows)
    return found


def test_portions_go_through_in_as_many_steps(portions: Building) -> None:
    assert {step.done.code for step in portions.steps} == {0}
    assert len(portions.slices(NATIONAL)) == len(portions.slices(POSITIVES)) == 26
    assert len(portions.slices(CODES)) == 4


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_does_not_depend_on_the_portions(
    name: str, whole: Building, portions: Building
) -> None:
    assert [_untimed(row) for row in whole.rows(name)] == [
        _untimed(row) for row in portions.rows(name)
    ]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_ends_the_same_in_any_portions(
    name: str, whole: Building, portions: Building
) -> None:
    assert whole.rows(name) != portions.rows(name)
    assert replay(whole.rows(name)) == replay(portions.rows(name))


def _untimed(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "system_time"}
