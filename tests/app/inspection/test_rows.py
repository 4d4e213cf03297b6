"""Rows from Python: what a plain reading of the Parquet files gives, in part or whole."""

import operator
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odfbuild
from odfbuild.errors import OdfBuildError, StateError, UsageRefusedError
from tests.support.projects import environment

NAMES = ("acme.stock", "log", "copy")
COLUMNS = ("t", "k", "v")
SYSTEM = ("offset", "op", "system_time")
COMES = (0, 3)
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "==": operator.eq, ">": operator.gt,
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.sampled_from(["a", "b", "z", ""]),
    "v": st.integers(0, 8),
    "t": st.dates(date(2024, 1, 1), date(2024, 1, 10)),
}


def logged(folder: Path, name: str, blocks: int | None = None) -> list[dict[str, Any]]:
    """Return the records of a dataset straight from its files, in the order of their offsets."""
    dataset = odfbuild.find_dataset(odfbuild.open_project(folder), name)
    home = folder / ".odfbuild" / "datasets"
    rows: list[dict[str, Any]] = []
    for _, block in list(dataset.blocks())[:blocks]:
        data = getattr(block.event, "new_data", None)
        if data is not None:
            (path,) = home.glob(f"*/data/{data.physical_hash}")
            rows += pq.read_table(path).to_pylist()
    return sorted(rows, key=lambda row: int(row["offset"]))


