"""Times finer than datasets keep: refused where they are declared, told where they are met."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.fine_times import Cut, FineTimes, noting, noting_column
from odfbuild.executors.engine.cut_times import FineKeyError, check_read_keys
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.odf.events import (
    MergeStrategyLedger,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
    TransformSql,
)
from odfbuild.odf.schema.ddl import fine_timestamps
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import root

FINE = "2024-01-01T00:00:00.000001Z"
COARSE = "2024-01-01T00:00:00.001000Z"
DDL = ("t TIMESTAMP", "k STRING")
STEPS: dict[str, ReadStep] = {
    "csv": ReadStepCsv(ddl_schema=DDL, header=True),
    "ndjson": ReadStepNdJson(ddl_schema=DDL),
    "json": ReadStepJson(ddl_schema=DDL),
    "parquet": ReadStepParquet(ddl_schema=DDL),
    "parquet as it is": ReadStepParquet(),
}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(lay_out(tmp_path / "shop", {}), capsys, monkeypatch, FakeEngine())


@pytest.mark.parametrize(
    "columns",
    [
        "t TIMESTAMP(6), k STRING NOT NULL",
        "t TIMESTAMP(9), k STRING NOT NULL",
        "t TIMESTAMP, k TIMESTAMP_NTZ(4)",
        "t TIMESTAMP, k 'ARRAY<TIMESTAMP(6)>'",
    ],
)
def test_a_time_finer_than_is_kept_is_refused_where_it_is_declared(
    run: Inside, columns: str
) -> None:
    quoted = ", ".join(f'"{each.strip()}"'.replace("'", "") for each in columns.split(","))
    lay_out(run.project, {"datasets/src.yaml": root(columns=quoted)})
    done = run("check")
    assert done.code != 0
    assert "error[fine-time]" in done.err + done.out
    assert "TIMESTAMP(3)" in done.err + done.out


def test_a_type_of_the_newer_form_is_refused_alike(run: Inside) -> None:
    text = root().replace(
        "schema: [t DATE NOT NULL, k STRING NOT NULL, v BIGINT]",
        "schema: {fields: [{name: t, type: {kind: Timestamp, unit: Microsecond}}, "
        "{name: k, type: String}]}",
    )
    lay_out(run.project, {"datasets/src.yaml": text})
    done = run("check")
    assert "error[fine-time]" in done.err + done.out


def written(folder: Path, form: str, *times: str) -> Path:
    path = folder / "rows"
    match form.split(maxsplit=1)[0]:
        case "csv":
            path.write_text("t,k\n" + "".join(f"{time},a\n" for time in times))
        case "ndjson":
            path.write_text("".join(f'{{"t": "{time}", "k": "a"}}\n' for time in times))
        case "json":
            rows = ", ".join(f'{{"t": "{time}", "k": "a"}}' for time in times)
            path.write_text(f"[{rows}]")
        case _:
            values = pa.array([time.removesuffix("Z") for time in times]).cast(pa.timestamp("us"))
            table = {"t": values, "k": pa.array(["a"] * len(times))}
            pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize("form", STEPS)
def test_every_reader_tells_the_first_time_that_it_cuts(tmp_path: Path, form: str) -> None:
    for times, cut in (((COARSE,), False), ((COARSE, FINE), True)):
        told = ReadNotes()
        read(STEPS[form], written(tmp_path, form, *times), staging=tmp_path, name="f", notes=told)
        found = told.fine_times.first
        assert set(found) == ({"t"} if cut else set())
        assert not cut or ("00:00.000001" in found["t"].value and found["t"].row == 2)


def test_an_apply_warns_of_times_that_are_cut(run: Inside) -> None:
    lay_out(
        run.project,
        {
            "datasets/src.yaml": root(columns="t TIMESTAMP, k STRING NOT NULL, v BIGINT"),
            "data/1.csv": f"t,k,v\n{COARSE},a,1\n{FINE},b,2\n",
        },
    )
    done = run("apply", "--yes")
    assert done.code == 0
    assert "warning[times-cut]: data/1.csv has times finer than milliseconds" in done.err
    assert f"column 't', the first is {FINE} in row 2" in done.err


KEYED = {
    "Ledger": "{kind: Ledger, primaryKey: [t, k]}",
    "Snapshot": "{kind: Snapshot, primaryKey: [t]}",
    "compared": "{kind: Snapshot, primaryKey: [k], compareColumns: [t]}",
    "UpsertStream": "{kind: UpsertStream, primaryKey: [t]}",
}


@pytest.mark.parametrize("merge", KEYED)
def test_an_input_that_is_merged_by_cut_times_is_refused(run: Inside, merge: str) -> None:
    columns = "t TIMESTAMP, k STRING NOT NULL, v BIGINT"
    lay_out(
        run.project,
        {
            "datasets/src.yaml": root(columns=columns, merge=KEYED[merge]),
            "data/1.csv": f"t,k,v\n{COARSE},a,1\n",
        },
    )
    assert run("apply", "--yes").code == 0
    before = heads(run.project)
    lay_out(run.project, {"data/2.csv": f"t,k,v\n{COARSE},a,1\n{FINE},a,2\n"})
    done = run("apply", "--yes")
    assert done.code != 0
    assert ": data/2.csv: the key column 't'" in done.err
    assert f"{FINE} in row 2" in done.err
    assert "unix_micros" in done.err
    assert heads(run.project) == before


SCHEMA = pa.schema({"t": pa.timestamp("ms", "UTC"), "k": pa.string()})


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("select t, k from input", True),
        ("select (t) as key, k from input", True),
        ("select unix_micros(t) as key, t, k from input", True),
        ("select concat(k, cast(t as string)) as key, t from input", True),
        ("select *, k as key from input", False),
        ("select k as key, t from input", False),
        ("select k as key, k from input where t > '2024-01-01'", False),
        ("select transform(array(t), x -> x) as key from input", True),
        ("select k as key, t from input lateral view explode(array(t)) as e", False),
    ],
)
def test_a_key_that_is_made_of_cut_times_is_one(query: str, refused: bool) -> None:
    merge = MergeStrategyLedger(primary_key=("t" if query.startswith("select t,") else "key",))
    transform = TransformSql(engine="spark", query=query)
    cut = [Cut("t", FINE, 2)]
    with pytest.raises(FineKeyError) if refused else nullcontext():
        check_read_keys(merge, transform, SCHEMA, cut, "f")
    check_read_keys(merge, transform, SCHEMA, [], "f")


def test_what_a_query_for_datafusion_makes_keys_of_is_not_known_which_is_said() -> None:
    merge = MergeStrategyLedger(primary_key=("key",))
    transform = TransformSql(engine="datafusion", query="select k as key, t from input")
    with pytest.raises(FineKeyError, match="of which `preprocess` may make the key 'key'") as error:
        check_read_keys(merge, transform, SCHEMA, [Cut("t", FINE, 2)], "f")
    (fix,) = (each.fix for each in error.value.diagnostics())
    forms = re.findall(r"(?:BIGINT|purpose): (.+?)(?:;| there)", fix or "")
    rows = pa.table({"t": [FINE]})
    context = datafusion.SessionContext()
    context.register_record_batches("input", [rows.to_batches()])
    found = context.sql(f"select {', '.join(forms)} from input").to_arrow_table().to_pylist()
    whole, cut = found[0].values()
    instant = datetime.fromisoformat(FINE.replace("Z", "+00:00"))
    assert whole == round(instant.timestamp() * 1_000_000)
    assert cut == instant.replace(microsecond=instant.microsecond // 1000 * 1000, tzinfo=None)


@given(st.lists(st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)) | st.none(), max_size=6))
def test_what_sealing_cuts_is_what_milliseconds_do_not_hold(times: list[datetime | None]) -> None:
    array = pa.array(times, pa.timestamp("us", "UTC"))
    fine = [each for each in times if each is not None and each.microsecond % 1000]
    found = FineTimes()
    with noting(found):
        noting_column("t")
        conform(array, pa.timestamp("ms", "UTC"))
    shown = [cut.value for cut in found.first.values()]
    assert shown == [f"{each:%Y-%m-%d %H:%M:%S.%f}Z" for each in fine[:1]]


def spelled() -> Iterator[st.SearchStrategy[str]]:
    for name in ("t", "`timestamp`", '"a(6"', "timestamp"):
        yield st.just(name)


@given(
    st.one_of(*spelled()),
    st.sampled_from(["TIMESTAMP", "timestamptz", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
    st.none() | st.integers(0, 12),
    st.sampled_from(["{}", "ARRAY<{}>", "STRUCT<a: {}, b INT>", "{} NOT NULL"]),
)
def test_only_types_with_more_than_three_digits_are_fine(
    name: str, word: str, digits: int | None, around: str
) -> None:
    kind = word if digits is None else f"{word}({digits})"
    found = fine_timestamps(f"{name} {around.format(kind)}")
    assert len(found) == (digits is not None and digits > 3)
