"""Small files of a glob go through the engine together, and nothing in the chain shows it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.ingest import poll
from odfbuild.executors.ingest import poll as ingest
from odfbuild.executors.ingest.poll import goes_together
from odfbuild.executors.ingest.read import column_policy
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    SetPollingSource,
)
from tests.planner.builders import sql
from tests.support.engines import FakeEngine
from tests.support.workshop import Workshop, ledger

ROWS = ("2024-01-01,{},1", "2024-01-02,{},2")


class Doubting(FakeEngine):
    """Refuses a source that holds a certain key, and whatever comes with it."""

    def ingest(self, request: IngestRequest) -> Frame:
        self._look([request.source])
        return super().ingest(request)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        self._look(sources)
        return super().ingest_together(request, sources)

    def _look(self, sources: Sequence[Frame]) -> None:
        keys = [each.table["k"].to_pylist() for each in sources if each.table is not None]
        if any("bad" in each for each in keys):
            raise InvalidQueryError(what="bad", why="the test asked for it", fix="none")


def fill(shop: Workshop, keys: Sequence[str]) -> None:
    for number, key in enumerate(keys):
        shop.file(f"{number:03}.csv", *(row.format(f"{key}{i}") for i, row in enumerate(ROWS)))


def names(shop: Workshop) -> list[str]:
    """Return the files that were committed, in order."""
    return [Path(what).name for _, what in shop.watcher.lines if what.endswith(".csv")]


def test_files_taken_in_together_make_the_chain_that_single_ones_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(7)
    keys = [draw.choice("abcdef") for _ in range(40)]
    heads = []
    for most in (1, 3, 256):
        monkeypatch.setattr(poll, "MOST_FILES", most)
        shop = Workshop(tmp_path / str(most))
        shop.folder.mkdir()
        fill(shop, keys)
        report = shop.apply([ledger()])
        assert not report.failures
        assert names(shop) == [f"{number:03}.csv" for number in range(40)]
        assert verify(shop.dataset("src")).findings == ()
        blocks = [block for _, block in shop.dataset("src").blocks()]
        heads.append([(block.system_time, block.event) for block in blocks[1:]])
        assert shop.engine.asked.count("ingest") == (40 if most == 1 else most == 3)
    assert heads[0] == heads[1] == heads[2]


def test_the_files_before_one_that_cannot_be_read_stand(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    fill(shop, "abcd")
    shop.file("002.csv", "2024-01-01,c")
    ((_, failed),) = shop.apply([ledger()]).failures
    assert "002.csv" in str(failed.error)
    assert names(shop) == ["000.csv", "001.csv"]
    assert shop.engine.asked == ["ingest together"]


def test_the_files_before_one_that_the_engine_refuses_stand(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, Doubting())
    fill(shop, "abcd")
    shop.file("002.csv", "2024-01-01,bad,3")
    ((_, failed),) = shop.apply([ledger()]).failures
    assert failed.error.what == "bad"
    assert names(shop) == ["000.csv", "001.csv"]
    shop.file("002.csv", "2024-01-01,good,3")
    assert not shop.apply([ledger()]).failures
    assert names(shop) == ["000.csv", "001.csv", "002.csv", "003.csv"]


def test_a_file_with_other_columns_ends_what_goes_together(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(header=True, infer_schema=True),
        merge=MergeStrategyAppend(),
    )
    shop.file("1.csv", "2024-01-01,a,1")
    shop.file("2.csv", "2024-01-01,a,1")
    shop.file("3.csv", "2024-01-01,a,1,x", header="t,k,v,w")
    declared = ledger()
    events = tuple(
        source if isinstance(event, SetPollingSource) else event
        for event in declared.snapshot.metadata
    )
    changed = replace(declared, snapshot=replace(declared.snapshot, metadata=events))
    assert not shop.apply([changed]).failures
    assert names(shop) == ["1.csv", "2.csv", "3.csv"]
    assert shop.engine.asked == ["ingest together", "ingest"]


def test_a_large_file_is_not_read_before_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(*given: Any, name: str, **more: Any) -> Any:
        read.append(Path(name).name)
        return column_policy.read_columns(*given, name=name, **more)

    monkeypatch.setattr(ingest, "read_columns", counted)
    shop = Workshop(tmp_path)
    fill(shop, "abc")
    shop.file("001.csv", *(f"2024-01-01,{key},1" for key in range(2000)))
    monkeypatch.setattr(poll, "MOST_BYTES", 8000)
    assert not shop.apply([ledger()]).failures
    assert names(shop) == read == ["000.csv", "001.csv", "002.csv"]


def source(merge: MergeStrategy, query: str | None = None, url: bool = False) -> SetPollingSource:
    return SetPollingSource(
        fetch=FetchStepUrl(url="file:x") if url else FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(),
        preprocess=None if query is None else sql(query),
        merge=merge,
    )


@pytest.mark.parametrize(
    "query",
    [None, "select a, b + 1 as b from input where b > 0", "select explode(xs) as x from input"],
)
def test_rows_that_are_handled_for_themselves_go_together(query: str | None) -> None:
    assert goes_together(source(MergeStrategyAppend(), query))
    assert goes_together(source(MergeStrategyLedger(primary_key=("k",)), query))


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) as n from input",
        "select distinct a from input",
        "select a, row_number() over (order by a) as n from input",
        "select * from input limit 3",
        "select * from input order by a",
        "select *, uuid() as id from input",
        "select a from input x join input y on x.a = y.a",
    ],
)
def test_a_query_that_looks_at_a_file_as_a_whole_gets_each_by_itself(query: str) -> None:
    assert not goes_together(source(MergeStrategyAppend(), query))


@pytest.mark.parametrize(
    "merge",
    [
        MergeStrategySnapshot(primary_key=("k",)),
        MergeStrategyUpsertStream(primary_key=("k",)),
        MergeStrategyChangelogStream(primary_key=("k",)),
    ],
)
def test_merges_in_which_a_file_changes_what_the_next_one_meets_take_each_by_itself(
    merge: MergeStrategy,
) -> None:
    assert not goes_together(source(merge))


def test_a_url_is_one_file() -> None:
    assert not goes_together(source(MergeStrategyAppend(), url=True))
