"""Airlines: whole tables, packed; one revision was cut off upstream, and mended in the next."""

from tests.real.building import (
    AIRLINE_FILES,
    AIRLINES,
    REPAIRED,
    REPAIRED_FILE,
    Building,
    without,
)
from tests.real.expected import timed
from tests.real.published import Row, airlines, changed, day_of
from tests.real.replay import bag, replay

TABLES = [airlines(path) for path in AIRLINE_FILES]
DAYS = [day_of(path.name) for path in AIRLINE_FILES]


def test_the_files_are_as_odd_as_they_are_said_to_be() -> None:
    assert [len(table) for table in TABLES] == [5888, 1000, 5963, 5979]
    assert TABLES[0][11806]["name"] == "Compagnie Africaine d\\'Aviation"
    assert TABLES[0][13394]["icao"] == "\\'\\"


def test_each_revision_is_taken_in_as_its_differences(whole: Building) -> None:
    slices = whole.slices(AIRLINES)
    before: dict[int, Row] = {}
    for table, found in zip(timed(AIRLINE_FILES), slices, strict=True):
        expected = [
            {"op": op, **(before if is_old else table)[key]}
            for op, key, is_old in changed(before, table)
        ]
        assert without(found, "offset", "system_time") == expected
        before = table


def test_what_a_cut_off_file_took_away_comes_back(whole: Building) -> None:
    _, cut, mended, _ = whole.slices(AIRLINES)
    gone = {row["airline_id"] for row in cut if row["op"] == 1}
    back = {row["airline_id"] for row in mended if row["op"] == 0}
    assert len(gone) == 4888
    assert gone & TABLES[2].keys() <= back
    assert {row["event_time"] for row in cut if row["op"] == 1} == {DAYS[0]}
    assert {row["event_time"] for row in mended if row["op"] == 0} == {DAYS[2]}


def test_replaying_up_to_any_round_gives_the_revision_of_that_round(whole: Building) -> None:
    rows = []
    for table, piece in zip(timed(AIRLINE_FILES), whole.slices(AIRLINES), strict=True):
        rows += piece
        assert replay(rows) == bag(table.values())


def test_a_zipped_revision_is_read_like_the_others(whole: Building) -> None:
    table, day = airlines(REPAIRED_FILE), day_of(REPAIRED_FILE.name)
    expected = [{"op": 0, "event_time": day, **table[key]} for key in sorted(table)]
    assert len(expected) == 5928
    assert without(whole.rows(REPAIRED), "offset", "system_time") == expected
