"""Checks before a commit: rows that fail stay out, and so does what would be made of them."""

import json
from pathlib import Path

import pytest

from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.market import SETTINGS, dataset

GATED = SETTINGS + "gates: {data: error}\n"
CHECKS = """\
dataset: src
checks:
  - range: {column: v, min: 0}
    on: new-rows
  - not_null: v
    on: new-rows
    severity: warn
"""
BAD = "t,k,v\n2024-01-03,c,3\n2024-01-04,d,-4\n2024-01-05,e,-5\n"
MENDED = "t,k,v\n2024-01-03,c,3\n2024-01-04,d,4\n2024-01-05,e,\n"


def held(project: Path, settings: str = GATED, checks: str = CHECKS, rows: str = BAD) -> None:
    lay_out(
        project,
        {"odfbuild.yaml": settings, "tests/data/src.yaml": checks, "data/2.csv": rows},
    )


def rows_of(project: Path, name: str) -> int:
    return sum(
        piece.offset_interval.end - piece.offset_interval.start + 1
        for piece, _ in dataset(project, name).slices()
    )


def test_rows_that_fail_a_check_are_not_committed_nor_what_follows(
    ask: Inside, market: Path
) -> None:
    before = heads(market)
    held(market)
    done = ask("apply", "--yes")
    assert done.code == 7
    assert heads(market) == before
    assert "skipped transform:out, because ingest:src failed" in done.out
    said = done.err[done.err.index("tests/data/src.yaml") :].splitlines()
    assert said[0] == (
        "tests/data/src.yaml:3:5: error[data-check]: src: check range(v): 2 of 3 new rows fail"
    )
    assert said[1:5] == [
        "  offset 3: v=-4",
        "  offset 4: v=-5",
        "  3 |   - range: {column: v, min: 0}",
        "    |     ^^^^^",
    ]
    assert said[5] == (
        "  why: the rows of data/2.csv would have got these offsets, and were not committed"
    )


def test_once_the_rows_are_mended_they_go_in_and_warnings_are_told(
    ask: Inside, market: Path
) -> None:
    held(market)
    assert ask("apply", "--yes").code == 7
    lay_out(market, {"data/2.csv": MENDED})
    done = ask("apply", "--yes", "-o", "json")
    assert done.code == 0
    answer = json.loads(done.out)
    (note,) = answer["notes"]
    assert (note["code"], note["level"]) == ("data-check", "warning")
    assert note["what"].splitlines() == [
        "src: check not_null(v): 1 of 3 new rows fails",
        "  offset 4: v=null",
    ]
    assert rows_of(market, "src") == 5


def test_a_gate_that_warns_lets_all_in(ask: Inside, market: Path) -> None:
    held(market, SETTINGS + "gates: {data: warn}\n")
    done = ask("apply", "--yes")
    assert done.code == 0
    assert "warning[data-check]: src: check range(v): 2 of 3 new rows fail" in done.err
    assert rows_of(market, "src") == 5


@pytest.mark.parametrize("gates", ["", "gates: {data: off}\n"])
def test_without_a_gate_checks_are_left_to_the_tests(ask: Inside, market: Path, gates: str) -> None:
    held(market, SETTINGS + gates)
    assert (ask("apply", "--yes").code, rows_of(market, "src")) == (0, 5)


def test_what_passed_before_stays_and_the_exit_code_says_partly(ask: Inside, market: Path) -> None:
    held(market, checks=CHECKS.replace("dataset: src", "dataset: out"))
    done = ask("apply", "--yes")
    assert done.code == 4
    assert (rows_of(market, "src"), rows_of(market, "out")) == (5, 2)
    assert "skipped transform:report, because transform:out failed" in done.out


def test_several_slices_of_one_commit_go_in_together_or_not(ask: Inside, market: Path) -> None:
    cut = GATED + "engine: {spark: {slice_rows: 1000}}\n"
    before = heads(market)
    many = [f"2024-01-03,k{number},{number}\n" for number in range(2500)]
    held(market, cut, rows="".join(["t,k,v\n", *many[:-1], "2024-01-03,last,-1\n"]))
    assert ask("apply", "--yes").code == 7
    assert heads(market) == before
    lay_out(market, {"data/2.csv": "".join(["t,k,v\n", *many])})
    assert ask("apply", "--yes").code == 0
    assert (len(dataset(market, "src").slices()), rows_of(market, "src")) == (1 + 3, 2502)


def test_what_is_wrong_with_the_files_of_checks_is_told_before_anything_runs(
    ask: Inside, market: Path
) -> None:
    before = heads(market)
    held(market, checks="dataset: src\nchecks:\n  - not_nul: v\n  - range: {column: v}\n")
    done = ask("apply", "--yes")
    assert done.code == 1
    assert heads(market) == before
    assert "tests/data/src.yaml:3:5: error[test-file]: 'not_nul' is not a check" in done.err
    assert "did you mean 'not_null'?" in done.err
    assert "tests/data/src.yaml:4:5: error[test-file]: no bound" in done.err


PUSHED = """\
kind: DatasetSnapshot
version: 1
content:
  name: pushed
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: [t DATE NOT NULL, v BIGINT]}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: t}
"""


def test_what_is_pushed_goes_through_the_same_checks(ask: Inside, market: Path) -> None:
    lay_out(market, {"datasets/pushed.yaml": PUSHED, "odfbuild.yaml": GATED})
    assert ask("apply", "--yes").code == 0
    lay_out(
        market,
        {
            "tests/data/pushed.yaml": CHECKS.replace("dataset: src", "dataset: pushed"),
            "bad.ndjson": '{"t": "2024-01-01", "v": -1}\n',
            "good.ndjson": '{"t": "2024-01-01", "v": 1}\n',
        },
    )
    before = heads(market)
    done = ask("ingest", "pushed", str(market / "bad.ndjson"))
    assert done.code == 7
    assert "error[data-check]: check range(v): 1 of 1 new rows fails" in done.err
    assert heads(market) == before
    assert ask("ingest", "pushed", str(market / "good.ndjson")).code == 0
    assert rows_of(market, "pushed") == 1
