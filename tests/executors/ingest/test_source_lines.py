"""Lines of sources: all lines of a drawn file with the values of a record, and no other."""

import gzip
import json
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.provenance.chain import all_written
from odfbuild.executors.ingest.source_lines import MOST, LineSearch, SourceLines
from odfbuild.executors.verify.explanation import RowExplainer, RowKey
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.host.permissions import UNLIMITED
from odfbuild.project.opened import find_dataset, open_project
from odfbuild.state.memory.read_files import note_readings, recall_readings
from odfbuild.values import dataclass
from tests.support.effort import examples
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.values.arrow_types import FLAT, array, plain

SCHEMA = "[t TIMESTAMP, k STRING, v DOUBLE, n BIGINT]"
READ = {
    "csv": "{kind: Csv, header: true, schema: SCHEMA}",
    "bare": "{kind: Csv, separator: ';', encoding: utf-16, schema: SCHEMA}",
    "ndjson": "{kind: NdJson, schema: SCHEMA}",
    "json": "{kind: Json, subPath: all.rows, schema: SCHEMA}",
    "geojson": "{kind: GeoJson, schema: SCHEMA}",
    "ndgeojson": "{kind: NdGeoJson, schema: SCHEMA}",
    "parquet": "{kind: Parquet, schema: SCHEMA}",
}
MERGES = {
    "append": "{kind: Append}",
    "ledger": "{kind: Ledger, primaryKey: [t, k]}",
    "snapshot": "{kind: Snapshot, primaryKey: [k]}",
    "upsert": "{kind: UpsertStream, primaryKey: [k]}",
}
PREPROCESSES = {
    "": (),
    "select t, k, v, n from input": (),
    "select t, k, n + 1 as n from input where k is not null": ("v", "n"),
}
"""Queries for single rows, and the columns that they do not copy."""

Row = tuple[datetime, str | None, float | None, int | None]
Lines = Sequence[tuple[int, Row]]
BAD = "bad"


