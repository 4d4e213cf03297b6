"""The regional files: a ledger whose declaration is edited seven times as the files change."""

from odfbuild.odf.events import AddData
from tests.real.building import (
    FILES_OF_DECLARATIONS,
    POSITIVES,
    REGION_FILES,
    REGIONS,
    Building,
    declarations,
    declared_names,
    without,
)
from tests.real.expected import FIRST_FILES, ledger
from tests.real.published import header


def test_every_file_is_taken_in_by_one_of_the_declarations() -> None:
    assert len(declarations()) == len(FILES_OF_DECLARATIONS) == 8
    assert sum(FILES_OF_DECLARATIONS) == len(REGION_FILES) == 38


def test_the_rows_are_those_of_the_files_in_the_order_of_their_names(whole: Building) -> None:
    rows = whole.rows(REGIONS)
    columns = dict.fromkeys(name for name in rows[-1] if name not in {"offset", "system_time"})
    expected = [columns | {"op": 0} | row for rows in ledger() for row in rows]
    assert without(rows, "offset", "system_time") == expected
    assert [row["offset"] for row in rows] == list(range(len(rows)))


def test_columns_come_with_the_declaration_that_reads_them(whole: Building) -> None:
    slices = whole.slices(REGIONS)
    widths = [len(slices[at][0]) for at in FIRST_FILES[:-1]]
    assert widths == sorted(widths)
    assert "note" not in slices[FIRST_FILES[1] - 1][0]
    assert "note_it" in header(REGION_FILES[FIRST_FILES[1] - 1])
    added = {"codice_nuts_1", "totale_positivi_test_molecolare"}
    assert added <= slices[-1][0].keys()
    older = whole.rows(REGIONS)[: -sum(map(len, slices[FIRST_FILES[-2] :]))]
    assert all(row[name] is None for row in older for name in added)


def test_notes_keep_their_quotes_and_commas(whole: Building) -> None:
    notes = [row["note"] for row in whole.rows(REGIONS) if row["note"]]
    assert any('"indicazioni per la durata' in note for note in notes)
    assert any("verifiche, si è riscontrato" in note for note in notes)


def test_a_file_that_does_not_fit_holds_back_the_later_ones(whole: Building) -> None:
    per_file = [len(rows) for rows in ledger()]
    for number, step in enumerate(whole.steps[:-1]):
        refused = REGION_FILES[FIRST_FILES[number + 1]]
        assert step.done.code == 4
        assert step.rows[REGIONS] == sum(per_file[: FIRST_FILES[number + 1]])
        assert f"as-published/{refused.name}: " in step.done.err
        theirs, ours = header(refused), declared_names(declarations()[number])
        is_one_name = "set `separator: " in step.done.err  # the whole line is, then
        for some, others in () if is_one_name else ((theirs, ours), (ours, theirs)):
            lacking = [name for name in some if name not in others]
            assert all(name in step.done.err for name in lacking[:10])
        assert step.rows[POSITIVES] == 0
        assert f"skipped transform:{POSITIVES}" in step.done.out
    assert whole.steps[-1].done.code == 0


def test_other_datasets_do_not_move_while_the_regions_are_edited(whole: Building) -> None:
    first = whole.steps[0].heads
    for step in whole.steps[1:-1]:
        assert {k: v for k, v in step.heads.items() if k != REGIONS} == {
            k: v for k, v in first.items() if k != REGIONS
        }


def test_the_day_with_semicolons_gets_the_advice_that_helps(whole: Building) -> None:
    assert "set `separator: ';'`" in whole.steps[2].done.err
    assert "set `separator: ','`" in whole.steps[3].done.err


def test_each_round_is_one_block_that_names_its_file(whole: Building) -> None:
    events = [block.event for _, block in whole.dataset(REGIONS).blocks()]
    states = [e.new_source_state for e in events if isinstance(e, AddData)]
    assert [None if each is None else each.value for each in states] == [
        path.name for path in REGION_FILES
    ]
