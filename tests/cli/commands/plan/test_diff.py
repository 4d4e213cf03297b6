"""odfbuild diff: definitions, schemas and rows at two points."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.verify import row_difference
from odfbuild.odf.events import MergeStrategySnapshot, SetInfo
from tests.support.engines import FakeEngine
from tests.support.oracles.merge import snapshot
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import REPOSITORY, shell
from tests.support.projects.market import SETTINGS, append, dataset, steady
from tests.support.projects.texts import derivative, root

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "look"
CHANGED = derivative(query="select t, cast(v as string) as v, 1 as n from src where v > 0")
SNAPSHOT = "{kind: Snapshot, primaryKey: [k]}"


def shown(ask: Inside, *arguments: str) -> str:
    done = ask("diff", *arguments)
    assert (done.code, done.err) == (0, "")
    return steady(done.out)


def applied(ask: Inside) -> None:
    assert ask("apply", "--yes", "--no-progress").code == 0


def test_a_chain_that_is_as_declared_differs_in_nothing(ask: Inside) -> None:
    assert shown(ask, "src") == (
        "src: head HASHHASH (block 4) -> declared (datasets/raw/src.yaml:4:9)\n\nNo differences.\n"
    )


def test_definition_and_columns_are_told_apart(ask: Inside, golden: Golden) -> None:
    lay_out(ask.project, {"datasets/out.yaml": CHANGED})
    golden(GOLDEN / "diff-declared.txt", shown(ask, "out"))


def test_what_a_change_above_does_to_the_columns_is_seen_below(ask: Inside) -> None:
    report = derivative("report", "out", "select * from src")
    lay_out(ask.project, {"datasets/out.yaml": CHANGED, "datasets/report.yaml": report})
    text = shown(ask, "report")
    assert "  - k  STRING NOT NULL\n" in text
    assert "  + n  INT\n" in text


def test_sides_can_be_named_in_either_order(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/out.yaml": CHANGED})
    forth, back = shown(ask, "out", "head", "declared"), shown(ask, "out", "declared", "head")
    assert "+ n  INT" in forth
    assert "- n  INT" in back


def test_two_blocks_are_named_as_log_names_them(ask: Inside) -> None:
    append(ask.project, "out", SetInfo(description="mine"))
    head = str(dataset(ask.project, "out").head())
    for after in ("head", "5", head, head[-7:]):
        text = shown(ask, "out", "0", after)
        assert "SetInfo\n  +description: mine\n" in text
        assert "SetTransform\n  +inputs:\n" in text
        assert "(block 0) -> " in text


def test_an_input_is_called_by_its_name_and_an_absent_version_is_no_change(ask: Inside) -> None:
    text = shown(ask, "out", "0", "head")
    assert "  +- datasetRef: src\n" in text
    assert "No differences." in shown(ask, "out", "head", "declared")


def test_a_revision_of_git_can_be_a_side(ask: Inside) -> None:
    line = "git init -q . && git add odfbuild.yaml datasets && git -c user.name=x "
    line += "-c user.email=x@x.invalid commit -qm one"
    assert shell(line, ask.project).code == 0
    lay_out(ask.project, {"datasets/out.yaml": CHANGED})
    text = shown(ask, "out", "git:HEAD", "declared")
    assert text.startswith("out: git:HEAD (datasets/out.yaml:4:9) -> declared (")
    assert "  + n  INT\n" in text
    assert "No differences." in shown(ask, "out", "head", "git:HEAD")


def test_a_dataset_that_is_not_declared_has_no_declared_side(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/report.yaml": None, "odfbuild.yaml": "odfbuild: 1\n"})
    done = ask("diff", "report")
    assert done.code == 1
    assert "error[not-declared]: no dataset named 'report' is declared" in done.err


# rows


class Snapshots(FakeEngine):
    """An engine that merges snapshots, too."""

    def ingest(self, request: IngestRequest) -> Frame:
        merge, table = request.merge, request.source.table
        if not isinstance(merge, MergeStrategySnapshot) or table is None:
            return super().ingest(request)
        old = [row for path in request.history for row in pq.read_table(path).to_pylist()]
        rows = snapshot(old, table.to_pylist(), merge.primary_key, "t")
        op = pa.field("op", pa.int32(), nullable=False)
        return Frame.of(pa.Table.from_pylist(rows, schema=pa.schema([op, *table.schema])))


@pytest.fixture
def corrected(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Return a project in which a source brought, changed and took away rows."""
    ask = Inside(market, capsys, monkeypatch, Snapshots())
    files = {
        "odfbuild.yaml": SETTINGS,
        "datasets/snap.yaml": root(
            "snap", fetch="{kind: FilesGlob, path: snap/*.csv}", merge=SNAPSHOT
        ),
        "snap/1.csv": "t,k,v\n2024-01-01,a,1\n2024-01-01,b,2\n2024-01-01,c,3\n",
    }
    lay_out(ask.project, files)
    applied(ask)
    lay_out(ask.project, {"snap/2.csv": "t,k,v\n2024-01-02,a,1\n2024-01-02,b,5\n2024-01-02,d,4\n"})
    applied(ask)
    return ask