def source(name: str, read: str, merge: str, *, query: str = "", packed: bool = False) -> str:
    """Return the definition of a root with a source of files."""
    more = ""
    if query:
        more += f"\n      preprocess: {{kind: Sql, engine: datafusion, query: '{query}'}}"
    if packed:
        more += "\n      prepare: [{kind: Decompress, format: Gzip}]"
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/{name}/*}}
      read: {READ[read].replace("SCHEMA", SCHEMA)}
      merge: {MERGES[merge]}{more}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""


def drawn_rows(chance: random.Random, *, keyed: bool) -> list[Row]:
    """Draw rows of which many are equal in all columns, or in all but one."""
    found: dict[object, Row] = {}
    for number in range(chance.randrange(1, 9)):
        key = chance.choice(["a", "b", "x,y", 'q"q', "two\nlines", "", "\u00e9;"])
        value = chance.choice([0.0, 0.5, -0.0, None, 1e300])
        when = datetime(2031, 1, chance.randrange(1, 4), tzinfo=UTC) + timedelta(milliseconds=7)
        row = when, key, value, chance.choice([1, 2**60, None])
        found[key if keyed else number] = row
    return list(found.values())


def cells(row: Row) -> Mapping[str, Any]:
    when, key, value, number = row
    return {"t": when.isoformat(timespec="milliseconds"), "k": key, "v": value, "n": number}


def quoted(value: Any, mark: str) -> str:
    """Return a value as it is in CSV, in quotes where that makes a difference."""
    if value is None:
        return ""
    text = repr(value) if isinstance(value, float) else str(value)
    if isinstance(value, str) and (value == "" or {mark, '"', "\n"} & {*value}):
        return '"' + text.replace('"', '""') + '"'
    return text


class Written:
    """A file that is written line by line; `lines` are the rows with the lines they begin on."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: list[tuple[int, Row]] = []

    def put(self, text: str) -> None:
        self.text += text

    def row(self, row: Row, text: str) -> None:
        self.lines.append((self.text.count("\n") + 1, row))
        self.put(text)


def file_of(read: str, rows: Sequence[Row], chance: random.Random, *, bad: bool) -> Written:
    """Write rows in a format, with blank lines, and bad rows between them, where it allows any."""
    file = Written()
    end = chance.choice(["\n", "\r\n"])

    def blank() -> None:
        file.put(end * chance.choice([0, 0, 1, 2]))

    def wrong() -> bool:
        return bad and chance.random() < 0.3

    if read in ("csv", "bare"):
        mark = "," if read == "csv" else ";"
        if read == "csv":
            blank()
            file.put(f"t,k,v,n{end}")
        for row in rows:
            blank()
            if wrong():
                file.put(f"no time{mark}a{mark}1{mark}1{end}")
            texts = [quoted(each, mark) for each in cells(row).values()]
            file.row(row, mark.join(texts) + end)
        return file
    is_geo = read.endswith("geojson")
    made = [
        {"type": "Feature", "properties": cells(each), "geometry": None} if is_geo else cells(each)
        for each in rows
    ]
    if read in ("ndjson", "ndgeojson"):
        for row, each in zip(rows, made, strict=True):
            blank()
            if wrong():
                file.put(f'{{"t": 7{end}')
            file.row(row, json.dumps(each) + end)
        return file
    file.put('{"type": "FeatureCollection",\n "features": [' if is_geo else '{"all":\n{"rows":[')
    for at, (row, each) in enumerate(zip(rows, made, strict=True)):
        file.put("," * (at > 0) + chance.choice(["", "\n", "\n\n  "]))
        file.row(row, json.dumps(each, indent=chance.choice([None, 1])))
    file.put("]}" if is_geo else "]}}")
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A dataset of files, of which each has its rows by line."""

    name: str
    read: str
    merge: str
    ignored: tuple[str, ...]
    files: dict[str, Lines]


def drawn_case(folder: Path, name: str, chance: random.Random) -> Case:
    """Draw a definition and its files, and write them into a project."""
    read, merge = chance.choice([*READ]), chance.choice([*MERGES])
    query = chance.choice([*PREPROCESSES]) if merge == "append" else ""
    packed = chance.random() < 0.3
    definition = source(name, read, merge, query=query, packed=packed)
    lay_out(folder, {f"datasets/{name}.yaml": definition})
    files: dict[str, Lines] = {}
    for number in range(chance.randrange(1, 4)):
        path = f"data/{name}/{number}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        rows = drawn_rows(chance, keyed=merge in ("snapshot", "upsert"))
        if read == "parquet":
            pq.write_table(pa.Table.from_pylist([dict(zip("tkvn", e, strict=True)) for e in rows],
                schema=pa.schema([("t", pa.timestamp("ms", "UTC")), ("k", pa.string()),
                    ("v", pa.float64()), ("n", pa.int64())])), folder / path)  # fmt: skip
            files[path], data = [*enumerate(rows, 1)], (folder / path).read_bytes()
        else:
            file = file_of(read, rows, chance, bad="bad" in name)
            files[path] = file.lines
            data = file.text.encode("utf-16" if read == "bare" else "utf-8")
        (folder / path).write_bytes(gzip.compress(data) if packed else data)
    ignored = ("offset", "op", "system_time", *PREPROCESSES[query])
    return Case(name=name, read=read, merge=merge, ignored=ignored, files=files)


@contextmanager
def found_lines(
    folder: Path,
    name: str,
    *,
    project: Path | None = None,
    most: int | None = None,
    rows: int | None = None,
) -> Iterator[list[tuple[Mapping[str, Any], SourceLines | None]]]:
    """Yield the records of a dataset with what is said of their lines."""
    opened = open_project(folder)
    with opened.workspace.staging() as staging:
        search = LineSearch(
            opened.workspace,
            project or folder,
            UNLIMITED,
            staging,
            most=most,
            rows=rows,
            inside=True,
        )
        yield [*_explained(opened, name, search)]


def _explained(
    opened: Any, name: str, search: LineSearch
) -> Iterator[tuple[Mapping[str, Any], SourceLines | None]]:
    from contextlib import ExitStack

    dataset, past = find_dataset(opened, name), RecordedHistories(opened.workspace)
    with ExitStack() as closing:
        explainer = RowExplainer(
            opened.workspace, past, lambda: pytest.fail("no engine"), closing, files=search
        )
        history = past.history(dataset.id)
        assert history is not None
        for written in all_written(history.blocks):
            for offset in range(written.offsets.start, written.offsets.end + 1):
                key = RowKey(dataset.id, written.block, offset)
                found = explainer.explained(key, 0, written, follow=None)
                assert found.row is not None
                yield found.row, found.lines


def values(row: Mapping[str, Any], ignored: Sequence[str]) -> tuple[Any, ...]:
    """Return what is compared, by its bits: 0.0 is not -0.0."""
    compared = [row[name] for name in "tkvn" if name not in ignored]
    return tuple(repr(e.timestamp() if isinstance(e, datetime) else e) for e in compared)


def test_the_lines_of_a_record_are_those_of_its_file_that_have_its_values(
    tmp_path: Path,
) -> None:
    seen = set[str]()
    for seed in range(examples(2, 40)):
        chance = random.Random(seed)
        folder = lay_out(
            tmp_path / str(seed),
            {
                "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n"
                f"defaults: {{'*.{BAD}*': {{bad_rows: divert}}}}\n"
            },
        )
        cases = [
            drawn_case(folder, f"x.{chance.choice(['good', BAD])}{number}", chance)
            for number in range(16)
        ]
        done = odfbuild("apply", "--yes", cwd=folder)
        assert done.code == 0, done.err
        for case in cases:
            with found_lines(folder, case.name) as found:
                _check(case, found)
            seen |= {case.read, case.merge}
    assert {*READ, *MERGES} <= seen


def _check(case: Case, found: Sequence[tuple[Mapping[str, Any], SourceLines | None]]) -> None:
    first: list[str] = []
    for path, rows in case.files.items():
        first += [path] * len(rows)
    for at, (row, lines) in enumerate(found):
        assert lines is not None
        if row["op"] in (1, 2):
            assert (lines.file, lines.lines) == (None, ()), row
            continue
        assert lines.file is not None, (case, row, lines)
        equal = [
            line
            for line, each in case.files[lines.file]
            if values(dict(zip("tkvn", each, strict=True)), case.ignored)
            == values(row, case.ignored)
        ]
        expected = list(dict.fromkeys(equal))
        assert list(lines.lines) == expected[:MOST], (case, row)
        assert lines.more == len(expected[MOST:])
        assert lines.by_row == (case.read == "parquet")
        if case.merge == "append":
            assert lines.file == first[at], (case, row)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that has read two files of three rows each."""
    folder = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n",
            "datasets/src.yaml": source("src", "csv", "append"),
            "data/src/1.csv": "t,k,v,n\n2031-01-01,a,,1\n2031-01-01,b,,1\n2031-01-01,a,,1\n",
            "data/src/2.csv": "t,k,v,n\n2031-01-02,a,,1\n2031-01-02,b,,1\n2031-01-02,c,,1\n",
        },
    )
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    return folder


def lines_of(folder: Path, **options: Any) -> list[SourceLines]:
    with found_lines(folder, "src", **options) as found:
        assert all(each.file is None or each.unknown is None for _, each in found if each)
        return [each for _, each in found if each is not None]


def test_equal_rows_of_a_file_have_all_of_its_lines(project: Path) -> None:
    assert [each.lines for each in lines_of(project)] == [(2, 4), (3,), (2, 4), (2,), (3,), (4,)]


def test_a_file_that_has_changed_is_not_searched(project: Path) -> None:
    first, second = project / "data/src/1.csv", project / "data/src/2.csv"
    os.utime(first, (1, 1))  # its content is the same
    second.write_text(second.read_text().replace("c,,1", "c,,2"))
    found = lines_of(project)
    assert [each.lines for each in found[:3]] == [(2, 4), (3,), (2, 4)]
    assert {each.unknown for each in found[3:]} == {"data/src/2.csv has changed since it was read"}
    second.unlink()
    found = lines_of(project)
    assert {each.unknown for each in found[3:]} == {"data/src/2.csv is not there any more"}


def test_a_file_that_is_too_large_is_not_searched(project: Path) -> None:
    size = (project / "data/src/1.csv").stat().st_size
    assert all(each.lines for each in lines_of(project, most=size))
    texts = {each.unknown for each in lines_of(project, most=size - 1)}
    assert texts == {f"data/src/{n}.csv is too large to be searched here" for n in (1, 2)}


def test_only_what_this_workspace_has_read_is_searched(project: Path) -> None:
    workspace = open_project(project).workspace
    (id,) = workspace.names().values()
    assert len(recall_readings(workspace.root, id)) == 2
    (workspace.root / "sources" / id.multibase).unlink()
    texts = {each.unknown for each in lines_of(project)}
    assert texts == {"this workspace does not remember what the file was"}


def test_a_file_outside_of_the_project_is_not_searched(project: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere.csv"
    (project / "data/src/1.csv").rename(there)
    (project / "data/src/1.csv").symlink_to(there)
    assert {each.unknown for each in lines_of(project)[:3]} == {
        "its file is outside of the project"
    }
    said = odfbuild("explain-row", "src", "1", cwd=project).out
    assert said.splitlines()[-1] == "  from files data/src/*, file data/src/1.csv:3"


def test_files_that_a_program_prepares_have_no_lines(project: Path) -> None:
    definition = source("src", "csv", "append").replace(
        "      merge:", "      prepare: [{kind: Pipe, command: [tac]}]\n      merge:"
    )
    lay_out(project, {"datasets/src.yaml": definition})
    lay_out(project, {"data/src/3.csv": "2031-01-03,a,,1\nt,k,v,n\n"})
    assert odfbuild("apply", "--yes", cwd=project).code == 0
    *others, last = lines_of(project)
    assert all(each.lines for each in others)
    assert last.unknown == "a program prepares the file before it is read"


def test_rows_of_a_file_in_several_blocks_have_their_lines(tmp_path: Path) -> None:
    rows = [f"2031-01-01,{number % 700},,{number}\n" for number in range(2_500)]
    folder = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow, spark: {slice_rows: 1000}}\n",
            "datasets/src.yaml": source("src", "csv", "append"),
            "data/src/1.csv": "".join(["t,k,v,n\n", *rows]),
        },
    )
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    found = lines_of(folder)
    assert [each.lines for each in found] == [(number + 2,) for number in range(2_500)]


def test_rows_of_files_that_are_read_again_have_the_lines_of_these(tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n"
            "defaults: {src: {reread: changed}}\n",
            "datasets/src.yaml": source("src", "csv", "upsert"),
            "data/src/1.csv": "t,k,v,n\n2031-01-01,a,,1\n",
            "data/src/2.csv": "t,k,v,n\n2031-01-02,b,,1\n",
        },
    )
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    lay_out(folder, {"data/src/1.csv": "t,k,v,n\n\n2031-01-01,a,,2\n2031-01-01,b,,3\n"})
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    with found_lines(folder, "src") as found:
        said = [(row["k"], row["n"], row["op"], each) for row, each in found]
    here = [(k, n, op, e.file, e.lines) for k, n, op, e in said if e and e.file]
    assert ("a", 2, 3, "data/src/1.csv", (3,)) in here
    assert ("b", 3, 3, "data/src/1.csv", (4,)) in here
    assert [each for each in here if each[1] == 1 and each[3] == "data/src/1.csv"] == []
    again = [each for each in here if each[:2] == ("b", 1)]
    assert {each[3:] for each in again} == {("data/src/2.csv", (2,))} and len(again) == 2


def test_a_terminal_is_given_all_of_it(project: Path) -> None:
    lay_out(project, {"data/src/3.csv": "t,k,v,n\n" + "2031-01-03,a,,1\n" * 13})
    assert odfbuild("apply", "--yes", cwd=project).code == 0
    one = odfbuild("explain-row", "src", "1", cwd=project).out
    assert one.splitlines()[-1] == "  from files data/src/*, file data/src/1.csv:3"
    many = odfbuild("explain-row", "src", "6", cwd=project).out
    assert many.splitlines()[-1] == (
        "  from files data/src/*, file data/src/3.csv, lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 "
        "and 3 more"
    )
    (project / "data/src/3.csv").unlink()
    none = odfbuild("explain-row", "src", "6", cwd=project).out
    assert none.splitlines()[-1] == (
        "  from files data/src/*, file 3.csv, line not known: data/src/3.csv is not there any more"
    )


def project_of(folder: Path, definition: str, defaults: str = "{}") -> Path:
    """Lay out a project with one source, `src`, and the defaults of it."""
    config = f"odfbuild: 1\nengine: {{ingest: arrow}}\ndefaults: {{src: {defaults}}}\n"
    return lay_out(folder, {"odfbuild.yaml": config, "datasets/src.yaml": definition})


def read_lines(folder: Path, name: str, text: str) -> list[SourceLines]:
    """Let a file be read, and return the lines of all records."""
    lay_out(folder, {f"data/src/{name}": text})
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    return lines_of(folder)


UNSURE = "it is not known whether its columns were read by name"


@pytest.mark.parametrize(
    ("columns", "query"), [("by-name", ""), ("by-name", "select * from input"), ("union", "")]
)
def test_columns_that_were_read_by_name_are_not_bound_by_position(
    tmp_path: Path, columns: str, query: str
) -> None:
    definition = source("src", "csv", "append", query=query)
    folder = project_of(tmp_path / "project", definition, f"{{columns: {columns}}}")
    text = "t,k,v,other\n2031-01-01,a,,1\n2031-01-01,a,,\n2031-01-02,b,,\n"
    found = read_lines(folder, "1.csv", text)
    assert [each.unknown for each in found[:2]].count(UNSURE) == (2 if columns == "by-name" else 1)
    assert [each.lines for each in found if each.lines] in ([(4,)], [(2,), (4,)])


def test_columns_that_only_the_file_has_tell_its_rows_apart(tmp_path: Path) -> None:
    definition = source("src", "ndjson", "append")
    folder = project_of(tmp_path / "project", definition, "{columns: union}")
    rows = [{"t": "2031-01-01", "k": "a", "v": None, "n": 1, "more": each} for each in (1, 2, 1)]
    found = read_lines(folder, "1", "".join(f"{json.dumps(each)}\n" for each in rows))
    assert [each.lines for each in found] == [(1, 3), (2,), (1, 3)]
    del rows[1]["more"]
    found = read_lines(folder, "2", "".join(f"{json.dumps(rows[1])}\n" for _ in range(2)))
    assert [each.lines for each in found[3:]] == [(1, 2), (1, 2)]


def test_a_file_that_brought_no_row_is_not_the_one_of_the_rows_before(tmp_path: Path) -> None:
    folder = project_of(tmp_path / "project", source("src", "csv", "ledger"), "{reread: late}")
    text = "t,k,v,n\n2031-01-01,a,,1\n"
    assert [each.file for each in read_lines(folder, "2.csv", text)] == ["data/src/2.csv"]
    workspace = open_project(folder).workspace
    (id,) = workspace.names().values()
    (workspace.root / "sources" / id.multibase).unlink()  # as of a chain from elsewhere
    (folder / "data/src/2.csv").unlink()
    (found,) = read_lines(folder, "1.csv", text)
    assert found.unknown == "this workspace does not remember what the file was"
    (reading,) = recall_readings(workspace.root, id)
    assert (reading.path, reading.has_rows) == ("data/src/1.csv", False)


def test_what_a_source_says_to_do_with_a_row_is_no_value_of_it(tmp_path: Path) -> None:
    definition = source("src", "csv", "upsert").replace("[t TIMESTAMP", "[op INT, t TIMESTAMP")
    folder = project_of(tmp_path / "project", definition)
    header = "op,t,k,v,n\n"
    read_lines(folder, "1.csv", f"{header}0,2031-01-01,a,,1\n0,2031-01-01,b,,1\n")
    text = f"{header}0,2031-01-02,a,,2\n1,2031-01-02,b,,1\n3,2031-01-02,c,,1\n"
    with_operations = read_lines(folder, "2.csv", text)
    said = [each.lines or each.unknown for each in with_operations]
    back = "it takes back a row that came before"
    assert said == [(2,), (3,), back, (2,), back, (4,)]


def test_rows_without_an_event_time_are_those_that_were_given_one(tmp_path: Path) -> None:
    folder = project_of(tmp_path / "project", source("src", "csv", "append"))
    read_lines(folder, "1.csv", "t,k,v,n\n,a,,1\n2031-01-01,b,,1\n,a,,1\n")
    with found_lines(folder, "src") as found:
        lines = {(row["k"], each.lines) for row, each in found if each}
    assert lines == {("a", (2, 4)), ("b", (3,))}
    read_lines(folder, "2.csv", "t,k,v,n\n1999-01-02,c,,1\n,c,,1\n")
    with found_lines(folder, "src") as found:
        said = {row["t"].year: e.lines or e.unknown for row, e in found if e and row["k"] == "c"}
    assert said.pop(1999) == "it is not known whether its event time was given to it"
    assert [*said.values()] == [(3,)]


def test_all_records_of_a_file_that_cannot_be_searched_have_the_same_reason(
    tmp_path: Path,
) -> None:
    folder = project_of(tmp_path / "project", source("src", "csv", "append", packed=True))
    (folder / "data/src").mkdir(parents=True)
    text = b"t,k,v,n\n" + b"2031-01-01,a,,1\n" * 1000
    (folder / "data/src/1").write_bytes(gzip.compress(text))
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    assert {each.more for each in lines_of(folder, most=len(text), rows=1000)} == {1000 - MOST}
    large = {each.unknown for each in lines_of(folder, rows=999)}
    assert large == {"data/src/1 is too large to be searched here"}
    unpacked = {each.unknown for each in lines_of(folder, most=len(text) - 1)}
    assert unpacked == {"the file cannot be read: File too large"}


def test_rows_of_a_parquet_file_are_counted_before_it_is_read(tmp_path: Path) -> None:
    folder = project_of(tmp_path / "project", source("src", "parquet", "append"))
    (folder / "data/src").mkdir(parents=True)
    pq.write_table(pa.table({"n": pa.repeat(1, 1000)}), folder / "data/src/1")
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    assert {each.lines[:2] for each in lines_of(folder, rows=1000)} == {(1, 2)}
    large = {each.unknown for each in lines_of(folder, rows=999)}
    assert large == {"data/src/1 is too large to be searched here"}


READABLE = [
    each
    for each in FLAT
    if not pa.types.is_null(each)
    and not pa.types.is_duration(each)
    and not (pa.types.is_decimal(each) and each.precision > 38)
    and each != pa.time64("ns")
]
"""Types of columns of Parquet that a source may have, and that keep what they hold."""


def cells_of(kind: Any) -> tuple[Any, ...]:
    """Return different values of a type, null too."""
    if pa.types.is_boolean(kind):
        return True, False, None
    if pa.types.is_decimal(kind):
        return Decimal(0), Decimal(1).scaleb(-kind.scale), None
    if pa.types.is_floating(kind):
        return 0.0, -0.0, math.nan, 1.5, None
    if pa.types.is_date(kind):
        return date(1, 1, 1), date(9999, 12, 31), None
    if pa.types.is_temporal(kind):
        return 0, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], None
    if pa.types.is_integer(kind):
        return 0, 2 ** (kind.bit_width - 1) - 1, None
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width), b"\xff" * kind.byte_width, None
    return b"", b"a", b"null", None


def nested(kind: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield a type, and if it is a floating one a list and a struct of it, with its values."""
    flat = cells_of(kind)
    yield kind, flat
    if not pa.types.is_floating(kind):
        return
    yield pa.list_(kind), [*([each] for each in flat), [], None]
    yield pa.struct([("m", kind)]), [*({"m": each} for each in flat), None]


@pytest.mark.parametrize("part", range(3))
def test_columns_of_all_types_tell_rows_apart(tmp_path: Path, part: int) -> None:
    columns = [each for kind in READABLE[part::3] for each in nested(kind)]
    base = [cells[0] for _, cells in columns]
    rows = [base]  # and rows that differ from it in one column, for each of its values
    for at, (_, cells) in enumerate(columns):
        rows += [[*base[:at], cell, *base[at + 1 :]] for cell in cells]
    arrays = [array(kind, [row[at] for row in rows]) for at, (kind, _) in enumerate(columns)]
    shown = [repr([plain(each) for each in row]) for row in zip(*arrays, strict=True)]

    definition = source("src", "parquet", "append").replace(f", schema: {SCHEMA}", "")
    folder = project_of(tmp_path / "project", definition)
    (folder / "data/src").mkdir(parents=True)
    pq.write_table(pa.table(arrays, [f"c{at}" for at in range(len(arrays))]), folder / "data/src/1")
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    found = {shown[at]: (each.lines, each.more) for at, each in enumerate(lines_of(folder))}
    for row, (lines, more) in found.items():
        expected = [number for number, each in enumerate(shown, 1) if each == row]
        assert (list(lines), more) == (expected[:MOST], len(expected[MOST:])), row


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_readings_of_what_is_no_path_are_damaged(project: Path, path: str) -> None:
    workspace = open_project(project).workspace
    (id,) = workspace.names().values()
    reading = recall_readings(workspace.root, id)[0]
    note_readings(workspace.root, id, [replace(reading, path=path)])
    assert [each.path for each in recall_readings(workspace.root, id)].count(path) == 0
    assert all(each.lines for each in lines_of(project))
