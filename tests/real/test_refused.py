"""Files that are no good: refused by name and line, nothing lost, and mended by the next apply."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.real.building import (
    AIRLINE_FILES,
    AIRLINES,
    CODES,
    DATA,
    FILES_OF_DECLARATIONS,
    REGION_FILES,
    REGIONS,
    Building,
    declarations,
    declared_names,
    without,
)
from tests.real.published import Row, airline_codes, airlines, day_of, regional
from tests.real.replay import bag, replay

LINES = dict(zip(AIRLINE_FILES, (60, 50, 70, 0), strict=False))  # of each revision: enough
BAD_LINE = 41


def first_lines(path: Path) -> bytes:
    return b"".join(gzip.decompress(path.read_bytes()).splitlines(keepends=True)[: LINES[path]])


def cut_in_a_quoted_value(text: bytes) -> bytes:
    """Cut in the middle of the name of an airline."""
    lines = text.splitlines(keepends=True)
    name = lines[BAD_LINE - 1].index(b'"')
    return gzip.compress(b"".join(lines[: BAD_LINE - 1]) + lines[BAD_LINE - 1][: name + 4])


def one_field_more(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    lines[BAD_LINE - 1] = lines[BAD_LINE - 1].rstrip() + b',"and more"\n'
    return gzip.compress(b"".join(lines))


def key_that_is_no_number(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    lines[BAD_LINE - 1] = b"x" + lines[BAD_LINE - 1]
    return gzip.compress(b"".join(lines))


def cut_archive(text: bytes) -> bytes:
    packed = gzip.compress(text)
    return packed[: len(packed) // 2]


@pytest.fixture
def packed(engine: SparkEngine, tmp_path: Path) -> Building:
    """Return the airlines and their codes, built from the first revision."""
    building = Building.of_example(tmp_path / "project", "airlines", "airline-codes")
    building.place(AIRLINE_FILES[0]).write_bytes(gzip.compress(first_lines(AIRLINE_FILES[0])))
    assert building.apply().done.code == 0
    return building


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (cut_in_a_quoted_value, BAD_LINE),
        (one_field_more, BAD_LINE),
        (key_that_is_no_number, BAD_LINE),
        (cut_archive, None),
    ],
)
def test_a_damaged_file_is_refused_and_taken_in_when_it_is_mended(
    damage: Callable[[bytes], bytes], line: int | None, packed: Building
) -> None:
    _, second, third, _ = AIRLINE_FILES
    built = packed.steps[-1]
    files = stored(packed)
    packed.place(second).write_bytes(damage(first_lines(second)))
    packed.place(third).write_bytes(gzip.compress(first_lines(third)))
    refused = packed.apply()
    assert refused.done.code == 1
    assert (refused.heads, refused.rows) == (built.heads, built.rows)
    assert stored(packed) == files
    place = second.name if line is None else f"{second.name}:{line}: "
    assert place in refused.done.err
    assert third.name not in refused.done.err
    assert packed.run("verify").code == 0
    packed.place(second).write_bytes(gzip.compress(first_lines(second)))
    assert packed.apply().done.code == 0
    assert len(packed.slices(AIRLINES)) == 3
    assert replay(without(packed.rows(AIRLINES), "event_time")) == bag(table(third).values())
    assert replay(without(packed.rows(CODES), "event_time")) == codes(table(third))


def stored(building: Building) -> set[str]:
    """Return the names of all files of all datasets."""
    folder = building.root / ".odfbuild" / "datasets"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def table(path: Path) -> dict[int, Row]:
    ids = [int(line.split(b",")[0]) for line in first_lines(path).splitlines()]
    whole = airlines(path)
    return {each: whole[each] for each in ids}


def codes(airlines: dict[int, Row]) -> object:
    timed = {key: {"event_time": None, **row} for key, row in airlines.items()}
    return bag(without(airline_codes(timed), "event_time"))


@pytest.fixture
def regions(engine: SparkEngine, tmp_path: Path) -> Building:
    return Building.of_example(tmp_path / "project", "regions")


def test_refused_again_is_another_exit_code_because_nothing_was_done(regions: Building) -> None:
    regions.feed(*REGION_FILES[: FILES_OF_DECLARATIONS[0] + 1])
    assert regions.apply().done.code == 4
    first = regions.steps[-1]
    again = regions.apply()
    assert again.done.code == 1
    assert again.heads == first.heads
    assert f"{REGION_FILES[FILES_OF_DECLARATIONS[0]].name}: 19 columns" in again.done.err


def test_a_row_with_a_field_too_many_is_named_by_its_line(regions: Building) -> None:
    lines = REGION_FILES[0].read_text("utf-8").splitlines()
    lines[6] += ",1"
    regions.place(REGION_FILES[0]).write_text("\n".join(lines), "utf-8")
    done = regions.apply().done
    assert done.code == 4  # the definition was committed
    assert f"{REGION_FILES[0].name}:7: " in done.err
    assert regions.steps[-1].rows[REGIONS] == 0


def test_what_was_corrected_later_is_not_news_for_a_ledger(regions: Building) -> None:
    regions.declare(len(declarations()) - 1)
    days = [path for path in REGION_FILES if day_of(path.name).strftime("%Y%m%d") > "20210117"][:2]
    regions.feed(*days)
    before = regions.apply()
    late = DATA / "italy-covid-regions" / "corrected" / "dpc-covid19-ita-regioni-20210117.csv"
    for corrected in (late, *(late.with_name(path.name) for path in days)):
        name = corrected.name.replace("-2021", "-corrected-2021")
        (regions.place(days[0]).with_name(name)).symlink_to(corrected)
    after = regions.apply()
    names = declared_names(declarations()[-1])
    assert any(regional(path, names) != regional(late.with_name(path.name), names) for path in days)
    added = regions.rows(REGIONS)[before.rows[REGIONS] :]
    expected = regional(late, names)
    assert [row["denominazione_regione"] for row in added] == [
        row["denominazione_regione"] for row in expected
    ]
    assert {row["event_time"] for row in added} == {day_of(late.name)}
    assert after.rows[REGIONS] == before.rows[REGIONS] + len(expected)
    state = regions.dataset(REGIONS).state()
    assert state is not None
    assert state.watermark is not None
    assert state.watermark.to_datetime() == day_of(days[-1].name)
    assert state.source_state["default"].value == "dpc-covid19-ita-regioni-corrected-20210119.csv"
