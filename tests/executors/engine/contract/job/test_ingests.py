"""Ingests of roots that go as jobs: which do, and that nothing in the chain shows it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import InputNotes, Round, Site
from odfbuild.executors.engine.contract.worker import LocalEngines
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.executors.engine.messages import EngineOperations, answered, answered_json
from odfbuild.executors.engine.messages.file_ingest import (
    FileIngest,
    IngestedFile,
    IngestNames,
    ingest_request,
    written_by,
)
from odfbuild.executors.engine.protocol import IngestRequest, RawQueryWork
from odfbuild.executors.ingest.elsewhere.run import FileIngestRun
from odfbuild.executors.ingest.poll import ingest
from odfbuild.odf import messages as msg
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DatasetVocabulary,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    MetadataEvent,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import decode_table, encode_table
from odfbuild.planner.plan.policy import BadRows, ColumnsPolicy, IngestOptions
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.workspace import Workspace
from tests.support.effort import examples

START = datetime(2024, 1, 1, tzinfo=UTC)
NOW = Timestamp.parse("2025-01-01T00:00:00Z")
COLUMNS = ("t TIMESTAMP", "k STRING", "v BIGINT", "w DOUBLE")
STRATEGIES: Mapping[str, MergeStrategy] = {
    "append": MergeStrategyAppend(),
    "ledger": MergeStrategyLedger(primary_key=("k",)),
    "snapshot": MergeStrategySnapshot(primary_key=("k",)),
    "snapshot of one column": MergeStrategySnapshot(primary_key=("k",), compare_columns=("v",)),
    "upserts": MergeStrategyUpsertStream(primary_key=("k",)),
    "changelog": MergeStrategyChangelogStream(primary_key=("k",)),
}
DIVERT = IngestOptions(bad_rows=BadRows.DIVERT)


class InThisProcess:
    """Reads and merges files as a job does: its message as JSON, and as bytes, by turns."""

    reads_store = False

    def __init__(self, folder: Path, lie: "Lie | None" = None, engine: str = "datafusion") -> None:
        self._engines = LocalEngines(folder, None)
        self.name = engine
        self.lie = lie
        self.asked = 0

    def ingest(self, work: FileIngest) -> IngestedFile:
        from odfbuild.executors.engine.contract.job.ingests import IngestJobs

        jobs = IngestJobs(_Answering(self), self.name)  # type: ignore[arg-type]
        return jobs.ingest(work)

    def close(self) -> None:
        self._engines.close()

    def answer(self, request: msg.IngestStepRequest, staging: Path) -> object:
        self.asked += 1
        operations = EngineOperations(self._engines, staging, FileIngestRun(self._engines))
        if self.asked % 2:
            asked = from_mapping(msg.IngestStepRequest, to_mapping(request))
            said = answered_json(operations, "ExecuteIngest", to_mapping(asked))
            return from_mapping(msg.IngestStepResponseRoot, said).value
        data = encode_table(request)
        assert decode_table(msg.IngestStepRequest, data) == request
        made = answered(operations, "ExecuteIngest", data)
        return decode_table(msg.IngestStepResponseRoot, made).value


class _Answering:
    """A client whose jobs are carried out at once, with the names of files that requests have."""

    reads_store = False

    def __init__(self, engine: InThisProcess) -> None:
        self._engine = engine

    def ask_of_datasets(
        self,
        _: str,
        request: msg.IngestStepRequest,
        given: Sequence[Path],
        folder: Path,
        others: Mapping[str, Path],
    ) -> object:
        there = {**{each.name: each for each in given}, **others}
        here = replace(
            request,
            data_path=str(there[request.data_path]),
            prev_data_paths=tuple(str(there[each]) for each in request.prev_data_paths),
            new_data_path=str(folder / request.new_data_path),
            new_bad_rows_path=str(folder / request.new_bad_rows_path),
            new_left_out_path=str(folder / request.new_left_out_path),
        )
        answer = self._engine.answer(here, folder)
        if not isinstance(answer, msg.IngestStepResponseSuccess):
            from odfbuild.executors.engine.contract.job.client import JobClient

            return JobClient.success(self, answer)  # type: ignore[arg-type]
        assert {each.name for each in folder.iterdir()} == set(written_by(request, answer))
        return answer if self._engine.lie is None else self._engine.lie(answer, folder)

    def wrong(self, what: str) -> EngineFailedError:
        return EngineFailedError(what=what, why="the test", fix="none")


class Everywhere:
    """A placement of all sources."""

    def __init__(self, engine: InThisProcess) -> None:
        self.engine = engine

    def place_ingest(self, *_: object) -> tuple[str, InThisProcess]:
        return "there", self.engine


class Here(ArrowMerger):
    """Runs the query of a source and merges its rows, as a project does."""

    def ingest(self, request: IngestRequest) -> Frame:
        query = request.preprocess
        if query is None:
            return super().ingest(request)
        work = RawQueryWork(source=request.source, query=query, staging=request.staging)
        rows = DataFusionEngine().raw_query(work)
        merged = super().ingest(replace(request, source=rows))
        return replace(merged, offered=rows, cut=(*rows.cut, *merged.cut))


class Root:
    """A root dataset over CSV files of a folder, taken in here or elsewhere."""

    def __init__(
        self,
        folder: Path,
        source: SetPollingSource,
        engine: InThisProcess | None,
        options: IngestOptions,
    ) -> None:
        self.folder, self.options = folder, options
        (folder / "data").mkdir(parents=True)
        self.workspace = Workspace(folder / "workspace")
        events: tuple[MetadataEvent, ...] = (source, SetVocab(event_time_column="t"))
        self.dataset = self.workspace.create(
            DatasetAlias.parse("root"), DatasetKind.ROOT, CommitRequest(events, NOW)
        )
        self.engine = engine
        self.rounds: list[Round] = []
        self.failed: list[tuple[str, str]] = []

    def take(self, name: str, text: str) -> None:
        """Add a file and take it in; remember an error in its words."""
        path = self.folder / "data" / name
        path.write_text(text, "utf-8")
        placement = None if self.engine is None else Everywhere(self.engine)
        site = Site(
            workspace=self.workspace,
            engine=Here(),  # type: ignore[arg-type]
            clock=lambda: NOW,
            project_dir=self.folder,
            env={},
            placement=placement,  # type: ignore[arg-type]
        )
        try:
            ingest(site, self.dataset, self.rounds.append, self.options)
        except Exception as error:
            self.failed.append((getattr(error, "code", ""), str(error)))
            path.unlink()

    def said(self) -> list[object]:
        """Return what was reported of each commit, without the place of files."""
        return [
            (each.source, each.blocks, each.records, _without_place(each.notes))
            for each in self.rounds
        ]

    def blocks(self) -> list[MetadataEvent]:
        return [block.event for _, block in self.dataset.blocks()][1:]


def _without_place(notes: InputNotes) -> object:
    rows = None if notes.bad_rows_file is None else Path(notes.bad_rows_file).read_text("utf-8")
    return replace(notes, bad_rows_file=rows)


def drawn(draw: random.Random, strategy: MergeStrategy, *, messy: bool) -> str:
    """Return a CSV file: keys that repeat, times out of order, and what may be wrong with it."""
    operations = isinstance(strategy, MergeStrategyChangelogStream)
    header = ["t", "k", "v", "w"] + ["op"] * operations
    if messy and draw.random() < 0.3:
        header.append("extra")
    keys = [f"k{number}" for number in range(6)]
    lines = [",".join(header)]
    for key in draw.sample(keys, draw.randint(0, 6)):
        repeated = 2 if draw.random() < 0.15 and not operations else 1
        for _ in range(repeated):
            time = START + timedelta(days=draw.randint(0, 9), milliseconds=draw.randint(0, 999))
            shown = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if messy and draw.random() < 0.1:
                shown = draw.choice(["", shown.replace("Z", "7Z"), "no time"])
            value = draw.choice(["", "1", "2", "x" if messy else "3"])
            row = [shown, key, value, draw.choice(["0.5", "-0.0", ""])]
            row += ["0"] * operations
            row += ["more"] * (len(header) - len(row))
            lines.append(",".join(row))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("messy", [False, True])
def test_a_file_that_is_read_elsewhere_leaves_what_it_leaves_here(
    tmp_path: Path, name: str, messy: bool
) -> None:
    strategy, asked, rows = STRATEGIES[name], 0, 0
    for seed in range(examples(6, 200)):
        draw = random.Random(f"{name} {messy} {seed}")
        columns = (*COLUMNS, "op INT") if name == "changelog" else COLUMNS
        options = IngestOptions()
        if messy:
            policies = [None, ColumnsPolicy.UNION, ColumnsPolicy.BY_NAME, ColumnsPolicy.EXACT]
            options = replace(draw.choice([options, DIVERT]), columns=draw.choice(policies))
        query = None
        if draw.random() < 0.3 and name in ("append", "ledger", "snapshot"):
            text = "select * from input where coalesce(v, 0) < 2"
            query = TransformSql(engine="datafusion", queries=(SqlQueryStep(query=text),))
        source = SetPollingSource(
            fetch=FetchStepFilesGlob(path="data/*.csv"),
            read=ReadStepCsv(ddl_schema=columns, header=True),
            preprocess=query,
            merge=strategy,
        )
        files = [drawn(draw, strategy, messy=messy) for _ in range(4)]
        engine = InThisProcess(tmp_path)
        roots = [
            Root(tmp_path / f"{seed}-{where}", source, each, options)
            for where, each in enumerate((None, engine))
        ]
        for root in roots:
            for number, text in enumerate(files):
                root.take(f"{number}.csv", text)
        here, there = roots
        assert here.failed == there.failed, f"seed {seed}"
        assert here.blocks() == there.blocks(), f"seed {seed}"
        assert here.said() == there.said(), f"seed {seed}"
        assert {each.place for each in there.rounds} <= {"there"}
        assert {each.place for each in here.rounds} <= {None}
        asked += engine.asked
        rows += sum(each.records for each in here.rounds)
    assert asked > 1
    assert rows > 0


@pytest.mark.spark
def test_a_file_that_spark_reads_elsewhere_leaves_what_arrow_leaves_here(tmp_path: Path) -> None:
    """Its query runs there as well; here there is none, and the same rows."""
    engine = InThisProcess(tmp_path / "cache", engine="spark")
    (tmp_path / "cache").mkdir()
    query = TransformSql(
        engine="spark", queries=(SqlQueryStep(query="select t, k, v, w from input"),)
    )
    try:
        for name in ("append", "ledger", "snapshot", "upserts"):
            draw = random.Random(f"spark {name}")
            files = [drawn(draw, STRATEGIES[name], messy=False) for _ in range(3)]
            roots = []
            for where, preprocess in ((None, None), (engine, query)):
                source = SetPollingSource(
                    fetch=FetchStepFilesGlob(path="data/*.csv"),
                    read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
                    preprocess=preprocess,
                    merge=STRATEGIES[name],
                )
                root = Root(tmp_path / f"{name}-{where is None}", source, where, DIVERT)
                for number, text in enumerate(files):
                    root.take(f"{number}.csv", text)
                roots.append(root)
            assert roots[0].failed == roots[1].failed
            here, there = (
                [
                    (e.new_data and (e.new_data.logical_hash, e.new_data.offset_interval))
                    for e in root.blocks()
                    if isinstance(e, AddData)
                ]
                for root in roots
            )
            assert here == there
            assert {each.place for each in roots[1].rounds} == {"there"}
    finally:
        engine.close()


Lie = Callable[[msg.IngestStepResponseSuccess, Path], msg.IngestStepResponseSuccess]
"""What makes another answer, and other files, of those of a job."""


def rows_with(change: Callable[[pa.Table], pa.Table], *, count: int | None = None) -> Lie:
    """Return a lie about the rows that are to be added."""

    def lie(answer: msg.IngestStepResponseSuccess, folder: Path) -> msg.IngestStepResponseSuccess:
        rows = change(pq.read_table(folder / "rows.parquet"))
        pq.write_table(rows, folder / "rows.parquet")
        return replace(answer, num_records=len(rows) if count is None else count)

    return lie


def put(name: str, values: Sequence[object]) -> Lie:
    """Return a lie that puts values into a column of the two rows, which may be new."""

    def changed(rows: pa.Table) -> pa.Table:
        kept = rows.drop_columns([each for each in rows.column_names if each == name])
        return kept.append_column(name, pa.array(values))

    return rows_with(changed)


def says(**fields: object) -> Lie:
    """Return a lie of the answer alone."""
    return lambda answer, _: replace(answer, **fields)  # type: ignore[arg-type]


def writes(name: str, data: bytes, **fields: object) -> Lie:
    """Return a lie with a file that the step did not write."""

    def lie(answer: msg.IngestStepResponseSuccess, folder: Path) -> msg.IngestStepResponseSuccess:
        (folder / name).write_bytes(data)
        return replace(answer, **fields)  # type: ignore[arg-type]

    return lie


def damaged_page(
    answer: msg.IngestStepResponseSuccess, folder: Path
) -> msg.IngestStepResponseSuccess:
    """Change a text in a page so that it is none, beside sound operations."""
    path = folder / "rows.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows, path, compression="none", use_dictionary=False, write_statistics=False)
    data, text = path.read_bytes(), rows.column("k")[0].as_py().encode()
    path.write_bytes(data.replace(text, b"\xff" * len(text)))
    return answer


BAD_ROW = b'{"file": "1.csv", "line": 2, "reason": "no", "text": "x"}\n'
LIES: Mapping[str, tuple[Lie, str]] = {
    "fewer rows": (rows_with(lambda rows: rows.slice(1), count=2), "2 rows, and 1 are there"),
    "offsets": (put("offset", [7, 8]), "a column 'offset'"),
    "system times": (put("system_time", [7, 8]), "a column 'system_time'"),
    "another column": (put("more", [7, 8]), "a column 'more'"),
    "no operations": (rows_with(lambda rows: rows.drop_columns(["op"])), "without operations"),
    "texts as operations": (put("op", ["0", "0"]), "without operations"),
    "unknown operations": (put("op", [0, 4]), "that the merge does not give"),
    "rows taken back": (put("op", [0, 1]), "that the merge does not give"),
    "no operation": (put("op", [0, None]), "that the merge does not give"),
    "two columns of a name": (
        rows_with(lambda rows: rows.append_column("k", rows.column("k"))),
        "two columns named 'k'",
    ),
    "a damaged page": (damaged_page, "cannot be read"),
    "no Parquet": (writes("rows.parquet", b"PAR1 of nothing PAR1"), "cannot be read"),
    "no file": (says(bad_records=1), "wrote no bad-rows.ndjson"),
    "bad rows that are none": (
        writes("bad-rows.ndjson", b"x\n", bad_records=1),
        "whose line 1 is none",
    ),
    "fewer bad rows": (writes("bad-rows.ndjson", BAD_ROW, bad_records=2), "and 1 are there"),
    "too many bad rows": (writes("bad-rows.ndjson", BAD_ROW * 4, bad_records=4), "lets pass"),
    "rows of nothing": (says(read_records=None), "could not read"),
    "more left out than read": (says(left_out=4, left_out_of=3), "than there are"),
    "left out without a file": (says(left_out=1, left_out_of=3), "wrote no left-out.parquet"),
    "left out, no Parquet": (
        writes("left-out.parquet", b"x", left_out=1, left_out_of=3),
        "cannot be read",
    ),
    "rows of a file without any": (says(read_records=0), "wrote 2 rows, and read 0"),
    "more rows than read": (
        rows_with(lambda rows: pa.concat_tables([rows, rows])),
        "wrote 4 rows, and read 2",
    ),
    "two columns as read": (says(columns=("k", "k")), "two columns named 'k'"),
}


OTHER_LIES: Mapping[str, tuple[str, Lie, str]] = {
    "rows left away": (
        "append", rows_with(lambda rows: rows.slice(1)), "1 of 2 rows, and Append adds all"
    ),
    "rows given twice": (
        "append", rows_with(lambda rows: pa.concat_tables([rows, rows])), "and Append adds all"
    ),
    "a snapshot that takes back": ("snapshot", put("op", [1, 1]), "retract"),
    "a column of another type": ("append", put("v", ["1", "2"]), "column 'v' as string"),
    "a column left away": (
        "append", rows_with(lambda rows: rows.drop_columns(["v"])), "no column 'v'"
    ),
}  # fmt: skip
"""Lies about the first rows of a dataset with another strategy than Ledger."""


@pytest.mark.holds("engine-jobs")
def test_later_rows_without_the_event_time_of_their_source_are_not_committed(
    tmp_path: Path,
) -> None:
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
        merge=STRATEGIES["ledger"],
    )
    engine = InThisProcess(tmp_path / "cache", None)
    root = Root(tmp_path / "root", source, engine, DIVERT)
    root.take("1.csv", "t,k,v,w\n2024-01-01,a,1,0.5\n")
    engine.lie = rows_with(lambda rows: rows.drop_columns(["t"]))
    root.take("2.csv", "t,k,v,w\n2024-01-02,b,2,0.5\n")
    ((_, what),) = root.failed
    assert "wrote no column 't', which it says that it read" in what
    assert sum(isinstance(each, AddData) for each in root.blocks()) == 1


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize("name", [*LIES, *OTHER_LIES])
def test_an_answer_that_no_ingest_gives_is_not_committed(tmp_path: Path, name: str) -> None:
    merge, lie, said = OTHER_LIES[name] if name in OTHER_LIES else ("ledger", *LIES[name])
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
        merge=STRATEGIES[merge],
    )
    engine = InThisProcess(tmp_path / "cache", lie)
    root = Root(tmp_path / "root", source, engine, replace(DIVERT, max_bad_rows=3))
    text = "t,k,v,w\n2024-01-01,a,1,0.5\n2024-01-02,b,2,0.5\n"
    root.take("1.csv", text)
    ((_, what),) = root.failed
    assert said in what
    assert not any(isinstance(each, AddData) for each in root.blocks())
    assert list((root.workspace.root / "staging").iterdir()) == []
    assert not (root.workspace.root / "bad-rows").exists()
    engine.lie = None
    root.take("1.csv", text)
    assert [each.records for each in root.rounds] == [2]


def test_what_a_job_says_is_shown_without_control_characters(tmp_path: Path) -> None:
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
        merge=STRATEGIES["ledger"],
    )
    cut = (msg.StepResponseCutTime("v", "now\x1b[2J"),)
    lie = says(
        repeated_key="a \x1b[2J key",
        missing_columns=("w\x1b[2J",),
        read_cut_times=cut,
        cut_times=cut,
    )
    root = Root(tmp_path / "root", source, InThisProcess(tmp_path / "cache", lie), DIVERT)
    root.take("1.csv", "t,k,v,w\n2024-01-01,a,1,0.5\n")
    (done,) = root.rounds
    assert "a  [2J key" in str(done.notes)
    assert "\x1b" not in "".join(map(str, root.said()))
    assert "\\x1b" not in str(done.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "1.0+odfbuild.1"}, "the ingest is for datafusion 1.0+odfbuild.1"),
        ({"engine": "flink", "version": None}, "the ingest is for flink None, and None is here"),
        ({"reader": "0.0.1"}, "the file is for odfbuild 0.0.1"),
        ({"columns": "any"}, "the column policy 'any' is not known here"),
        (
            {"preprocess": TransformSql(engine="spark", query="select 1")},
            "the query of the ingest is not for datafusion",
        ),
    ],
)
def test_a_request_for_another_version_is_not_carried_out(
    tmp_path: Path, change: Mapping[str, object], said: str
) -> None:
    (tmp_path / "1.csv").write_text("t,k,v,w\n2024-01-01,a,1,0.5\n")
    request = replace(request_of(tmp_path), **change)  # type: ignore[arg-type]
    answer = InThisProcess(tmp_path).answer(request, tmp_path)
    assert isinstance(answer, msg.IngestStepResponseInternalError)
    assert said in answer.message
    assert not (tmp_path / "rows").exists()


def request_of(folder: Path) -> msg.IngestStepRequest:
    """Return the request to read `1.csv` of a folder, and to write beside it."""
    work = FileIngest(
        name="1.csv",
        path=folder / "1.csv",
        read=ReadStepCsv(ddl_schema=COLUMNS, header=True),
        preprocess=None,
        merge=STRATEGIES["ledger"],
        vocab=DatasetVocabulary(event_time_column="t"),
        history=(),
        in_force=None,
        options=DIVERT,
        staging=folder,
    )
    rows, bad_rows, left_out = (str(folder / each) for each in ("rows", "bad", "left"))
    names = IngestNames(file=str(work.path), rows=rows, bad_rows=bad_rows, left_out=left_out)
    return ingest_request(work, "datafusion", names, str)


def test_a_process_that_reads_no_sources_says_so(tmp_path: Path) -> None:
    answer = EngineOperations(LocalEngines(tmp_path, None), tmp_path).execute_ingest(
        request_of(tmp_path)
    )
    assert isinstance(answer, msg.IngestStepResponseInternalError)
    assert "reads no files of sources" in answer.message