def standing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replay records one by one: a row that is taken back is the first that is equal to it."""
    left: list[dict[str, Any]] = []
    for row in rows:
        values = {name: each for name, each in row.items() if name not in SYSTEM}
        if row["op"] in COMES:
            left.append(values)
        else:
            left.remove(values)
    return left


CONDITIONS = st.one_of(
    [
        st.tuples(st.just(name), st.sampled_from(list(COMPARISONS)), values)
        for name, values in VALUES.items()
    ]
)


@given(
    name=st.sampled_from(NAMES),
    current=st.booleans(),
    columns=st.none() | st.lists(st.sampled_from(COLUMNS), unique=True),
    condition=st.none() | CONDITIONS,
)
def test_rows_are_those_of_the_files(
    name: str,
    current: bool,
    columns: list[str] | None,
    condition: tuple[str, str, Any] | None,
    built: Path,
    project: odfbuild.DataProject,
) -> None:
    wanted = logged(built, name)
    if current:
        wanted = standing(wanted)
    where = None
    if condition is not None:
        column, sign, value = condition
        where = COMPARISONS[sign](pc.field(column), pa.scalar(value))
        wanted = [
            row for row in wanted
            if row[column] is not None and COMPARISONS[sign](row[column], value)
        ]  # fmt: skip
    if columns is not None:
        wanted = [{each: row[each] for each in columns} for row in wanted]
    dataset = project.dataset(name)
    assert dataset.read(columns, where, current=current).to_pylist() == wanted
    batches = dataset.scan(columns, where, current=current)
    assert [row for batch in batches for row in batch.to_pylist()] == wanted


@pytest.mark.parametrize("name", NAMES)
def test_what_was_known_at_each_block(
    name: str, built: Path, project: odfbuild.DataProject
) -> None:
    history = project.dataset(name).history()
    for number, row in enumerate(history.to_pylist(), 1):
        known = logged(built, name, number)
        if any(history.column("event")[each].as_py() == "SetDataSchema" for each in range(number)):
            for asked in (row["block"], str(row["sequence"]), row["sequence"]):
                found = odfbuild.read(name, project=built, as_at=asked)
                assert found.to_pylist() == standing(known)


def test_times_may_be_those_of_python(project: odfbuild.DataProject) -> None:
    stock = project.dataset("acme.stock")
    by_text = stock.read(as_of="2024-01-02").to_pylist()
    assert by_text == stock.read(as_of=date(2024, 1, 2)).to_pylist()
    assert by_text == stock.read(as_of=datetime(2024, 1, 2)).to_pylist()
    assert by_text == stock.read(as_of=datetime(2024, 1, 2, tzinfo=UTC)).to_pylist()
    assert [row["k"] for row in by_text] == ["a"]
    assert stock.read(as_at=datetime.now(UTC)).num_rows == stock.read().num_rows


def test_what_is_not_there_is_named(project: odfbuild.DataProject) -> None:
    with pytest.raises(StateError, match=r"no dataset named 'acme\.stok'") as unknown:
        odfbuild.read("acme.stok", project=project)
    assert "acme.stock" in unknown.value.fix
    with pytest.raises(UsageRefusedError, match="no column 'kk'") as lacking:
        project.dataset("log").read(["kk"])
    assert "'k'" in lacking.value.fix
    with pytest.raises(OdfBuildError, match="not a time"):
        project.dataset("log").read(as_of="yesterday")


def test_it_is_found_from_the_working_directory(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built / "datasets")
    assert odfbuild.read("LOG", columns=["k"]).column("k").to_pylist()[-1] == "z"


def test_nothing_of_spark_is_imported(built: Path) -> None:
    text = (
        "import sys, odfbuild\n"
        "project = odfbuild.open_project(sys.argv[1])\n"
        "project.dataset('log')._repr_html_(), project.dataset('acme.stock').read()\n"
        "print(project.query('select count(*) as n from log').to_pydict())\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'py4j'))])\n"
    )
    command = [sys.executable, "-c", text, str(built)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert found.stdout == "{'n': [3]}\n[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": "k"}, "columns is 'k'"),
        ({"columns": {"k": 1}}, "columns is a dict"),
        ({"columns": [1]}, "columns is 1"),
        ({"columns": 5}, "columns is 5"),
        ({"key": "k", "as_of": "2024-01-01"}, "key is 'k'"),
        ({"key": None}, "key is None"),
        ({"key": ["k"]}, "key without as_of"),
        ({"as_at": -5}, "as_at is -5"),
        ({"as_at": True}, "as_at is True"),
        ({"as_of": 5}, "as_of is 5"),
        ({"as_of": True}, "as_of is True"),
        ({"as_of": b"2024"}, "as_of is a bytes"),
        ({"as_of": "2024-01-01", "current": False}, "as_of and the changelog exclude each other"),
        ({"where": "v > 1"}, "where is 'v > 1'"),
        ({"where": pc.field("nope") > 1}, "No match for FieldRef"),
        ({"where": pc.field("k") > 1}, "where: Function 'greater'"),
        ({"where": pc.field("v")}, "must evaluate to bool"),
        ({"where": pc.scalar(1) / (pc.field("v") - 5) > 0}, "where: divide by zero"),
        ({"name": 5}, "name is 5"),
        ({"project": 5}, "directory is 5"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], says: str, built: Path) -> None:
    given = {"name": "acme.stock", "project": built, **arguments}
    with pytest.raises(UsageRefusedError) as found:
        odfbuild.read(**given)
    assert says in found.value.what
    assert found.value.fix


def test_columns_may_come_from_anything_in_an_order(project: odfbuild.DataProject) -> None:
    log = project.dataset("log")
    wanted = log.read(["v", "k"]).to_pylist()
    assert log.read(each for each in ("v", "k")).to_pylist() == wanted  # type: ignore[arg-type]
    assert log.last(2).to_pylist() == log.read().to_pylist()[-2:]
    with pytest.raises(UsageRefusedError, match="rows is -1"):
        log.last(-1)


def test_instants_of_all_zones_are_times(project: odfbuild.DataProject) -> None:
    stock = project.dataset("acme.stock")
    odd = timezone(timedelta(seconds=30))
    assert stock.read(as_of=datetime(2024, 1, 2, 0, 0, 30, tzinfo=odd)).num_rows == 1
    with pytest.raises(UsageRefusedError, match="as_of is a datetime"):
        stock.read(as_of=datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