def test_rows_are_compared_by_the_primary_key(corrected: Inside) -> None:
    assert shown(corrected, "snap", "--data").splitlines()[1:] == [
        "  ~ k=a: t 2024-01-01 → 2024-01-02",
        "  ~ k=b: t 2024-01-01 → 2024-01-02, v 2 → 5",
        "  - t=2024-01-01, k=c, v=3",
        "  + t=2024-01-02, k=d, v=4",
        "4 rows differ in 1 slice: 1 added, 1 removed, 2 changed (by k).",
    ]


def test_rows_that_came_and_went_between_two_blocks_do_not_differ(corrected: Inside) -> None:
    text = shown(corrected, "snap", "0", "head", "--data")
    assert text.splitlines()[1:] == [
        "  + t=2024-01-02, k=a, v=1",
        "  + t=2024-01-02, k=b, v=5",
        "  + t=2024-01-02, k=d, v=4",
        "3 rows differ in 2 slices: 3 added, 0 removed, 0 changed (by k).",
    ]


def test_the_way_back_takes_away_what_the_way_there_brought(corrected: Inside) -> None:
    text = shown(corrected, "snap", "head", "0", "--data", "-n", "1")
    assert text.splitlines()[1:] == [
        "  - t=2024-01-02, k=a, v=1",
        "3 rows differ in 2 slices: 0 added, 3 removed, 0 changed (by k), 2 not shown.",
    ]


def test_without_a_key_rows_are_counted_as_wholes(ask: Inside) -> None:
    text = shown(ask, "out", "0", "head", "--data")
    assert text.splitlines()[1:] == [
        "  + t=2024-01-01, k=a, v=1",
        "  + t=2024-01-02, k=b, v=2",
        "2 rows differ in 1 slice: 2 added, 0 removed.",
    ]


def test_rows_taken_in_parts_differ_as_rows_taken_at_once(
    corrected: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("snap",), ("snap", "0", "head"), ("out", "0", "head"), ("snap", "head", "4")]
    once = [shown(corrected, *pair, "--data") for pair in pairs]
    monkeypatch.setattr(row_difference, "PART_ROWS", 1)
    assert [shown(corrected, *pair, "--data") for pair in pairs] == once


def test_equal_blocks_have_equal_rows(ask: Inside) -> None:
    assert shown(ask, "src", "head", "head", "--data").splitlines()[1:] == [
        "No differences in 0 slices."
    ]


def test_only_slices_between_the_blocks_are_read(corrected: Inside) -> None:
    first = dataset(corrected.project, "snap").slices()[0][1]
    first.unlink()
    assert "4 rows differ in 1 slice" in shown(corrected, "snap", "--data")
