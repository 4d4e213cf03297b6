"""The national table: 26 whole revisions, each taken in as what changed since the one before."""

from itertools import pairwise

from tests.real.building import NATIONAL, NATIONAL_FILES, Building, without
from tests.real.published import NATIONAL_COLUMNS, changed, header, national
from tests.real.replay import bag, replay

TABLES = [national(path) for path in NATIONAL_FILES]


def test_the_revisions_are_as_odd_as_they_are_said_to_be() -> None:
    texts = [path.read_bytes() for path in NATIONAL_FILES]
    assert len(texts) == 26
    assert sum(b"\r" in text and b"\n" not in text for text in texts) == 1
    assert len({tuple(header(path)) for path in NATIONAL_FILES}) == 7
    changes = [changed(before, after) for before, after in pairwise(TABLES)]
    assert sum(op == 2 for each in changes for op, _, _ in each) > 100


def test_each_revision_is_taken_in_as_its_differences(whole: Building) -> None:
    slices = whole.slices(NATIONAL)
    assert len(slices) == len(TABLES)
    for before, after, found in zip([{}, *TABLES], TABLES, slices, strict=False):
        expected = [
            {"op": op, **(before if is_old else after)[key]}
            for op, key, is_old in changed(before, after)
        ]
        assert without(found, "offset", "system_time") == expected


def test_columns_stand_in_the_order_of_the_query_after_the_system_columns(whole: Building) -> None:
    system = ("offset", "op", "system_time")
    for rows in whole.slices(NATIONAL):
        assert tuple(rows[0]) == (*system, *NATIONAL_COLUMNS)


def test_replaying_up_to_any_round_gives_the_revision_of_that_round(whole: Building) -> None:
    rows = []
    for table, piece in zip(TABLES, whole.slices(NATIONAL), strict=True):
        rows += piece
        assert replay(rows) == bag(table.values())


def test_a_slice_has_the_system_time_of_its_block(whole: Building) -> None:
    blocks = [block for _, block in whole.dataset(NATIONAL).blocks()]
    times = [b.system_time.to_datetime() for b in blocks if getattr(b.event, "new_data", None)]
    found = [{row["system_time"] for row in rows} for rows in whole.slices(NATIONAL)]
    assert found == [{time} for time in times]
