"""odfbuild explain-row: what it says of a record, and to whom it says that there is none."""

import json
from pathlib import Path

import pytest

from odfbuild.app.inspection.explain import Traced
from odfbuild.cli.commands.read.explain_row import traced_json, traced_lines
from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.provenance.chain import origins, written_by
from odfbuild.executors.engine.spark.session import interrupted
from odfbuild.odf.events import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from tests.planner.builders import Chain, polling, schema, slice_of, sql
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside
from tests.support.projects.market import dataset, steady
from tests.support.projects.texts import derivative


def test_a_record_is_followed_to_the_files_of_its_roots(ask: Inside) -> None:
    done = ask("explain-row", "--by-block", "report", "1")
    assert done.code == 0, done.err
    lines = steady(done.out).splitlines()
    assert lines[0] == "report, offset 1"
    assert lines[1].startswith("  offset=1, op=0, system_time=")
    assert lines[3].startswith("Written by block 4, HASHHASH, at ")
    assert lines[3].endswith(": offsets 0 to 1")
    assert lines[4] == "  by spark VERSION, one row at a time:"
    assert "    select t, k, v as total from src where v > 0" in lines
    assert "  src: offsets 0 to 1 new" in lines
    at = lines.index("out: offsets 0 to 1, 1 block")
    assert lines[at + 3] == "src: offsets 0 to 1, 1 block"
    assert lines[-1] == "    from files data/*.csv, file 1.csv"
    assert not any("side" in line for line in lines)


def test_a_record_of_a_root_has_a_source_and_no_query(ask: Inside) -> None:
    lines = ask("explain-row", "src", "0").out.splitlines()
    assert lines[-1] == "  from files data/*.csv, file data/1.csv:2"
    assert len(lines) == 5


