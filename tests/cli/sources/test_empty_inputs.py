"""Files of 0 bytes, and archives of several entries: what is not read is reported."""

import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

SNAPSHOT = "{kind: Snapshot, primaryKey: [k]}"
LOST = "which retracts all rows of this Snapshot"


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(lay_out(tmp_path / "shop", {}), capsys, monkeypatch, FakeEngine())


def put(run: Inside, name: str, data: bytes) -> None:
    path = run.project / "data" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def zipped(entries: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "prepare", "empty"),
    [
        ("2.csv", "", b""),
        ("2.csv", "{kind: Decompress, format: Gzip}", gzip.compress(b"")),
        ("2.csv", "{kind: Decompress, format: Zip}", zipped({"a.csv": ""})),
    ],
    ids=["plain", "gzip", "zip"],
)
@pytest.mark.parametrize("merge", [SNAPSHOT, "{kind: Append}"], ids=["Snapshot", "Append"])
def test_a_file_of_no_byte_is_a_warning(
    run: Inside, name: str, prepare: str, empty: bytes, merge: str
) -> None:
    lay_out(run.project, {"datasets/src.yaml": root(merge=merge, prepare=prepare)})
    full = {"": GOOD.encode(), "zip": zipped({"a.csv": GOOD})}
    full["gzip"] = gzip.compress(GOOD.encode())
    put(run, "1.csv", full["zip" if "Zip" in prepare else "gzip" if prepare else ""])
    assert "empty-input" not in run("apply", "--yes").err
    put(run, name, empty)
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert f"warning[empty-input]: data/{name} is empty: it has not one byte" in done.err
    assert (LOST in done.err) == (merge == SNAPSHOT)


def parquet() -> bytes:
    out = io.BytesIO()
    names = {"t": pa.timestamp("ms", "UTC"), "k": pa.string(), "v": pa.int32()}
    pq.write_table(pa.schema(names).empty_table(), out)
    return out.getvalue()


WITHOUT_ROWS = {"Csv": b"t,k,v\n", "NdJson": b"\n", "Json": b"[]", "Parquet": parquet()}


@pytest.mark.parametrize("policy", ["", "accept", "warn", "refuse"])
@pytest.mark.parametrize("kind", WITHOUT_ROWS)
def test_a_table_without_rows_is_what_the_defaults_say(run: Inside, kind: str, policy: str) -> None:
    text = root(merge=SNAPSHOT).replace("kind: Csv", f"kind: {kind}")
    if kind != "Csv":
        text = text.replace("header: true, ", "")
    lay_out(run.project, {"datasets/src.yaml": text})
    chosen = f"defaults: {{src: {{empty: {policy}}}}}\n" if policy else ""
    lay_out(run.project, {"odfbuild.yaml": f"odfbuild: 1\nname: shop\n{chosen}"})
    put(run, "1.csv", WITHOUT_ROWS[kind])
    done = run("apply", "--yes")
    said = "data/1.csv is empty: it has not one row"
    if policy == "refuse":
        assert (done.code != 0, f"error[empty-input]: src: {said}" in done.err) == (True, True)
    else:
        assert done.code == 0, done.err
        assert (f"warning[empty-input]: {said}" in done.err) == (policy != "accept")


def test_a_push_that_is_empty_once_unpacked_is_refused(run: Inside) -> None:
    pushed = root().replace("SetPollingSource", "AddPushSource").replace(
        "      fetch: {kind: FilesGlob, path: data/*.csv}\n", "      sourceName: default\n"
    )  # fmt: skip
    lay_out(run.project, {"datasets/src.yaml": pushed})
    assert run("apply", "--yes").code == 0
    put(run, "1.csv.gz", gzip.compress(b""))
    done = run("ingest", "src", str(run.project / "data" / "1.csv.gz"))
    assert done.code != 0
    assert "error[push]: 1.csv.gz is empty" in done.err


@pytest.mark.parametrize(
    ("entries", "sub_path", "left"),
    [
        ({"a.csv": GOOD, "b.csv": GOOD}, "", "b.csv"),
        ({"a.csv": GOOD, "b.csv": GOOD}, ", subPath: a.csv", None),
        ({"a.csv": GOOD}, "", None),
    ],
    ids=["first of two", "named", "one"],
)
def test_entries_that_are_not_read_are_named(
    run: Inside, entries: Mapping[str, str], sub_path: str, left: str | None
) -> None:
    prepare = f"{{kind: Decompress, format: Zip{sub_path}}}"
    lay_out(run.project, {"datasets/src.yaml": root(prepare=prepare)})
    put(run, "1.csv", zipped(entries))
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert ("warning[other-entries]" in done.err) == (left is not None)
    if left is not None:
        said = "of 2 entries of data/1.csv only the first was read, a.csv; left out: b.csv"
        assert said in done.err
        assert "subPath" in done.err