def test_a_record_of_merged_slices_may_be_of_an_earlier_source(ask: Inside, market: Path) -> None:
    (market / "data/2.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    assert ask("apply", "--yes").code == 0
    before = [ask("explain-row", "src", at).out.splitlines()[-1] for at in ("0", "2")]
    assert before == [f"  from files data/*.csv, file data/{n}.csv:2" for n in (1, 2)]
    assert ask("compact", "src", "--yes").code == 0
    for at in ("0", "2"):
        found = ask("explain-row", "src", at).out.splitlines()[-1]
        assert found == (
            "  from files data/*.csv, file 2.csv or an earlier one: slices were merged since"
        )
    assert json.loads(ask("explain-row", "src", "0", "-o", "json").out)["block"]["merged"] is True
    assert (
        json.loads(ask("explain-row", "acme/side", "0", "-o", "json").out)["block"]["merged"]
        is False
    )
    done = ask("explain-row", "out", "0").out  # it read the slices as they were
    assert "block 4" in done and "from files data/*.csv, file data/1.csv:2\n" in done


def test_programs_get_all_of_it(ask: Inside, market: Path) -> None:
    found = json.loads(ask("explain-row", "--by-block", "report", "1", "-o", "json").out)
    assert (found["dataset"], found["offset"]) == ("report", 1)
    assert found["row"]["k"] == "b"
    assert found["block"]["hash"] == str(dataset(market, "report").head())
    assert found["block"]["source"] is None
    (read,) = found["step"]["inputs"]
    assert read["new"] == read["looked_at"] == {"start": 0, "end": 1}
    assert [each["dataset"] for each in found["origins"]] == ["out", "src"]
    (block,) = found["origins"][1]["blocks"]
    assert block["source"] == {"kind": "files", "source": "data/*.csv"}
    assert block["source_state"]["value"] == "1.csv"


def test_a_record_is_followed_row_by_row(ask: Inside) -> None:
    done = ask("explain-row", "report", "1")
    assert done.code == 0, done.err
    lines = [line for line in steady(done.out).splitlines() if line]
    assert lines[5:] == [
        "  src: offsets 0 to 1 new",
        "Columns:",
        "  t      copied from src.t",
        "  k      copied from src.k",
        "  total  copied from src.v",
        "  rows by src.v",
        "Made of 1 row",
        "└─ out, offset 1: op=0, t=2024-01-02, k=b, v=2",
        "   block 4, HASHHASH, one row at a time",
        "   └─ src, offset 1: op=0, t=2024-01-02, k=b, v=2",
        "      block 4, HASHHASH, from files data/*.csv, file data/1.csv:3",
        "out was made",
        "  by spark VERSION, one row at a time:",
        "    select t, k, v from src",
        "Columns:",
        "  t  copied from src.t",
        "  k  copied from src.k",
        "  v  copied from src.v",
    ]


def test_a_query_that_names_the_operation_sees_the_columns_of_the_log(
    ask: Inside, market: Path
) -> None:
    query = "select t, k, op as was from src where op = 0"
    (market / "datasets/logged.yaml").write_text(derivative("logged", "src", query))
    assert ask("apply", "--yes").code == 0
    lines = ask("explain-row", "logged", "0").out.splitlines()
    at = lines.index("Columns:")
    assert lines[at + 3 : at + 5] == ["  was  copied from src.op", "  rows by src.op"]


def test_so_many_steps_back_are_followed_as_asked(ask: Inside) -> None:
    lines = ask("explain-row", "report", "1", "--depth", "1").out.splitlines()
    assert "   made of rows that are not followed (--depth)" in lines
    assert not any("src, offset" in line for line in lines)
    lines = ask("explain-row", "report", "1", "--rows", "0").out.splitlines()
    assert "└─ out: and 1 row more, offset 1" in lines


def test_programs_get_every_row(ask: Inside) -> None:
    why = json.loads(ask("explain-row", "report", "1", "-o", "json").out)["why"]
    assert why["exact"] is True
    assert [(each["dataset"], each["offset"], each["depth"]) for each in why["rows"]] == [
        ("report", 1, 0),
        ("out", 1, 1),
        ("src", 1, 2),
    ]
    first, _, last = why["rows"]
    (made,) = first["made_of"]
    assert (made["dataset"], made["offsets"]) == ("out", [{"start": 1, "end": 1}])
    assert first["cause"] == {
        "offsets": {"src": [{"start": 1, "end": 1}]},
        "watermark": False,
        "query": False,
    }
    assert (last["made_of"], last["exact"], last["row"]["k"]) == ([], None, "b")
    assert last["block"]["source_state"]["value"] == "1.csv"
    assert [each["dataset"] for each in why["steps"]] == ["report", "out"]
    (_, _, total) = why["steps"][0]["columns"]["made"]
    assert total == {"name": "total", "copied": True, "from": [{"input": "src", "column": "v"}]}


def test_a_record_whose_inputs_are_gone_is_told_by_its_blocks(ask: Inside, market: Path) -> None:
    for _, path in dataset(market, "src").slices():
        path.unlink()
    done = ask("explain-row", "out", "0")
    lines = done.out.splitlines()
    assert done.code == 0, done.err
    assert any(
        each.startswith(
            "Made of rows that cannot be determined: a data file of the input src is missing"
        )
        for each in lines
    )
    assert "src: offsets 0 to 1, 1 block" in lines
    assert lines[-1] == "    from files data/*.csv, file 1.csv"
    why = json.loads(ask("explain-row", "out", "0", "-o", "json").out)["why"]
    assert (why["exact"], why["rows"][0]["exact"]) == (False, False)
    assert "is missing" in why["rows"][0]["reason"]


def test_an_engine_that_fails_is_told(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise EngineFailedError(what="it broke", why="the test asked for it", fix="none")

    monkeypatch.setattr(FakeEngine, "positions", broken)
    done = ask("explain-row", "report", "1")
    assert (done.code, "it broke" in done.err, done.out) == (1, True, "")


def test_an_engine_that_is_interrupted_ends_the_command(
    ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise interrupted()

    monkeypatch.setattr(FakeEngine, "positions", stopped)
    assert ask("explain-row", "report", "1").code == 130


def test_many_blocks_are_counted_and_left_to_json() -> None:
    source = Chain("src", DatasetKind.ROOT, [schema("k BIGINT"), polling()])
    for _ in range(12):
        source.rows(1)
    id = source.state.dataset
    query = sql("select max(event_time) as event_time, k from src group by k")
    made = Chain("out", DatasetKind.DERIVATIVE, [SetTransform((TransformInput(id, "src"),), query)])
    read = ExecuteTransformInput(dataset_id=id, new_block_hash=source.state.head, new_offset=11)
    made.add(ExecuteTransform(query_inputs=(read,), new_data=slice_of(0, 0)))
    written = written_by(made.blocks, 0)
    assert written is not None
    traced = Traced(
        dataset=DatasetAlias.parse("out"),
        id=made.state.dataset,
        offset=0,
        row=None,
        written=written,
        origins=origins(lambda *_: source.blocks, made.state.dataset, written),
    )
    lines = list(traced_lines(traced, {id: DatasetAlias.parse("src")}))
    assert "  src: offsets 0 to 11 new" in lines
    assert "several rows at a time (GROUP BY):" in lines[4]
    assert lines[lines.index("src: offsets 0 to 11, 12 blocks") + 1].startswith("  block 5, ")
    assert lines[-1] == "  and 2 before these; -o json has all"
    (origin,) = traced_json(traced, {})["origins"]
    assert (len(origin["blocks"]), origin["dataset"]) == (12, None)


@pytest.mark.parametrize("offset", ["2", "100000000000"])
def test_an_offset_that_no_record_has_is_refused(offset: str, ask: Inside) -> None:
    done = ask("explain-row", "src", offset)
    assert done.code == 1
    assert "error[no-record]: the dataset 'src' has no record at offset" in done.err
    assert "its records have the offsets 0 to 1" in done.err
    assert "odfbuild show src --log" in done.err


@pytest.mark.parametrize("offset", ["-1", "x", "1.5"])
def test_what_is_no_offset_is_a_usage_error(offset: str, ask: Inside) -> None:
    assert ask("explain-row", "src", "--", offset).code == 64


def test_a_name_that_is_nearly_right_is_offered(ask: Inside) -> None:
    done = ask("explain-row", "reprot", "0")
    assert (done.code, "did you mean 'report'?" in done.err) == (1, True)


def test_a_record_whose_file_is_gone_is_traced_all_the_same(ask: Inside, market: Path) -> None:
    for _, path in dataset(market, "out").slices():
        path.unlink()
    lines = ask("explain-row", "--by-block", "out", "0").out.splitlines()
    assert lines[1] == "  its file is missing"
    assert lines[-1] == "    from files data/*.csv, file 1.csv"


def test_an_input_that_is_gone_is_said_to_be(ask: Inside, market: Path) -> None:
    (market / ".odfbuild" / "datasets" / dataset(market, "src").id.multibase / "refs").rename(
        market / "away"
    )
    lines = ask("explain-row", "--by-block", "report", "0").out.splitlines()
    assert lines[-1] == (
        "  its chain, as it was read then, is not in the workspace: no more is known"
    )
